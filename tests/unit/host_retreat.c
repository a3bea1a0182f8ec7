/* SPDX-License-Identifier: MIT */
/* Page changes that a program makes in the host heap: which blocks retreat, what is passed on, and
 * that no address of the heap is ever free. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "trace_test.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "host/maps.h"
#include "host/memfile.h"
#include "host/pinned.h"
#include "host/retreat.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#define PAGE ((size_t)4096)
enum { EXTENTS = 4, PAGES = 8 }; /* Of each extent. */

/* A heap of four extents; each call leaves its name. */
static struct zc_extent extents[EXTENTS];
static char *heap;
static struct {
    bool foreign, no_maps, no_mmap, no_advice, file_mapped, shm;
    size_t map_end; /* Pages from the heap's beginning to the end of a mapping; 0: of the heap. */
    int rights;
    uint64_t masked; /* Signals that are blocked while pages change. */
} has;

/* In pages from the heap's beginning. */
static long page_of(const void *at)
{
    return ((const char *)at - heap) / (long)PAGE;
}

static uint64_t blocked_signals(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask));
    return mask;
}

static void *call_mmap(void *at, size_t n, int rights, int flags, int fd, off_t from)
{
    assert_true(fd == -1 && from == 0 && (flags & MAP_PRIVATE) && (flags & MAP_ANONYMOUS));
    say("mmap%s %ld+%zu/%d ", flags & MAP_FIXED ? "-fixed" : "", at ? page_of(at) : -1, n / PAGE,
        rights);
    if (!has.no_mmap)
        return zc_memory_map(at, n, rights, flags, fd, from);
    errno = ENOMEM;
    return MAP_FAILED;
}

static int call_munmap(void *at, size_t n)
{
    say("munmap %ld+%zu ", page_of(at), n / PAGE);
    return 0;
}

static void *call_mremap(void *at, size_t n, size_t now, int flags, void *to)
{
    (void)to;
    say("mremap %ld+%zu->%zu/%d ", page_of(at), n / PAGE, now / PAGE, flags);
    return at;
}

static int call_madvise(void *at, size_t n, int advice)
{
    say("advise %ld+%zu/%d ", page_of(at), n / PAGE, advice);
    if (n && blocked_signals())
        has.masked = blocked_signals();
    if (!has.no_advice)
        return 0;
    errno = EINVAL;
    return -1;
}

static struct zc_extent *fake_extent(uint64_t address)
{
    size_t i = (address - (uintptr_t)heap) / (PAGES * PAGE);
    return address >= (uintptr_t)heap && i < EXTENTS ? &extents[i] : NULL;
}

static uintptr_t fake_base(const struct zc_extent *e)
{
    return (uintptr_t)heap + (size_t)(e - extents) * PAGES * PAGE;
}

static enum zc_extent_pin fake_hold(struct zc_extent *e)
{
    enum zc_extent_pin pin = e->pin;
    e->pin = ZC_PIN_MAKING;
    return pin;
}

static void fake_release(struct zc_extent *e, enum zc_extent_pin pin)
{
    assert_int_equal(e->pin, ZC_PIN_MAKING);
    e->pin = pin;
    has.masked |= blocked_signals();
}

static void fake_freeze(struct zc_extent *e)
{
    say("freeze %d ", (int)(e - extents));
}

static bool fake_find(uint64_t address, struct zc_maps_mapping *out)
{
    const struct zc_extent *e = fake_extent(address);
    if (has.no_maps)
        return false;
    out->start = address;
    out->end = (uintptr_t)heap + (has.map_end ? has.map_end : EXTENTS * PAGES) * PAGE;
    has.map_end = 0;
    out->inode = has.file_mapped ? e->inode : 0;
    out->rights = has.rights;
    snprintf(out->name, sizeof(out->name), "%s", has.shm ? "/SYSV00000000" : "/memfd:libzc");
    return true;
}

static bool fake_mine(const struct zc_extent *e)
{
    assert_non_null(e);
    return !has.foreign;
}

