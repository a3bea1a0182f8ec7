/* SPDX-License-Identifier: MIT */
/* The sources of pageable memory, by what the kernel says of a mapping and what glibc writes before
 * its blocks.  Mappings and words of memory are the test's; each question to the kernel is
 * counted. */
#include "base_test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/lock.h"
#include "host/maps.h"
#include "host/source.h"
#include "ledger/object.h"

#define A UINT64_C(0x7f0000000000) /* A multiple of 64 MiB. */
#define MIB ((uint64_t)1 << 20)
enum { WORDS = 130 };

extern void *stack_end;
void *stack_end;
static struct {
    uint64_t at[WORDS], word[WORDS]; /* Memory. */
    unsigned words;
    struct zc_maps_mapping mapping; /* The only one. */
    uintptr_t here, self;
    uint64_t heap, object; /* Addresses of such. */
    bool slow, locked_out;
    unsigned reads, questions, held;
} has;

static ssize_t fake_read(pid_t pid, const struct iovec *to, unsigned long n,
                         const struct iovec *from, unsigned long m, unsigned long flags)
{
    uint64_t *out = to->iov_base, at = (uint64_t)(uintptr_t)from->iov_base;
    size_t words = from->iov_len / sizeof(uint64_t);
    assert_true(pid == getpid() && n == 1 && m == 1 && flags == 0);
    assert_int_equal(to->iov_len, from->iov_len);
    has.reads++;
    for (size_t i = 0; i < words; i++) {
        unsigned k = 0;
        while (k < has.words && has.at[k] != at + 8 * i)
            k++;
        if (k == has.words) {
            errno = EFAULT;
            return i ? (ssize_t)(8 * i) : -1;
        }
        out[i] = has.word[k];
    }
    return (ssize_t)from->iov_len;
}

static bool fake_find(uint64_t address, struct zc_maps_mapping *out)
{
    has.questions++;
    if (address < has.mapping.start || address >= has.mapping.end)
        return false;
    *out = has.mapping;
    return true;
}

static bool fake_take(void)
{
    has.held += !has.locked_out;
    return !has.locked_out;
}

#define process_vm_readv fake_read
#define zc_maps_find fake_find
#define zc_maps_slow() has.slow
#define zc_hostheap_owns(address) ((address) == has.heap)
#define zc_object_find(address, out) ((void)(out), (address) == has.object)
#define zc_lock_take(lock) ((void)(lock), fake_take())
#define zc_lock_drop(lock) ((void)(lock), has.held--)
#include "lock_held_test.h"
#define pthread_self() has.self
#define __builtin_frame_address(n) has.here
#define __libc_stack_end stack_end
#include "../../shim/host/source.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&sources, 0, sizeof(sources));
    has.here = 0x1000000;
    has.self = 0x1001000;
    return 0;
}

static void put_words(uint64_t at, unsigned n, const uint64_t *words)
{
    for (unsigned i = 0; i < n; i++, has.words++) {
        assert_true(has.words < WORDS);
        has.at[has.words] = at + 8 * i;
        has.word[has.words] = words[i];
    }
}

static void put_chunk(uint64_t at, uint64_t before, uint64_t size)
{
    put_words(at, 2, (const uint64_t[]){before, size});
}

static void map(uint64_t start, uint64_t bytes, const char *name)
{
    has.mapping = (struct zc_maps_mapping){.start = start, .end = start + bytes};
    strcpy(has.mapping.name, name);
}

/* A copy to the device from an address. */
static enum zc_source told(uint64_t address)
{
    struct zc_transfer t = {.bytes = MIB};
    t.asked = (__typeof__(t.asked))zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE);
    errno = 5;
    zc_source_tell(&t, 77, address);
    assert_int_equal(errno, 5);
    assert_int_equal(t.dst_source, ZC_SOURCE_NONE);
    assert_int_equal(has.held, 0);
    return (enum zc_source)t.src_source;
}

static void a_transfer_tells_its_pageable_sides(void **state)
{
    (void)state;
    has.heap = A;
    has.object = A + 8;
    for (unsigned i = 0; i < 4; i++) {
        struct zc_transfer t = {.bytes = MIB};
        enum zc_kind src = i & 1 ? ZC_KIND_PAGEABLE : ZC_KIND_PINNED;
        enum zc_kind dst = i & 2 ? ZC_KIND_PAGEABLE : ZC_KIND_PINNED;
        t.asked = (__typeof__(t.asked))zc_flow(ZC_DIR_HTOH, src, dst);
        zc_source_tell(&t, A, A + 8);
        assert_int_equal(t.dst_source, i & 2 ? ZC_SOURCE_HEAP : ZC_SOURCE_NONE);
        assert_int_equal(t.src_source, i & 1 ? ZC_SOURCE_STATIC : ZC_SOURCE_NONE);
    }
    assert_int_equal(told(0), ZC_SOURCE_NONE);
    assert_int_equal(sources.copied, 2 * MIB); /* Of what the heap and the stack are not. */
    assert_int_equal(has.questions + has.reads, 0);
}

