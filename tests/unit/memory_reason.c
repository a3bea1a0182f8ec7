/* SPDX-License-Identifier: MIT */
/* Why the kernel refused memory or a mapping, in the words that messages and the log use. */
#include "host_test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "forbid_test.h"
#include "memory/limits.h"

/* Runs a scene in a child, which says in `why` what it was told. */
static void told(void (*scene)(const char **why), const char *expected)
{
    pid_t child = fork();
    int status;
    if (child == 0) {
        const char *why = "nothing";
        scene(&why);
        if (strstr(why, expected))
            _exit(0);
        fprintf(stderr, "told: %s\n", why);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void must_forbid(unsigned call)
{
    if (!forbid(call))
        _exit(77);
}

static void limit_to(int resource, size_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    setrlimit(resource, &limit);
}

static void heap_without_mmap(const char **why)
{
    must_forbid(SYS_mmap);
    zc_hostheap_open(why);
}

static void heap_without_addresses(const char **why)
{
    limit_to(RLIMIT_AS, 200 * MIB);
    zc_hostheap_open(why);
}

/* So the kernel answers after mlockall(MCL_FUTURE): what is locked counts, reserved or not, and the
 * program is to have what the limit leaves. */
static void heap_over_memlock(const char **why)
{
    if (!forbid_from(SYS_mmap, 512 * MIB, EAGAIN))
        _exit(77);
    if (zc_hostheap_open(why))
        *why = "the heap takes what may be locked";
}

static void get(const char **why)
{
    const struct zc_host_want want = {.size = 64 * MIB};
    struct zc_slot *slot;
    zc_hostheap_get(&want, &slot, why);
}

static void block_without_mprotect(const char **why)
{
    zc_hostheap_open(why);
    must_forbid(SYS_mprotect);
    get(why);
}

static void block_without_data(const char **why)
{
    zc_hostheap_open(why);
    limit_to(RLIMIT_DATA, 32 * MIB);
    get(why);
}

static void block_without_maps(const char **why)
{
    zc_hostheap_open(why);
    for (int i = 0;; i++)
        if (mmap(NULL, 4096, i % 2 ? PROT_NONE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            break;
    get(why);
}

static void a_security_filter_is_told_as_such(void **state)
{
    (void)state;
    told(heap_without_mmap, "seccomp");
    told(block_without_mprotect, "seccomp");
}

static void a_limit_is_told_by_its_name(void **state)
{
    (void)state;
    told(heap_without_addresses, "RLIMIT_AS");
    told(block_without_data, "RLIMIT_DATA");
    told(heap_over_memlock, "RLIMIT_MEMLOCK");
}

static void the_last_mapping_is_told_by_the_limit_of_maps(void **state)
{
    (void)state;
    told(block_without_maps, "vm.max_map_count");
}

static void without_any_limit_there_is_no_memory(void **state)
{
    (void)state;
    assert_string_equal(zc_limits_reason(ENOMEM, 1), "the kernel gives no memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_security_filter_is_told_as_such),
        cmocka_unit_test(a_limit_is_told_by_its_name),
        cmocka_unit_test(the_last_mapping_is_told_by_the_limit_of_maps),
        cmocka_unit_test(without_any_limit_there_is_no_memory),
    };
    host_policy("[rule all]\napi = malloc\nplace = pinned\n");
    zc_limits_start(zc_rules());
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