#define zc_hostheap_extent fake_extent
#define zc_extent_base fake_base
#define zc_extent_span(e) ((void)(e), PAGES * PAGE)
#define zc_pinned_hold fake_hold
#define zc_pinned_release fake_release
#define zc_memfile_freeze fake_freeze
#define zc_maps_find fake_find
#define zc_hostheap_mine fake_mine
#include "../../shim/host/retreat.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(extents, 0, sizeof(extents));
    trace[0] = '\0';
    has.rights = PROT_READ | PROT_WRITE;
    if (!heap)
        heap = zc_memory_map(NULL, EXTENTS * PAGES * PAGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        zc_memory_map(heap, EXTENTS * PAGES * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    zc_hostheap.base = (uintptr_t)heap;
    zc_hostheap.bytes = EXTENTS * PAGES * PAGE;
    for (unsigned i = 0; i < EXTENTS; i++) {
        extents[i].use = i == 1 ? ZC_EXTENT_SLAB : ZC_EXTENT_BLOCK;
        extents[i].pin = ZC_PIN_DONE;
    }
    extents[3].use = ZC_EXTENT_FREE;
    zc_page_calls = (struct zc_page_calls){
        .mmap = call_mmap, .munmap = call_munmap, .mremap = call_mremap, .madvise = call_madvise};
    errno = 0;
    return 0;
}

static void *at(unsigned page)
{
    return heap + page * PAGE;
}

static void assert_trace(const char *expected)
{
    assert_string_equal(trace, expected);
    trace[0] = '\0';
}

static void blocks_whose_pages_change_are_the_programs_own(void **state)
{
    (void)state;
    assert_true(zc_retreat(at(7), 2 * PAGE));
    for (unsigned i = 0; i < 2; i++)
        assert_true(extents[i].no_reuse && extents[i].stale && extents[i].pin == ZC_PIN_DONE);
    assert_false(extents[2].no_reuse);
    assert_true(has.masked); /* No handler changes the same pages meanwhile. */
    assert_int_equal(blocked_signals(), 0);
    extents[2].pin = ZC_PIN_NONE;
    assert_true(zc_retreat(at(16), 1));
    assert_int_equal(extents[2].pin, ZC_PIN_REFUSED);
    assert_true(extents[2].stale);
}

static void pages_that_libzc_leaves_alone_are_not_registered_anew(void **state)
{
    (void)state;
    extents[0].pin = ZC_PIN_PROGRAM;
    extents[1].owner = &extents;
    has.foreign = true;
    extents[2].pin = ZC_PIN_NONE;
    assert_true(zc_retreat(at(16), PAGE));
    has.foreign = false;
    assert_true(zc_retreat(at(0), 16 * PAGE));
    for (unsigned i = 0; i < 3; i++)
        assert_true(extents[i].no_reuse && !extents[i].stale);
    assert_int_equal(extents[2].pin, ZC_PIN_NONE);
}

static void a_file_is_frozen_before_its_pages_change(void **state)
{
    (void)state;
    extents[0].inode = 5;
    assert_true(zc_retreat(at(0), 9 * PAGE));
    assert_trace("freeze 0 ");
}

static void where_no_block_is_the_program_sees_nothing_mapped(void **state)
{
    (void)state;
    assert_false(zc_retreat(at(20), 8 * PAGE));
    assert_int_equal(errno, ENOMEM);
    assert_true(extents[2].no_reuse);
    assert_false(extents[3].no_reuse);
    assert_int_equal(blocked_signals(), 0);
}

/* The kernel refuses them before it looks at pages, or they are more than the heap's. */
static void other_ranges_are_left_to_the_kernel(void **state)
{
    (void)state;
    assert_true(zc_retreat((char *)at(0) + 1, PAGE));
    assert_true(zc_retreat(at(0), 0));
    assert_true(zc_retreat(at(0), SIZE_MAX - 1));
    assert_true(zc_retreat(at(30), 3 * PAGE));
    assert_true(zc_retreat(heap - PAGE, 2 * PAGE));
    assert_false(extents[0].no_reuse || extents[3].no_reuse);
    extents[3].use = ZC_EXTENT_BLOCK;
    assert_true(zc_retreat(at(30), 2 * PAGE)); /* The last pages are the heap's. */
    assert_true(extents[3].no_reuse);
    assert_int_equal(zc_retreat_unmap(at(30), 3 * PAGE), 0);
    assert_trace("munmap 30+3 ");
    assert_int_equal(zc_retreat_advise(at(30), 3 * PAGE, MADV_DONTNEED), 0);
    assert_trace("advise 30+3/4 ");
    assert_ptr_equal(zc_retreat_move(at(30), 3 * PAGE, PAGE, MREMAP_MAYMOVE, NULL), at(30));
    assert_trace("mremap 30+3->1/1 ");
}

static void addresses_that_are_unmapped_stay_reserved(void **state)
{
    (void)state;
    assert_int_equal(zc_retreat_unmap(at(2), 2 * PAGE), 0);
    assert_trace("mmap-fixed 2+2/0 ");
    assert_true(extents[0].no_reuse);
    has.no_mmap = true;
    assert_int_equal(zc_retreat_unmap(at(2), 2 * PAGE), -1);
    trace[0] = '\0';
    assert_int_equal(zc_retreat_unmap(at(24), PAGE), -1);
    assert_trace("");
}

static void a_block_that_moves_keeps_its_content_and_leaves_reserved_addresses(void **state)
{
    (void)state;
    memset(at(0), 'm', 4 * PAGE);
    char *to = zc_retreat_move(at(0), 4 * PAGE, 5 * PAGE + 1, MREMAP_MAYMOVE, NULL);
    assert_true(to != MAP_FAILED && (to < heap || to >= heap + EXTENTS * PAGES * PAGE));
    assert_trace("mmap -1+6/3 mmap-fixed 0+4/0 ");
    assert_true(to[0] == 'm' && to[4 * PAGE - 1] == 'm' && to[4 * PAGE] == 0);
    to[6 * PAGE - 1] = 1;
    zc_memory_unmap(to, 6 * PAGE);
    assert_true(extents[0].no_reuse);
}

static void it_has_the_rights_that_it_had_there(void **state)
{
    unsigned char there;
    (void)state;
    has.rights = PROT_READ;
    memset(at(1), 'r', PAGE);
    char *to = zc_retreat_move(at(1), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    assert_trace("mmap -1+1/3 mmap-fixed 1+1/1 ");
    assert_true(to != MAP_FAILED && to[0] == 'r');
    assert_int_equal(mincore(to, PAGE, &there), 0);
    int ends[2]; /* read(2) can't write there. */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "w", 1), 1);
    assert_int_equal(read(ends[0], to, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    zc_memory_unmap(to, PAGE);
}

static void it_moves_to_where_the_program_says(void **state)
{
    char *there = zc_memory_map(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    (void)state;
    memset(at(0), 'f', 2 * PAGE);
    assert_ptr_equal(zc_retreat_move(at(0), 2 * PAGE, PAGE, flags, there), there);
    assert_true(there[0] == 'f' && there[PAGE - 1] == 'f');
    trace[0] = '\0';
    assert_ptr_equal(zc_retreat_move(at(0), 2 * PAGE, 2 * PAGE, flags, at(1)), MAP_FAILED);
    assert_int_equal(errno, EINVAL);
    assert_ptr_equal(zc_retreat_move(at(1), 2 * PAGE, 2 * PAGE, flags, at(0)), MAP_FAILED);
    assert_int_equal(errno, EINVAL);
    assert_trace("");
    assert_ptr_equal(zc_retreat_move(at(2), 2 * PAGE, 2 * PAGE, flags, at(4)), at(4));
    assert_ptr_equal(zc_retreat_move(at(6), 2 * PAGE, 2 * PAGE, flags, at(4)), at(4));
    zc_memory_unmap(there, 4 * PAGE);
}

static void what_can_not_move_stays(void **state)
{
    (void)state;
    has.no_maps = true;
    assert_ptr_equal(zc_retreat_move(at(0), 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL), MAP_FAILED);
    assert_int_equal(errno, EFAULT);
    has.no_maps = false;
    has.map_end = 1; /* Two mappings. */
    assert_ptr_equal(zc_retreat_move(at(0), 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL), MAP_FAILED);
    assert_int_equal(errno, EFAULT);
    assert_false(extents[0].no_reuse);
    assert_ptr_equal(zc_retreat_move(at(0), 2 * PAGE, 3 * PAGE, 0, NULL), MAP_FAILED);
    assert_int_equal(errno, ENOMEM); /* Another mapping follows. */
    assert_ptr_equal(zc_retreat_move(at(24), 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL), MAP_FAILED);
    assert_trace("");
    has.no_mmap = true;
    memset(at(0), 's', PAGE);
    assert_ptr_equal(zc_retreat_move(at(0), PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL), MAP_FAILED);
    assert_int_equal(*(char *)at(0), 's');
    has.map_end = 2; /* One mapping that ends there. */
    has.no_mmap = false;
    char *to = zc_retreat_move(at(0), 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL);
    assert_true(to != MAP_FAILED && to[0] == 's');
    zc_memory_unmap(to, 3 * PAGE);
}

static void a_block_that_shrinks_stays_and_its_end_is_reserved(void **state)
{
    (void)state;
    assert_ptr_equal(zc_retreat_move(at(0), 4 * PAGE, 4 * PAGE - 5, 0, NULL), at(0));
    assert_ptr_equal(zc_retreat_move(at(0), 4 * PAGE - 5, 4 * PAGE - 9, 0, NULL), at(0));
    assert_trace("");
    assert_ptr_equal(zc_retreat_move(at(0), 4 * PAGE, PAGE, MREMAP_MAYMOVE, NULL), at(0));
    assert_trace("mmap-fixed 1+3/0 ");
    has.no_mmap = true;
    assert_ptr_equal(zc_retreat_move(at(0), 4 * PAGE, PAGE, 0, NULL), MAP_FAILED);
    trace[0] = '\0';
    assert_ptr_equal(zc_retreat_move(at(0), PAGE, 0, 0, NULL), at(0)); /* The kernel's. */
    assert_trace("mremap 0+1->0/0 ");
}

static void what_moves_over_the_heap_makes_its_blocks_retreat(void **state)
{
    char *from = heap + EXTENTS * PAGES * PAGE;
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    (void)state;
    zc_retreat_move(from, PAGE, PAGE, flags, at(8));
    assert_trace("mremap 32+1->1/3 ");
    assert_true(extents[1].no_reuse);
    assert_ptr_equal(zc_retreat_move(from, PAGE, PAGE, flags, at(24)), MAP_FAILED);
    assert_trace("");
    zc_retreat_move(from, PAGE, PAGE, MREMAP_MAYMOVE, at(16)); /* The kernel ignores that one. */
    assert_false(extents[2].no_reuse);
}

static void advice_that_leaves_pages_the_same_leaves_blocks_alone(void **state)
{
    static const int harmless_ones[] = {MADV_NORMAL,   MADV_RANDOM,        MADV_SEQUENTIAL,
                                        MADV_WILLNEED, MADV_HUGEPAGE,      MADV_COLD,
                                        MADV_PAGEOUT,  MADV_POPULATE_READ, MADV_POPULATE_WRITE};
    char expected[60];
    (void)state;
    for (unsigned i = 0; i < sizeof(harmless_ones) / sizeof(harmless_ones[0]); i++) {
        assert_int_equal(zc_retreat_advise(at(1), PAGE, harmless_ones[i]), 0);
        snprintf(expected, sizeof(expected), "advise 1+0/%d advise 1+1/%d ", harmless_ones[i],
                 harmless_ones[i]);
        assert_trace(expected);
    }
    assert_false(extents[0].no_reuse);
    has.no_advice = true; /* The kernel does not know it. */
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTFORK), -1);
    assert_false(extents[0].no_reuse);
    has.no_advice = false;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTFORK), 0);
    assert_true(extents[0].no_reuse);
}

