/* SPDX-License-Identifier: MIT */
/* Blocks of the host heap whose memory is a file. */
#include "host_test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/module.h"
#include "host/hostheap.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/retreat.h"
#include "memory/limits.h"

#define SIZE (4 * MIB)

extern const struct zc_module zc_module_hostheap;

static struct zc_extent *extent;

/* PROCMAP_QUERY, which tells of a mapping the inode in word INODE of 13; and one that stands for
 * another. */
#define QUERY _IOWR('f', 17, uint64_t[13])
#define INODE 8
static uint64_t inode, stands_for;

int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    uint64_t *argument = va_arg(list, uint64_t *);
    va_end(list);
    int result = (int)syscall(SYS_ioctl, fd, request, argument);
    if (request == QUERY && result == 0 && inode && argument[INODE] == inode)
        argument[INODE] = stands_for;
    return result;
}

static void fork_nothing(void)
{
    zc_module_hostheap.before_fork();
    zc_module_hostheap.after_fork();
}

static char *get_bytes(size_t size, bool shareable)
{
    const struct zc_host_want want = {.size = size, .alignment = 1, .shareable = shareable};
    struct zc_slot *slot;
    const char *why = NULL;
    char *p = zc_hostheap_get(&want, &slot, &why);
    if (!p)
        fail_msg("no block: %s", why);
    extent = zc_hostheap_extent((uintptr_t)p);
    return p;
}

static char *get(bool shareable)
{
    return get_bytes(SIZE, shareable);
}

/* The same memory at another address. */
static char *alias(void *p)
{
    char *again = mremap(p, 0, SIZE, MREMAP_MAYMOVE);
    assert_true(again != MAP_FAILED);
    return again;
}

static void free_both(char *p, char *again)
{
    if (again)
        munmap(again, SIZE);
    zc_hostheap_put(p);
}

/* Gives the pool's memory back. */
static void drop_pool(void)
{
    struct zc_extent *e;
    while ((e = zc_hostheap_surplus(false, true)))
        zc_hostheap_drop(e);
    assert_int_equal(zc_hostheap_pooled(), 0);
}

static void a_shareable_block_shows_the_same_at_a_second_address(void **state)
{
    char *p = get(true), *again = alias(p);
    (void)state;
    assert_true(zc_memfile_shareable(extent));
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(p[i], 0);
    p[SIZE - 1] = 1;
    again[0] = 2;
    assert_int_equal(again[SIZE - 1], 1);
    assert_int_equal(p[0], 2);
    free_both(p, again);
    drop_pool();
}

static void only_a_shareable_block_gets_such_memory_again(void **state)
{
    char *p = get(true);
    const struct zc_extent *first = extent;
    uint64_t first_inode = extent->inode;
    (void)state;
    zc_hostheap_put(p);
    char *other = get(false);
    assert_int_equal(extent->inode, 0);
    assert_ptr_not_equal(extent, first);
    zc_hostheap_put(other);
    p = get(true);
    assert_ptr_equal(extent, first);
    assert_int_equal(extent->inode, first_inode);
    zc_hostheap_put(p);
    drop_pool();
}

/* Of vm.max_map_count a sixteenth may be files, at a time. */
static void files_that_are_gone_make_room_for_others(void **state)
{
    (void)state;
    zc_extent_files = (uint32_t)(zc_limits_maps() / 16) - 1;
    for (int i = 0; i < 3; i++) {
        char *p = get(true), *other = get(true);
        const struct zc_extent *second = zc_hostheap_extent((uintptr_t)other);
        assert_int_not_equal(zc_hostheap_extent((uintptr_t)p)->inode, 0);
        assert_int_equal(second->inode, 0);
        zc_hostheap_put(p);
        zc_hostheap_put(other);
        drop_pool();
    }
    zc_extent_files = 0;
}

static void small_blocks_are_never_shareable(void **state)
{
    char *p = get_bytes(200000, true);
    (void)state;
    assert_int_equal(extent->inode, 0);
    zc_hostheap_put(p);
    drop_pool();
}

