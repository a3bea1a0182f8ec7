/* SPDX-License-Identifier: MIT */
/* NUMA nodes: the calls that choose and ask them, on a machine of two. */
#include "base_test.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/nodes.h"

static struct {
    long number;
    int policy, answer;
    unsigned long mask, bits;
} has;

static long fake_call(long number, const void *a, const void *b, unsigned long c)
{
    has.number = number;
    errno = 99;
    if (number == SYS_get_mempolicy)
        *(int *)(uintptr_t)a = has.policy;
    if (number == SYS_set_mempolicy) {
        has.policy = (int)(intptr_t)a;
        has.mask = b ? *(const unsigned long *)b : 0;
        has.bits = c;
    }
    return has.answer;
}

#define FIRST_OF(a, b, c, d, e, f, chosen, ...) chosen
#define GET(n, a, b, c, d, e) fake_call(n, a, NULL, 0)
#define SET(n, a, b, c) fake_call(n, (void *)(uintptr_t)(a), b, c)
#define syscall(...) FIRST_OF(__VA_ARGS__, GET, , SET, , , )(__VA_ARGS__)
#include "../../shim/memory/nodes.c"

static void pages_come_from_anywhere_where_no_policy_is_set(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    errno = 17;
    assert_true(zc_nodes_anywhere());
    has.policy = 1;
    assert_false(zc_nodes_anywhere());
    has.policy = 0;
    has.answer = -1;
    assert_false(zc_nodes_anywhere());
    assert_int_equal(errno, 17);
}

static void a_node_is_preferred_until_none_is(void **state)
{
    const int nodes[] = {0, 1, 63};
    (void)state;
    memset(&has, 0, sizeof(has));
    errno = 17;
    for (unsigned i = 0; i < 3; i++) {
        zc_nodes_prefer(nodes[i]);
        assert_true(has.number == SYS_set_mempolicy && has.policy == 1);
        assert_true(has.mask == 1ul << nodes[i] && has.bits == 65);
        zc_nodes_prefer(i ? -1 : 64);
        assert_true(has.policy == 0 && has.mask == 0 && has.bits == 0);
    }
    assert_int_equal(errno, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_from_anywhere_where_no_policy_is_set),
        cmocka_unit_test(a_node_is_preferred_until_none_is),
    };
    return RUN_TESTS(tests);
}