static void pages_that_are_given_up_really_go(void **state)
{
    (void)state;
    assert_int_equal(zc_retreat_advise(at(6), 4 * PAGE, MADV_DONTNEED), 0);
    assert_trace("advise 6+2/4 advise 8+2/4 ");
    assert_true(extents[0].no_reuse && extents[1].no_reuse && has.masked);
    extents[2].pin = ZC_PIN_NONE; /* Neither the driver nor a device block knows them. */
    assert_int_equal(zc_retreat_advise(at(16), PAGE, MADV_DONTNEED), 0);
    assert_false(extents[2].no_reuse);
    extents[2].pin = ZC_PIN_DONE;
    has.foreign = true;
    trace[0] = '\0';
    assert_int_equal(zc_retreat_advise(at(16), PAGE, MADV_DONTNEED), 0);
    assert_false(extents[2].no_reuse);
    extents[2].owner = &extents; /* Pinned memory of the driver keeps its pages. */
    trace[0] = '\0';
    assert_int_equal(zc_retreat_advise(at(16), PAGE, MADV_DONTNEED), 0);
    assert_trace("");
    assert_int_equal(zc_retreat_advise(at(24), PAGE, MADV_DONTNEED), -1);
    assert_int_equal(errno, ENOMEM);
    has.no_advice = true;
    extents[2].owner = NULL;
    assert_int_equal(zc_retreat_advise(at(16), PAGE, MADV_DONTNEED), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(zc_retreat_advise(at(16), PAGE, MADV_DONTNEED_LOCKED), -1);
}

/* The kernel would show the file again. */
static void pages_of_a_file_that_are_given_up_are_mapped_anew(void **state)
{
    (void)state;
    extents[0].inode = 5;
    has.file_mapped = true;
    has.rights = PROT_READ;
    assert_int_equal(zc_retreat_advise(at(1), 2 * PAGE, MADV_FREE), 0);
    assert_trace("freeze 0 mmap-fixed 1+2/1 ");
    has.map_end = 2;
    assert_int_equal(zc_retreat_advise(at(1), 2 * PAGE, MADV_DONTNEED), 0);
    assert_trace("freeze 0 mmap-fixed 1+1/1 mmap-fixed 2+1/1 ");
    has.file_mapped = false; /* The program's own mapping. */
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTNEED), 0);
    assert_trace("freeze 0 advise 1+1/4 ");
    has.file_mapped = has.shm = true; /* With that number, of another file system. */
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTNEED), 0);
    assert_trace("freeze 0 advise 1+1/4 ");
    has.no_maps = true;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTNEED), -1);
    assert_int_equal(errno, ENOMEM);
    has.no_maps = has.shm = false;
    has.no_mmap = true;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_DONTNEED), -1);
}