static void a_frozen_block_keeps_its_content_and_shows_no_more_of_it(void **state)
{
    char *p = get(true), *again = alias(p);
    (void)state;
    memset(p, 1, SIZE);
    fork_nothing();
    assert_false(zc_memfile_shareable(extent));
    assert_true(extent->stale && !extent->no_reuse);
    p[0] = p[SIZE - 1] = 2;
    for (size_t i = 1; i < SIZE - 1; i++)
        assert_int_equal(p[i], 1);
    assert_int_equal(again[0], 1);
    assert_int_equal(again[SIZE - 1], 1);
    assert_true(zc_memfile_freeze(extent));
    assert_int_equal(p[0], 2); /* The second time nothing is done. */
    free_both(p, again);
    assert_true(extent->no_reuse); /* Nobody gets it again. */
    drop_pool();
}

/* Memory behind the private part goes on being shown, and more may become private later. */
static void a_block_parts_from_its_beginning_on(void **state)
{
    char *p = get(true), *again = alias(p);
    (void)state;
    memset(p, 1, SIZE);
    assert_true(zc_memfile_make_private(extent, 1));
    assert_int_equal(extent->private_bytes, 2 * MIB);
    p[0] = p[2 * MIB] = 2;
    assert_int_equal(again[0], 1);
    assert_int_equal(again[2 * MIB], 2);
    assert_true(zc_memfile_make_private(extent, 2 * MIB));
    assert_int_equal(p[0], 2);
    assert_true(zc_memfile_make_private(extent, SIZE));
    p[2 * MIB] = 3;
    assert_int_equal(again[2 * MIB], 2);
    assert_int_equal(p[0], 2);
    assert_true(zc_memfile_shareable(extent));
    free_both(p, NULL);
    assert_int_equal(extent->private_bytes, 0); /* The next owner writes the file again. */
    p = get(true);
    p[5] = 4;
    assert_int_equal(again[5], 4);
    free_both(p, again);
    drop_pool();
}

/* A second address shows what the file keeps. */
static void a_view_with_its_own_pages_leaves_none_in_the_file_but_for_a_child(void **state)
{
    for (int forked = 0; forked < 2; forked++) {
        char *p = get(true), *again = alias(p);
        (void)state;
        memset(p, 1, SIZE);
        zc_memfile_forget(extent, 0, SIZE); /* Nothing is private. */
        assert_int_equal(again[0], 1);
        assert_true(zc_memfile_freeze(extent));
        if (forked)
            fork_nothing();
        memset(p, 2, SIZE);
        zc_memfile_forget(extent, MIB, MIB);
        assert_int_equal(again[MIB - 1], 1);
        assert_int_equal(again[MIB], forked);
        assert_int_equal(again[2 * MIB - 1], forked);
        assert_int_equal(again[2 * MIB], 1);
        assert_int_equal(p[MIB], 2);
        free_both(p, again);
        drop_pool();
    }
}

/* No other block may get it, so that it would stay for ever. */
static void memory_that_a_fork_found_in_the_pool_is_given_back(void **state)
{
    char *p = get(true), *q = get(true);
    (void)state;
    zc_hostheap_put(p);
    fork_nothing();
    struct zc_extent *freed = zc_hostheap_surplus(false, false);
    assert_ptr_equal(freed, zc_hostheap_extent((uintptr_t)p));
    zc_hostheap_drop(freed);
    zc_hostheap_put(q); /* Gives back what is like that itself. */
    assert_int_equal(zc_hostheap_pooled(), 0);
}

/* A fork leaves its mappings, and tells of them. */
static void a_block_that_the_program_has_changed_is_mapped_no_more(void **state)
{
    char *p = get(true);
    (void)state;
    assert_true(mmap(p + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) != MAP_FAILED);
    char *again = mremap(p + 4096, 0, 4096, MREMAP_MAYMOVE);
    assert_true(extent->no_reuse && extent->private_bytes == SIZE);
    assert_false(zc_memfile_shareable(extent));
    fork_nothing();
    p[4096] = 3;
    assert_int_equal(again[0], 3);
    munmap(again, 4096);
    zc_hostheap_put(p);
    p = get(true);
    extent->no_reuse = true; /* As where the kernel refused the view then. */
    assert_false(zc_memfile_freeze(extent) || zc_memfile_make_private(extent, SIZE));
    zc_hostheap_put(p);
    drop_pool();
}