static void the_stack_of_the_thread_reaches_up_to_its_descriptor(void **state)
{
    static const struct {
        uint64_t here, self, end, address;
        enum zc_source source;
    } rows[] = {{0x1000000, 0x1001000, 0, 0x1000000, ZC_SOURCE_STACK},
                {0x1000000, 0x1001000, 0, 0x1000fff, ZC_SOURCE_STACK},
                {0x1000000, 0x1001000, 0, 0x1001000, ZC_SOURCE_HEAP},
                {0x1000000, 0x1001000, 0, 0xffffff, ZC_SOURCE_HEAP},
                {0x1000000, 0x4ffffff, 0, 0x4fffffe, ZC_SOURCE_STACK},
                {0x1000000, 0x5000000, 0, 0x4ffffff, ZC_SOURCE_HEAP},
                {0x1000000, 0x5000000, 0x2000000, 0x1ffffff, ZC_SOURCE_STACK},
                {0x1000000, 0x5000000, 0x2000000, 0x2000000, ZC_SOURCE_HEAP},
                {0x1000000, 0x8000000, 0x4ffffff, 0x4fffffe, ZC_SOURCE_STACK},
                {0x1000000, 0x8000000, 0x5000000, 0x4ffffff, ZC_SOURCE_HEAP},
                {0x1000000, 0x0ffffff, 0x1001000, 0x1000800, ZC_SOURCE_STACK}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.here = rows[i].here;
        has.self = rows[i].self;
        stack_end = (void *)(uintptr_t)rows[i].end;
        if (told(rows[i].address) != rows[i].source)
            fail_msg("row %u", i);
        assert_int_equal(sources.copied, rows[i].source == ZC_SOURCE_STACK ? 0 : MIB);
    }
}

static void a_mapping_tells_by_its_name(void **state)
{
    static const struct {
        const char *name;
        enum zc_source source;
    } rows[] = {{"", ZC_SOURCE_ANONYMOUS},
                {"[heap]", ZC_SOURCE_HEAP},
                {"[heap", ZC_SOURCE_ANONYMOUS},
                {"[stack]", ZC_SOURCE_STACK},
                {"[stack:12]", ZC_SOURCE_STACK},
                {"[vdso]", ZC_SOURCE_ANONYMOUS},
                {"/memfd:x (deleted)", ZC_SOURCE_SHM},
                {"/anon_hugepage (deleted)", ZC_SOURCE_SHM},
                {"/dev/zero (deleted)", ZC_SOURCE_SHM},
                {"/SYSV00000000 (deleted)", ZC_SOURCE_SHM},
                {"/dev/shm/a", ZC_SOURCE_SHM},
                {"/dev/shmem", ZC_SOURCE_FILE},
                {"/data/dev/shm/c", ZC_SOURCE_FILE},
                {"/d", ZC_SOURCE_FILE},
                {"?", ZC_SOURCE_FILE}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        map(A, 8192, rows[i].name);
        if (told(A + 4096) != rows[i].source)
            fail_msg("row %u", i);
        assert_int_equal(has.questions, 1);
        assert_int_equal(told(A), rows[i].source); /* It is remembered. */
        assert_int_equal(told(A + 8191), rows[i].source);
        assert_int_equal(has.questions, 1);
        assert_int_equal(told(A + 8192), ZC_SOURCE_HEAP); /* Nobody knows of it. */
        assert_int_equal(has.questions, 2);
    }
}

static void nothing_is_remembered_in_a_handler_that_interrupted_it(void **state)
{
    (void)state;
    map(A, 8192, "[stack]");
    has.locked_out = true;
    assert_int_equal(told(A), ZC_SOURCE_STACK);
    assert_int_equal(told(A), ZC_SOURCE_STACK);
    assert_int_equal(has.questions, 2);
    assert_int_equal(sources.next, 0);
}

