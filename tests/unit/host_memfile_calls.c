/* SPDX-License-Identifier: MIT */
/* Each call to the kernel by which an extent gets a file, and the CPU a private view of it, in
 * order; and what is left where one of them fails. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/memfile.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/thread.h"

/* The extent, its file's mappings, another address, and where a view is made. */
#define BASE ((char *)0x10000000)
#define VIEW ((char *)0x20000000)
#define OTHER ((char *)0x30000000)
#define COPY ((char *)0x40000000)
#define FD 0 /* A thread aside has no other. */

static struct zc_extent ext[3];
static struct {
    unsigned fails, calls; /* The call that fails, from 1 on; calls so far. */
    rlim_t most;
    uint64_t maps;
    bool no_thread, locked_out, others;
    unsigned locks, extents;
} has;
static uint32_t files;
static char trace[1024];

static bool said(const char *format, ...)
{
    size_t n = strlen(trace);
    va_list list;
    va_start(list, format);
    vsnprintf(trace + n, sizeof(trace) - n - 1, format, list);
    va_end(list);
    strcat(trace, " ");
    return ++has.calls != has.fails;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    has.calls = has.fails = 0;
    assert_int_equal(has.locks, 0);
}

/* An address as a letter, and units from there on. */
static const char *name_of(const void *address)
{
    static char text[4][24];
    static unsigned turn;
    uintptr_t at = (uintptr_t)address, region = at >> 28;
    char *out = text[turn++ % 4];
    assert_true(region < 5 && (at & 0xfffffff) % ZC_HOST_UNIT == 0);
    snprintf(out, 24, "%c%u", "0BVTC"[region], (unsigned)((at & 0xfffffff) / ZC_HOST_UNIT));
    return out;
}

static unsigned units(size_t bytes)
{
    assert_int_equal(bytes % ZC_HOST_UNIT, 0);
    return (unsigned)(bytes / ZC_HOST_UNIT);
}

static void *fake_map(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    assert_true(protection == PROT_NONE && from == 0 && flags & MAP_NORESERVE);
    assert_int_equal(!at, !(flags & MAP_FIXED));
    assert_int_equal(fd, flags & MAP_ANONYMOUS ? -1 : FD);
    bool done = said("map/%s/%u/%s%s", name_of(at), units(n),
                     flags & MAP_SHARED ? "shared" : "private", fd == FD ? "" : "/none");
    return !done ? MAP_FAILED : at ? at : VIEW;
}