/* Programs close descriptors that they do not know. */
/* Numbers of inodes are a file system's own, and those of System V segments their ids. */
static void another_file_of_the_same_number_is_discarded_as_itself(void **state)
{
    char *p = get(true);
    int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat stat;
    (void)state;
    assert_int_equal(0, fstat(program, &stat));
    inode = (uint64_t)stat.st_ino;
    stands_for = extent->inode;
    assert_true(zc_retreat(p + MIB, 4096)); /* As before an mmap(2) of the program's. */
    assert_ptr_equal(
        p + MIB, mmap(p + MIB, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, program, 0));
    p[MIB] = 1;
    assert_int_equal(0, zc_retreat_advise(p + MIB, 4096, MADV_DONTNEED));
    assert_memory_equal(p + MIB, "\177ELF", 4);
    inode = 0;
    close(program);
    zc_hostheap_put(p);
    drop_pool();
}

static void a_block_has_no_descriptor(void **state)
{
    int before = open("/dev/null", O_RDONLY), after;
    (void)state;
    close(before);
    char *p = get(true);
    after = open("/dev/null", O_RDONLY);
    close(after);
    assert_int_equal(after, before);
    assert_true(zc_memfile_shareable(extent));
    zc_hostheap_put(p);
    drop_pool();
}

static rlim_t data_bytes(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), status))
        sscanf(line, "VmData: %lu", &kib);
    fclose(status);
    return kib << 10;
}

static bool part_with(size_t room)
{
    struct rlimit before, now;
    getrlimit(RLIMIT_DATA, &before);
    now = before;
    now.rlim_cur = data_bytes() + room;
    assert_int_equal(setrlimit(RLIMIT_DATA, &now), 0);
    bool done = zc_memfile_make_private(extent, SIZE);
    setrlimit(RLIMIT_DATA, &before);
    return done;
}

/* RLIMIT_DATA counts what may be written of a private view. */
static void a_block_without_room_for_its_private_view_stays_mapped(void **state)
{
    (void)state;
    char *p = get(true);
    memset(p, 1, SIZE);
    assert_false(part_with(SIZE / 2));
    assert_int_equal(p[0], 1);
    assert_int_equal(p[SIZE - 1], 1);
    assert_true(part_with(SIZE + SIZE / 2)); /* For one, and not for two. */
    assert_int_equal(p[0], 1);
    assert_int_equal(p[SIZE - 1], 1);
    free_both(p, NULL);
    drop_pool();
}

static void private_under(int resource, rlim_t limit)
{
    struct rlimit before, now;
    getrlimit(resource, &before);
    now = before;
    now.rlim_cur = limit;
    assert_int_equal(setrlimit(resource, &now), 0);
    char *p = get(true);
    setrlimit(resource, &before);
    assert_int_equal(extent->inode, 0);
    assert_false(zc_memfile_shareable(extent));
    memset(p, 1, SIZE);
    zc_hostheap_put(p);
    drop_pool();
}

static void a_limit_on_files_leaves_a_block_private(void **state)
{
    (void)state;
    private_under(RLIMIT_FSIZE, SIZE - 1);
    private_under(RLIMIT_NOFILE, 0);
    char *p = get(true); /* The limits count files that there are. */
    assert_true(zc_memfile_shareable(extent));
    zc_hostheap_put(p);
    drop_pool();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shareable_block_shows_the_same_at_a_second_address),
        cmocka_unit_test(only_a_shareable_block_gets_such_memory_again),
        cmocka_unit_test(files_that_are_gone_make_room_for_others),
        cmocka_unit_test(small_blocks_are_never_shareable),
        cmocka_unit_test(a_frozen_block_keeps_its_content_and_shows_no_more_of_it),
        cmocka_unit_test(memory_that_a_fork_found_in_the_pool_is_given_back),
        cmocka_unit_test(a_block_parts_from_its_beginning_on),
        cmocka_unit_test(a_view_with_its_own_pages_leaves_none_in_the_file_but_for_a_child),
        cmocka_unit_test(a_block_that_the_program_has_changed_is_mapped_no_more),
        cmocka_unit_test(another_file_of_the_same_number_is_discarded_as_itself),
        cmocka_unit_test(a_block_has_no_descriptor),
        cmocka_unit_test(a_block_without_room_for_its_private_view_stays_mapped),
        cmocka_unit_test(a_limit_on_files_leaves_a_block_private),
    };
    host_policy("[rule all]\napi = malloc\nplace = shared\n"
                "[rule device]\napi = cudaMalloc\nplace = shared\naccess = read\n");
    zc_hostmem_ready();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