/* By the words before it: bytes from the beginning of the mapping, and its size with a bit. */
static void a_block_with_a_mapping_of_its_own_is_mallocs(void **state)
{
    static const struct {
        uint64_t at, before, size;
        bool heap;
    } rows[] = {{A, 0, 0x3000 | 2, true},
                {A + 0x10, 0x10, 0x2ff0 | 2, true},
                {A + 0x2ff0, 0x2ff0, 0x1010 | 2, true},
                {A, 0, 0x1000 | 2, true},
                {A, 0, 0x3000, false},
                {A, 0, 0x3000 | 1, false},
                {A, 0, 0x3000 | 3, false},
                {A, 0, 0x3000 | 6, false},
                {A, 0, 0x2ff0 | 2, false},
                {A + 0x10, 0, 0x2ff0 | 2, false},
                {A + 0x10, 0x8, 0x2ff0 | 2, false},
                {A, -(uint64_t)0x1000, 0x3000 | 2, false},
                {A, 0, 2, false},
                {A + 0xff0, 0xff0, 0x10 | 2, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        put_chunk(rows[i].at, rows[i].before, rows[i].size);
        map(A - 0x10000, 0x100000, "[stack]"); /* It is not asked about a block of malloc's. */
        enum zc_source source = rows[i].heap ? ZC_SOURCE_HEAP : ZC_SOURCE_STACK;
        if (told(rows[i].at + 16) != source)
            fail_msg("row %u", i);
        assert_int_equal(has.questions, !rows[i].heap);
    }
    anew(NULL);
    put_chunk(A + 0x10, 0x10, 0x2ff0 | 2);
    assert_int_equal(told(A + 0x20), ZC_SOURCE_HEAP);
    assert_true(sources.ranges[0].base == A && sources.ranges[0].end == A + 0x3000);
    anew(NULL);
    put_words(A, 1, (const uint64_t[]){0}); /* The second word is not there. */
    map(A, 0x100000, "[stack]");
    assert_int_equal(told(A + 16), ZC_SOURCE_STACK);
}

/* The kernel makes one mapping of neighbours that are alike; the blocks follow each other. */
static void an_address_inside_of_such_blocks_is_found_from_the_mapping_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        put_chunk(A, 0, 0x2000 | 2);
        put_chunk(A + 0x2000, 0, 0x3000 | (i == 3 ? 1 : 2));
        map(A, 0x10000, i == 2 ? "[vvar]" : "");
        assert_int_equal(told(A + (i == 0 ? 0x1000 : 0x4fff)),
                         i < 2 ? ZC_SOURCE_HEAP : ZC_SOURCE_ANONYMOUS);
        assert_int_equal(told(A + 0x2000), i < 2 ? ZC_SOURCE_HEAP : ZC_SOURCE_ANONYMOUS);
        assert_int_equal(told(A + 0x5000), ZC_SOURCE_ANONYMOUS);
    }
    for (unsigned blocks = 1; blocks <= 63; blocks += 62) {
        anew(NULL);
        has.words = 0;
        for (unsigned i = 0; i < blocks; i++)
            put_chunk(A + 0x1000 * i, 0, 0x1000 | 2);
        map(A, 0x100000, "");
        assert_int_equal(told(A + 0x1000 * blocks - 8), ZC_SOURCE_HEAP);
        assert_int_equal(told(A + 0x1000 * blocks), ZC_SOURCE_ANONYMOUS);
    }
}

static void no_more_than_64_blocks_are_followed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++)
        put_chunk(A + 0x1000 * i, 0, 0x1000 | 2);
    map(A, 0x100000, "");
    assert_int_equal(told(A + 0x1000 * 64 - 8), ZC_SOURCE_HEAP);
    anew(NULL);
    for (unsigned i = 1; i < 64; i++)
        put_chunk(A + 0x1000 * i, 0, 0x1000 | 2);
    put_chunk(A, 0, 0x1000 | 2);
    map(A, 0x100000, "");
    has.reads = 0;
    assert_int_equal(told(A + 0x1000 * 64), ZC_SOURCE_ANONYMOUS);
    assert_int_equal(has.reads, 1 + 1 + 64); /* Before it, of an arena, and from the mapping on. */
}