static void *fake_fresh(size_t n, int rights)
{
    void *p = fake_map(NULL, n, rights, MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static int fake_unmap(void *at, size_t n)
{
    return said("unmap/%s/%u", name_of(at), units(n)) ? 0 : -1;
}

static void *fake_move(void *at, size_t n, size_t now, int flags, void *to)
{
    assert_true(flags & MREMAP_MAYMOVE && !to == !(flags & MREMAP_FIXED));
    assert_true((flags & MREMAP_DONTUNMAP) == 0 || n == now);
    bool done = said("move%s/%s/%u/%u/%s", flags & MREMAP_DONTUNMAP ? "-keep" : "", name_of(at),
                     units(n), units(now), name_of(to));
    return !done ? MAP_FAILED : to ? to : COPY;
}

static int fake_protect(void *at, size_t n, int protection)
{
    assert_int_equal(protection, PROT_READ | PROT_WRITE);
    return said("open/%s/%u", name_of(at), units(n)) ? 0 : -1;
}

static int fake_advise(void *at, size_t n, int advice)
{
    return said("%s/%s/%u",
                advice == MADV_DONTFORK     ? "dontfork"
                : advice == MADV_DOFORK     ? "dofork"
                : advice == MADV_HUGEPAGE   ? "huge"
                : advice == MADV_NOHUGEPAGE ? "small"
                                            : "?",
                name_of(at), units(n))
               ? 0
               : -1;
}

static int fake_limit(struct rlimit *out)
{
    out->rlim_cur = has.most;
    return said("limit") ? 0 : -1;
}

static int fake_stat(struct stat *out)
{
    out->st_ino = 4711;
    return said("stat") ? 0 : -1;
}

static bool fake_aside(void (*run)(void *arg), void *arg)
{
    if (!has.no_thread)
        run(arg);
    return !has.no_thread;
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void leave_heap(const bool *held)
{
    has.locks -= *held;
}

static void fake_each(void (*visit)(struct zc_extent *e, void *arg), void *arg)
{
    for (unsigned i = 0; i < has.extents; i++)
        visit(&ext[i], arg);
}

static void fake_pool(const struct zc_extent *e)
{
    said("pool%d%s", (int)(e - ext), e->no_reuse ? "/never" : "");
}

#define zc_memory_map fake_map
#define zc_memory_fresh fake_fresh
#define zc_memory_unmap fake_unmap
#define zc_memory_move fake_move
#define zc_memory_protect fake_protect
#define zc_memory_advise fake_advise
#define zc_file_close(fd) ((void)((fd) >= 0 && (assert_int_equal(fd, FD), said("close"))))
#define memfd_create(name, flags) (assert_int_equal(flags, MFD_CLOEXEC), said("file") ? FD : -1)
#define ftruncate(fd, n) (assert_int_equal(fd, FD), said("length/%u", units((size_t)(n))) ? 0 : -1)
#define getrlimit(kind, out) (assert_int_equal(kind, RLIMIT_FSIZE), fake_limit(out))
#define fstat(fd, out) (assert_int_equal(fd, FD), fake_stat(out))
#define munlock(at, n) (said("unlock/%s/%u", name_of(at), units(n)) ? 0 : -1)
#define zc_thread_aside fake_aside
#define zc_limits_maps() has.maps
#define zc_extent_files files
#define zc_extent_base(e) ((uintptr_t)BASE + (size_t)((e)-ext) * 16 * ZC_HOST_UNIT)
#define zc_extent_each fake_each
#define zc_extent_pool fake_pool
#define zc_extent_unpool(e) said("unpool%d", (int)((e)-ext))
#define zc_heap_lock fake_lock
#define zc_heap_leave leave_heap
#define zc_hostheap_mine(e) ((void)(e), !has.others)
#define zc_message(severity, code, text)                                                           \
    (assert_int_equal(severity, ZC_URGENT), said("%s: %s", code, text))
#include "../../shim/host/memfile.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(ext, 0, sizeof(ext));
    for (unsigned i = 0; i < 3; i++) {
        ext[i].units = 4;
        ext[i].use = ZC_EXTENT_BLOCK;
    }
    has.most = 4 * ZC_HOST_UNIT;
    has.maps = 64;
    has.extents = 3;
    files = 3;
    trace[0] = 0;
    return 0;
}

/* An extent with a file, of which some bytes are private. */
static void give_file(struct zc_extent *e, size_t bytes)
{
    e->view = VIEW;
    e->inode = 4711;
    e->private_bytes = bytes;
}

static void a_file_is_mapped_twice_aside_and_over_the_extent(void **state)
{
    (void)state;
    zc_memfile_open(&ext[0]);
    expect("map/00/8/private/none file limit length/4 stat map/V0/4/private dontfork/V0/4 "
           "map/V4/4/shared dontfork/V4/4 map/B0/4/shared dontfork/B0/4 close ");
    assert_true(ext[0].view == VIEW && ext[0].inode == 4711 && files == 4);
    zc_memfile_open(&ext[1]); /* Of so many mappings a sixteenth may be files. */
    expect("");
    assert_true(!ext[1].view && !ext[1].inode && files == 4);
}

static void a_file_that_can_not_be_made_leaves_the_reservation(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 13; i++) {
        anew(NULL);
        has.fails = i <= 11 ? i : 0;
        has.no_thread = i == 12;
        has.most -= i == 13;
        zc_memfile_open(&ext[0]);
        assert_true(!ext[0].view && !ext[0].inode && files == 3);
        static const char end[] = "unmap/V0/8 map/B0/4/private/none ";
        size_t n = strlen(trace), m = strlen(end);
        if (i == 1)
            expect("map/00/8/private/none ");
        else if (n < m || strcmp(trace + n - m, end))
            fail_msg("%u: %s", i, trace);
        else if (!strstr(trace, "close") != (i == 2 || i == 12))
            fail_msg("%u: %s", i, trace);
        else if (i == 13)
            expect("map/00/8/private/none file limit close unmap/V0/8 map/B0/4/private/none ");
    }
}

static void the_file_is_shown_at_another_address_or_nothing_is_there(void **state)
{
    (void)state;
    assert_false(zc_memfile_show(&ext[0], (uintptr_t)OTHER));
    expect("map/T0/4/private/none ");
    give_file(&ext[0], 0);
    assert_true(zc_memfile_show(&ext[0], (uintptr_t)OTHER));
    expect("move/V4/0/4/T0 open/T0/4 ");
    has.fails = 1;
    assert_false(zc_memfile_show(&ext[0], (uintptr_t)OTHER));
    expect("move/V4/0/4/T0 map/T0/4/private/none ");
    has.fails = 2;
    assert_false(zc_memfile_show(&ext[0], (uintptr_t)OTHER));
    expect("move/V4/0/4/T0 open/T0/4 map/T0/4/private/none ");
}

static void whole_units_become_private_in_one_step(void **state)
{
    (void)state;
    give_file(&ext[0], 0);
    assert_true(zc_memfile_make_private(&ext[0], 1));
    expect("move-keep/V0/1/1/00 huge/C0/1 unlock/C0/1 open/C0/1 move/C0/1/1/B0 ");
    assert_int_equal(ext[0].private_bytes, ZC_HOST_UNIT);
    assert_true(zc_memfile_make_private(&ext[0], ZC_HOST_UNIT));
    expect("");
    has.locked_out = true;
    assert_true(zc_memfile_make_private(&ext[0], ZC_HOST_UNIT)); /* It needs no lock. */
    has.locked_out = false;
    ext[0].small = true;
    assert_true(zc_memfile_make_private(&ext[0], 3 * ZC_HOST_UNIT));
    expect("move-keep/V1/2/2/00 small/C0/2 unlock/C0/2 open/C0/2 move/C0/2/2/B1 ");
    assert_int_equal(ext[0].private_bytes, 3 * ZC_HOST_UNIT);
    assert_true(zc_memfile_make_private(&ext[0], 3 * ZC_HOST_UNIT + 1));
    assert_int_equal(ext[0].private_bytes, 4 * ZC_HOST_UNIT);
    assert_true(!ext[0].stale && !ext[0].frozen && !ext[0].no_reuse);
}

static void what_the_kernel_refuses_stays_as_it_was(void **state)
{
    static const char *const calls[] = {
        "move-keep/V1/1/1/00 ", "move-keep/V1/1/1/00 huge/C0/1 unlock/C0/1 unmap/C0/1 ",
        "move-keep/V1/1/1/00 huge/C0/1 unlock/C0/1 open/C0/1 unmap/C0/1 ",
        "move-keep/V1/1/1/00 huge/C0/1 unlock/C0/1 open/C0/1 move/C0/1/1/B1 unmap/C0/1 "};
    (void)state;
    give_file(&ext[0], ZC_HOST_UNIT);
    for (unsigned i = 0; i < 4; i++) {
        has.fails = i ? i + 2 : 1;
        assert_false(zc_memfile_make_private(&ext[0], 2 * ZC_HOST_UNIT));
        expect(calls[i]);
        assert_int_equal(ext[0].private_bytes, ZC_HOST_UNIT);
    }
    has.fails = 2; /* Huge pages are a wish. */
    assert_true(zc_memfile_make_private(&ext[0], 2 * ZC_HOST_UNIT));
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        give_file(&ext[0], ZC_HOST_UNIT);
        ext[0].no_reuse = i == 0;
        ext[0].view = i == 1 ? NULL : VIEW;
        has.locked_out = i == 2;
        assert_false(zc_memfile_make_private(&ext[0], 2 * ZC_HOST_UNIT));
        expect("");
        assert_int_equal(ext[0].private_bytes, ZC_HOST_UNIT);
    }
}

