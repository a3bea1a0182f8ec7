/* SPDX-License-Identifier: MIT */
/* NUMA nodes: the calls that choose and ask them, on a machine of two. */
#include "base_test.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "log/lines.h"
#include "memory/nodes.h"

static struct {
    long number;
    int policy, answer, node[16];
    unsigned long mask, bits;
    const char *page[16];
    unsigned counted;
    uint64_t far;
} has;

static long fake_call(long number, const void *a, const void *b, const void *c, void *d)
{
    has.number = number;
    errno = 99;
    if (number == SYS_get_mempolicy)
        *(int *)(uintptr_t)a = has.policy;
    if (number == SYS_set_mempolicy) {
        has.policy = (int)(intptr_t)a;
        has.mask = b ? *(const unsigned long *)b : 0;
        has.bits = (unsigned long)(uintptr_t)c;
    }
    if (number == SYS_move_pages) {
        assert_true(!a && (uintptr_t)b == 16 && d);
        memcpy(has.page, c, sizeof(has.page));
        memcpy(d, has.node, sizeof(has.node));
    }
    return has.answer;
}

static long fake_policy(long number, const void *a, const void *b, unsigned long c)
{
    return fake_call(number, a, b, (void *)(uintptr_t)c, NULL);
}

#define FIRST_OF(a, b, c, d, e, f, g, chosen, ...) chosen
#define GET(n, a, b, c, d, e) fake_call(n, a, NULL, NULL, NULL)
#define SET(n, a, b, c) fake_policy(n, (void *)(uintptr_t)(a), b, c)
#define MOVE(n, a, b, c, d, e, f) fake_call(n, NULL, (void *)(b), c, e)
#define syscall(...) FIRST_OF(__VA_ARGS__, MOVE, GET, , SET, , , )(__VA_ARGS__)
#define zc_log_count_far(site, bytes, near)                                                        \
    (assert_true((site) == 4 && (near) < 2), has.counted++, has.far = (bytes))
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

/* Sixteen pages stand for the block. */
static void bytes_on_other_nodes_are_counted(void **state)
{
    const char *memory = (const char *)0x100000;
    const size_t bytes = 16 * 8192 + 5;
    (void)state;
    memset(&has, 0, sizeof(has));
    errno = 17;
    zc_nodes_note(4, memory + 7, bytes, 0);
    assert_int_equal(has.number, SYS_move_pages);
    for (unsigned i = 0; i < 16; i++)
        assert_ptr_equal(has.page[i], memory + i * 8192);
    assert_int_equal(has.counted, 0);
    has.node[0] = 1;
    has.node[15] = 1;
    has.node[3] = -2; /* It is not there. */
    zc_nodes_note(4, memory, bytes, 0);
    assert_true(has.counted == 1 && has.far == 2 * 8192);
    zc_nodes_note(4, memory, bytes, 1);
    assert_true(has.counted == 2 && has.far == 13 * 8192);
    has.answer = -1;
    zc_nodes_note(4, memory, bytes, 1);
    has.answer = 1;
    zc_nodes_note(4, memory, bytes, 1);
    has.answer = 0;
    has.number = 0;
    zc_nodes_note(4, memory, bytes, -1);
    assert_true(has.counted == 2 && has.number == 0);
    assert_int_equal(errno, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_come_from_anywhere_where_no_policy_is_set),
        cmocka_unit_test(a_node_is_preferred_until_none_is),
        cmocka_unit_test(bytes_on_other_nodes_are_counted),
    };
    return RUN_TESTS(tests);
}