/* "struct heap_info": arena, the heap before, bytes in use, bytes with rights. */
static void the_heap_that_malloc_made_for_a_thread_is_told_by_its_head(void **state)
{
    static const struct {
        uint64_t word[4];
        uint64_t offset;
        bool heap;
    } rows[] = {{{A + 0x20, 0, 0x21000, 0x21000}, 0x20fff, true},
                {{A + 0x20, 0, 0x21000, 0x21000}, 0x21000, false},
                {{A + 4095, 0, 0x21000, 0x22000}, 0x1000, true},
                {{A + 4096, 0, 0x21000, 0x22000}, 0x1000, false},
                {{A + 4096, 64 * MIB, 0x21000, 0x22000}, 0x1000, true},
                {{A + 4096, 3 * 64 * MIB, 0x21000, 0x22000}, 0x1000, true},
                {{A + 4096, 64 * MIB + 1, 0x21000, 0x22000}, 0x1000, false},
                {{0, 64 * MIB, 0x21000, 0x22000}, 0x1000, false},
                {{A + 0x20, 0, 0x21001, 0x21000}, 0x1000, false},
                {{A + 0x20, 0, 0x21000, 0x21008}, 0x1000, false},
                {{A + 0x20, 0, 64 * MIB, 64 * MIB}, 0x1000, true},
                {{A + 0x20, 0, 64 * MIB, 64 * MIB + 4096}, 0x1000, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        put_words(A, 4, rows[i].word);
        map(A, 64 * MIB, "");
        if (told(A + rows[i].offset) != (rows[i].heap ? ZC_SOURCE_HEAP : ZC_SOURCE_ANONYMOUS))
            fail_msg("row %u", i);
        anew(NULL);
        put_words(A, 4, rows[i].word);
        map(A, 64 * MIB, "[vvar]"); /* glibc's have no name. */
        assert_int_equal(told(A + rows[i].offset), ZC_SOURCE_ANONYMOUS);
    }
    anew(NULL);
    put_words(A, 3, rows[0].word);
    map(A, 64 * MIB, "");
    assert_int_equal(told(A + 0x1000), ZC_SOURCE_ANONYMOUS);
}

/* A block may come beside what the program mapped: its smaller range tells. */
static void the_smallest_range_that_is_known_tells(void **state)
{
    (void)state;
    map(A, 0x100000, "");
    assert_int_equal(told(A + 0x1000), ZC_SOURCE_ANONYMOUS);
    put_chunk(A + 0x2000, 0, 0x3000 | 2);
    assert_int_equal(told(A + 0x3000), ZC_SOURCE_ANONYMOUS);
    assert_int_equal(told(A + 0x2010), ZC_SOURCE_HEAP);
    has.words = 0;
    assert_int_equal(told(A + 0x2000), ZC_SOURCE_HEAP);
    assert_int_equal(told(A + 0x4fff), ZC_SOURCE_HEAP);
    assert_int_equal(told(A + 0x5000), ZC_SOURCE_ANONYMOUS);
    assert_int_equal(told(A + 0x1fff), ZC_SOURCE_ANONYMOUS);
    assert_int_equal(has.questions, 1);
    unsigned reads = has.reads;
    assert_int_equal(told(A + 0x2000), ZC_SOURCE_HEAP); /* Known ones are not looked at. */
    assert_int_equal(has.reads, reads);
}

static void so_many_ranges_are_remembered_and_the_oldest_is_forgotten(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++) {
        map(A + 0x10000 * i, 0x1000, "[stack]");
        assert_int_equal(told(A + 0x10000 * i), ZC_SOURCE_STACK);
    }
    assert_int_equal(has.questions, 64);
    map(0, 0, "");
    assert_int_equal(told(A), ZC_SOURCE_STACK);
    map(A + 0x10000 * 64, 0x1000, "[heap]");
    assert_int_equal(told(A + 0x10000 * 64), ZC_SOURCE_HEAP);
    assert_int_equal(told(A + 0x10000), ZC_SOURCE_STACK);
    assert_int_equal(told(A + 0x10000 * 63), ZC_SOURCE_STACK);
    assert_int_equal(told(A), ZC_SOURCE_HEAP);
    assert_int_equal(has.questions, 66);
}

static void a_slow_kernel_is_asked_as_often_as_copies_have_paid_for(void **state)
{
    (void)state;
    for (unsigned slow = 0; slow < 2; slow++) {
        anew(NULL);
        has.slow = slow;
        for (unsigned i = 0; i < 300; i++) { /* Each of 1 MiB; 64 of them pay for a question. */
            assert_int_equal(told(A + 0x1000 * i), ZC_SOURCE_HEAP);
            if (i == 255)
                assert_int_equal(has.questions, 256);
        }
        assert_int_equal(has.questions, slow ? 260 : 300);
        assert_int_equal(sources.questions, has.questions);
        sources.copied = (uint64_t)6 << 26;
        assert_int_equal(told(A), ZC_SOURCE_HEAP);
        assert_int_equal(has.questions, slow ? 261 : 301);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_transfer_tells_its_pageable_sides),
        TEST(the_stack_of_the_thread_reaches_up_to_its_descriptor),
        TEST(a_mapping_tells_by_its_name),
        TEST(nothing_is_remembered_in_a_handler_that_interrupted_it),
        TEST(a_block_with_a_mapping_of_its_own_is_mallocs),
        TEST(an_address_inside_of_such_blocks_is_found_from_the_mapping_on),
        TEST(no_more_than_64_blocks_are_followed),
        TEST(the_heap_that_malloc_made_for_a_thread_is_told_by_its_head),
        TEST(the_smallest_range_that_is_known_tells),
        TEST(so_many_ranges_are_remembered_and_the_oldest_is_forgotten),
        TEST(a_slow_kernel_is_asked_as_often_as_copies_have_paid_for),
    };
    return RUN_TESTS(tests);
}