static void a_frozen_extent_is_private_and_given_to_children(void **state)
{
    static const char whole[] =
        "move-keep/V1/3/3/00 huge/C0/3 unlock/C0/3 open/C0/3 move/C0/3/3/B1 dofork/B0/4 ";
    (void)state;
    assert_true(zc_memfile_freeze(&ext[0])); /* It has no file. */
    expect("");
    assert_true(!ext[0].frozen && !ext[0].stale);
    give_file(&ext[0], ZC_HOST_UNIT);
    has.locked_out = true;
    assert_false(zc_memfile_freeze(&ext[0]));
    expect("");
    has.locked_out = false;
    has.fails = 1;
    assert_false(zc_memfile_freeze(&ext[0]));
    expect("move-keep/V1/3/3/00 ");
    assert_true(!ext[0].frozen && !ext[0].stale);
    assert_true(zc_memfile_freeze(&ext[0]));
    expect(whole);
    assert_true(ext[0].frozen && ext[0].stale && ext[0].private_bytes == 4 * ZC_HOST_UNIT);
    has.locked_out = true; /* The second time nothing is done. */
    assert_true(zc_memfile_freeze(&ext[0]));
    expect("");
    anew(NULL);
    give_file(&ext[0], ZC_HOST_UNIT);
    has.fails = 6;
    assert_false(zc_memfile_freeze(&ext[0]));
    expect(whole);
    assert_true(ext[0].frozen && ext[0].stale);
}