static void of_a_file_and_of_other_memory_the_kernel_has_other_answers(void **state)
{
    (void)state;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_FREE), 0);
    assert_trace("advise 1+0/8 advise 1+1/8 ");
    assert_true(extents[0].no_reuse);
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_REMOVE), 0);
    trace[0] = '\0';
    extents[0].inode = 5;
    has.file_mapped = true;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_REMOVE), -1);
    assert_int_equal(errno, EINVAL);
    assert_trace("");
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_GUARD_INSTALL), 0);
    assert_trace("advise 1+0/102 freeze 0 mmap-fixed 1+1/3 freeze 0 advise 1+1/102 ");
    has.no_mmap = true;
    assert_int_equal(zc_retreat_advise(at(1), PAGE, MADV_GUARD_INSTALL), -1);
    assert_trace("advise 1+0/102 freeze 0 mmap-fixed 1+1/3 ");
    assert_int_equal(zc_retreat_advise(at(8), PAGE, MADV_GUARD_INSTALL), 0);
    assert_trace("advise 8+0/102 advise 8+1/102 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(blocks_whose_pages_change_are_the_programs_own, anew),
        cmocka_unit_test_setup(pages_that_libzc_leaves_alone_are_not_registered_anew, anew),
        cmocka_unit_test_setup(a_file_is_frozen_before_its_pages_change, anew),
        cmocka_unit_test_setup(where_no_block_is_the_program_sees_nothing_mapped, anew),
        cmocka_unit_test_setup(other_ranges_are_left_to_the_kernel, anew),
        cmocka_unit_test_setup(addresses_that_are_unmapped_stay_reserved, anew),
        cmocka_unit_test_setup(a_block_that_moves_keeps_its_content_and_leaves_reserved_addresses,
                               anew),
        cmocka_unit_test_setup(it_has_the_rights_that_it_had_there, anew),
        cmocka_unit_test_setup(it_moves_to_where_the_program_says, anew),
        cmocka_unit_test_setup(what_can_not_move_stays, anew),
        cmocka_unit_test_setup(a_block_that_shrinks_stays_and_its_end_is_reserved, anew),
        cmocka_unit_test_setup(what_moves_over_the_heap_makes_its_blocks_retreat, anew),
        cmocka_unit_test_setup(advice_that_leaves_pages_the_same_leaves_blocks_alone, anew),
        cmocka_unit_test_setup(pages_that_are_given_up_really_go, anew),
        cmocka_unit_test_setup(pages_of_a_file_that_are_given_up_are_mapped_anew, anew),
        cmocka_unit_test_setup(of_a_file_and_of_other_memory_the_kernel_has_other_answers, anew)};
    return RUN_TESTS(tests);
}