static void a_freed_block_shows_its_file_again_or_is_used_no_more(void **state)
{
    (void)state;
    give_file(&ext[0], 0);
    zc_memfile_drop_private(&ext[0]); /* Nothing of it is private. */
    expect("");
    assert_true(!ext[0].stale && !ext[0].no_reuse);
    for (unsigned i = 0; i < 5; i++) {
        anew(NULL);
        give_file(&ext[0], ZC_HOST_UNIT);
        has.others = i == 0;
        ext[0].frozen = i == 1;
        ext[0].no_reuse = i == 2;
        has.fails = i == 3;
        zc_memfile_drop_private(&ext[0]);
        expect(i < 3    ? ""
               : i == 3 ? "move/V4/0/4/B0 map/B0/4/private/none "
                        : "move/V4/0/4/B0 open/B0/4 ");
        assert_int_equal(ext[0].private_bytes, i < 4 ? ZC_HOST_UNIT : 0);
        assert_true(ext[0].no_reuse == (i < 4) && ext[0].stale == (i == 4));
    }
}

static void a_fork_freezes_blocks_and_lets_nobody_have_the_pools(void **state)
{
    static const char message[] =
        "fork: the kernel gives no memory to keep host blocks of place 'shared' apart: a forked "
        "child that touches one is ended by SIGSEGV ";
    (void)state;
    for (unsigned i = 0; i < 2; i++)
        give_file(&ext[i], 3 * ZC_HOST_UNIT);
    ext[1].use = ZC_EXTENT_FREE;
    zc_memfile_before_fork();
    expect("move-keep/V3/1/1/00 huge/C0/1 unlock/C0/1 open/C0/1 move/C0/1/1/B3 dofork/B0/4 "
           "unpool1 pool1/never ");
    assert_true(ext[0].frozen && !ext[1].frozen && ext[1].no_reuse && !ext[2].no_reuse);
    anew(NULL);
    has.others = true;
    give_file(&ext[0], 0);
    zc_memfile_before_fork();
    expect("");
    has.others = false;
    give_file(&ext[1], 4 * ZC_HOST_UNIT);
    has.fails = 1;
    zc_memfile_before_fork();
    assert_non_null(strstr(trace, "move-keep/V0/4/4/00 dofork/B16/4 fork: "));
    assert_string_equal(strstr(trace, "fork: "), message);
    assert_true(!ext[0].frozen && ext[1].frozen);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_mapped_twice_aside_and_over_the_extent),
        TEST(a_file_that_can_not_be_made_leaves_the_reservation),
        TEST(the_file_is_shown_at_another_address_or_nothing_is_there),
        TEST(whole_units_become_private_in_one_step),
        TEST(what_the_kernel_refuses_stays_as_it_was),
        TEST(a_frozen_extent_is_private_and_given_to_children),
        TEST(a_freed_block_shows_its_file_again_or_is_used_no_more),
        TEST(a_fork_freezes_blocks_and_lets_nobody_have_the_pools),
    };
    return RUN_TESTS(tests);
}
