/* SPDX-License-Identifier: MIT */
/* Changes that the program makes to pages: blocks retreat before, all else passes through. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "driver/real.h"
#include "hook/process.h"
#include "host/maps.h"
#include "place/hostmem.h"

#define HEAP ((char *)0x10000000) /* The host heap's pages. */
#define HEAP_BYTES ((size_t)1 << 20)
#define AWAY ((char *)0x20000000)
#define SEGMENT ((size_t)12288)

/* Every call leaves its name and arguments; the results are told. */
static struct {
    char log[512];
    bool stays; /* A block can't retreat. */
    int result;
    long pid;       /* Of a process's descriptor; 0: none. */
    int refuses;    /* process_madvise(2) of no ranges does. */
    unsigned fails; /* The number of the advice that fails. */
    unsigned advised;
    bool no_segment;
    unsigned mappings; /* Those of a segment behind each other. */
    unsigned other;    /* The number of the mapping that is of another file, or name. */
    bool other_name, no_inode;
    char asked[64];
} has;

static void note(const char *fmt, ...)
{
    va_list args;
    size_t at = strlen(has.log);
    va_start(args, fmt);
    vsnprintf(has.log + at, sizeof(has.log) - at, fmt, args);
    va_end(args);
}

static bool fake_meets(const void *at, size_t n)
{
    return (uintptr_t)at < (uintptr_t)HEAP + HEAP_BYTES && (uintptr_t)at + n > (uintptr_t)HEAP;
}

static bool fake_retreat(const void *at, size_t n)
{
    note("retreat %p %zu;", at, n);
    errno = has.stays ? EINVAL : errno;
    return !has.stays;
}

static int fake_unmap(void *at, size_t n)
{
    note("unmap %p %zu;", at, n);
    return has.result;
}

static void *fake_move(void *at, size_t n, size_t now, int flags, void *to)
{
    note("move %p %zu %zu %d %p;", at, n, now, flags, to);
    return (void *)0x7000;
}

static int fake_advise(void *at, size_t n, int advice)
{
    note("advise %p %zu %d;", at, n, advice);
    return ++has.advised == has.fails ? -1 : has.result;
}

static void *its_mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    note("mmap %p %zu %d %d %d %ld;", at, n, protection, flags, fd, (long)from);
    return (void *)0x5000;
}

static int its_munmap(void *at, size_t n)
{
    note("munmap %p %zu;", at, n);
    return has.result;
}

static void *its_mremap(void *at, size_t n, size_t now, int flags, void *to)
{
    note("mremap %p %zu %zu %d %p;", at, n, now, flags, to);
    return (void *)0x6000;
}

static int its_mprotect(void *at, size_t n, int protection)
{
    note("mprotect %p %zu %d;", at, n, protection);
    return has.result;
}

static int its_pkey_mprotect(void *at, size_t n, int protection, int key)
{
    note("pkey %p %zu %d %d;", at, n, protection, key);
    return has.result;
}

static int its_madvise(void *at, size_t n, int advice)
{
    note("madvise %p %zu %d;", at, n, advice);
    return ++has.advised == has.fails ? -1 : has.result;
}

static long fake_syscall(long number, ...)
{
    long a[5];
    va_list args;
    va_start(args, number);
    for (unsigned i = 0; i < (number == SYS_process_madvise ? 5 : number == SYS_shmat ? 3 : 1); i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_process_madvise) {
        note("process %d %ld %ld %ld;", (int)a[0], a[2], a[3], a[4]);
        return a[2] ? has.result : has.refuses;
    }
    if (number == SYS_shmat)
        note("shmat %ld %p %ld;", a[0], (void *)a[1], a[2]);
    else
        note("shmdt %p;", (void *)a[0]);
    return has.result;
}

static int fake_shmctl(int id, int op, struct shmid_ds *out)
{
    assert_true(id == 4 && op == IPC_STAT);
    out->shm_segsz = SEGMENT;
    return has.no_segment ? -1 : 0;
}

static bool fake_number(const char *path, const char *name, uint64_t *out)
{
    snprintf(has.asked, sizeof(has.asked), "%s", path);
    assert_string_equal(name, "Pid:\t");
    *out = (uint64_t)has.pid;
    return has.pid != 0;
}

/* A segment at HEAP + 4096, of mappings of a page each. */
static bool fake_find(uintptr_t address, struct zc_maps_mapping *out)
{
    uintptr_t start = (uintptr_t)HEAP + 4096;
    if (address < start || address >= start + has.mappings * 4096)
        return false;
    unsigned i = (unsigned)((address - start) / 4096);
    out->start = start + i * 4096;
    out->end = out->start + 4096;
    out->inode = has.no_inode ? 0 : i + 1 == has.other && !has.other_name ? 8 : 7;
    snprintf(out->name, sizeof(out->name), "%s",
             i + 1 == has.other && has.other_name ? "other" : "segment");
    return true;
}

static void *fake_dlsym(void *handle, const char *name)
{
    assert_ptr_equal(handle, RTLD_NEXT);
    note("%s ", name);
    return strcmp(name, "mprotect") == 0  ? (void *)its_mprotect
           : strcmp(name, "madvise") == 0 ? (void *)its_madvise
           : strcmp(name, "munmap") == 0  ? (void *)its_munmap
                                          : NULL;
}

#define zc_retreat_meets fake_meets
#define zc_retreat fake_retreat
#define zc_retreat_unmap fake_unmap
#define zc_retreat_move fake_move
#define zc_retreat_advise fake_advise
#define zc_file_number fake_number
#define zc_maps_find fake_find
#define zc_real_dlsym fake_dlsym
#define syscall fake_syscall
#define shmctl fake_shmctl
/* The library's functions have names of their own here. */
#define __asm__(name)
#define mmap hook_mmap
#define mmap64 hook_mmap64
#define munmap hook_munmap
#define mprotect hook_mprotect
#define pkey_mprotect hook_pkey_mprotect
#define madvise hook_madvise
#define process_madvise hook_process_madvise
#define shmat hook_shmat
#define shmdt hook_shmdt
#define zc_page_calls calls

static struct {
    void *(*mmap)(void *at, size_t n, int protection, int flags, int fd, off_t from);
    int (*munmap)(void *at, size_t n);
    void *(*mremap)(void *at, size_t n, size_t now, int flags, void *to);
    int (*mprotect)(void *at, size_t n, int protection);
    int (*pkey_mprotect)(void *at, size_t n, int protection, int key);
    int (*madvise)(void *at, size_t n, int advice);
} calls;
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "../../shim/hook/memory.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    calls.mmap = its_mmap;
    calls.munmap = its_munmap;
    calls.mremap = its_mremap;
    calls.mprotect = its_mprotect;
    calls.pkey_mprotect = its_pkey_mprotect;
    calls.madvise = its_madvise;
    errno = 0;
    return 0;
}

/* The calls since the last time. */
#define CALLED(words)                                                                              \
    do {                                                                                           \
        assert_string_equal(has.log, words);                                                       \
        has.log[0] = '\0';                                                                         \
    } while (0)

static void the_functions_behind_are_found_or_stay_system_calls(void **state)
{
    (void)state;
    memset(&calls, 0, sizeof(calls));
    calls.mremap = its_mremap;
    zc_memory_find();
    CALLED("mmap munmap mremap mprotect pkey_mprotect madvise ");
    assert_ptr_equal(calls.mprotect, its_mprotect);
    assert_ptr_equal(calls.madvise, its_madvise);
    assert_ptr_equal(calls.munmap, its_munmap);
    assert_ptr_equal(calls.mremap, its_mremap);
    assert_true(!calls.mmap && !calls.pkey_mprotect);
}

static void calls_about_other_memory_pass_through(void **state)
{
    (void)state;
    has.result = 3;
    assert_int_equal(mprotect(AWAY, 4096, 1), 3);
    CALLED("mprotect 0x20000000 4096 1;");
    assert_int_equal(pkey_mprotect(AWAY, 4096, 1, 2), 3);
    CALLED("pkey 0x20000000 4096 1 2;");
    assert_int_equal(munmap(AWAY, 4096), 3);
    CALLED("munmap 0x20000000 4096;");
    assert_int_equal(madvise(AWAY, 4096, 4), 3);
    CALLED("madvise 0x20000000 4096 4;");
    assert_ptr_equal(mmap(AWAY, 4096, 3, MAP_FIXED, 5, 8192), (void *)0x5000);
    CALLED("mmap 0x20000000 4096 3 16 5 8192;");
    assert_ptr_equal(mmap64(AWAY, 4096, 3, 2, 5, 8192), (void *)0x5000);
    CALLED("mmap 0x20000000 4096 3 2 5 8192;");
    assert_ptr_equal(zc_hook_mremap(AWAY, 1, 2, MREMAP_FIXED, AWAY + 4096), (void *)0x6000);
    CALLED("mremap 0x20000000 1 2 2 0x20001000;");
}

static void a_block_retreats_before_its_pages_change(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        has.stays = i;
        has.result = 3;
        const char *gone = i ? "" : "mprotect 0x10000000 4096 1;";
        char words[128];
        assert_int_equal(mprotect(HEAP, 4096, 1), i ? -1 : 3);
        snprintf(words, sizeof(words), "retreat 0x10000000 4096;%s", gone);
        CALLED(words);
        assert_int_equal(pkey_mprotect(HEAP, 4096, 1, 2), i ? -1 : 3);
        snprintf(words, sizeof(words), "retreat 0x10000000 4096;%s",
                 i ? "" : "pkey 0x10000000 4096 1 2;");
        CALLED(words);
        assert_ptr_equal(mmap(HEAP, 4096, 3, MAP_FIXED, 5, 0), i ? MAP_FAILED : (void *)0x5000);
        snprintf(words, sizeof(words), "retreat 0x10000000 4096;%s",
                 i ? "" : "mmap 0x10000000 4096 3 16 5 0;");
        CALLED(words);
        assert_int_equal(munmap(HEAP, 4096), 3);
        CALLED("unmap 0x10000000 4096;");
        assert_int_equal(madvise(HEAP, 4096, 4), 3);
        CALLED("advise 0x10000000 4096 4;");
    }
}

static void an_address_that_is_a_hint_replaces_nothing(void **state)
{
    (void)state;
    mmap(HEAP, 4096, 3, 0, 5, 0);
    CALLED("mmap 0x10000000 4096 3 0 5 0;");
    mmap(HEAP, 4096, 3, MAP_FIXED_NOREPLACE, 5, 0);
    CALLED("mmap 0x10000000 4096 3 1048576 5 0;");
    mmap(HEAP, 4096, 3, MAP_FIXED_NOREPLACE | MAP_FIXED, 5, 0);
    CALLED("mmap 0x10000000 4096 3 1048592 5 0;");
}

static void a_block_that_is_moved_or_moved_over_goes_by_the_heap(void **state)
{
    (void)state;
    assert_ptr_equal(zc_hook_mremap(HEAP, 1, 2, 1, NULL), (void *)0x7000);
    CALLED("move 0x10000000 1 2 1 (nil);");
    assert_ptr_equal(zc_hook_mremap(AWAY, 1, 4096, MREMAP_FIXED | 1, HEAP - 1), (void *)0x7000);
    CALLED("move 0x20000000 1 4096 3 0xfffffff;");
    zc_hook_mremap(AWAY, 4096, 1, MREMAP_FIXED | 1, HEAP - 1); /* Ends before it. */
    CALLED("mremap 0x20000000 4096 1 3 0xfffffff;");
    zc_hook_mremap(AWAY, 1, 4096, 1, HEAP); /* The address does not count. */
    CALLED("mremap 0x20000000 1 4096 1 0x10000000;");
}

static void advice_to_the_own_process_is_advice_to_each_range(void **state)
{
    struct iovec ranges[] = {{AWAY, 100}, {HEAP, 200}, {AWAY, 300}};
    (void)state;
    const char *each = "madvise 0x20000000 100 4;advise 0x10000000 200 4;"
                       "madvise 0x20000000 300 4;";
    char words[256];
    for (unsigned i = 0; i < 3; i++) {
        int process = i == 0 ? -10000 : i == 1 ? -10001 : 9;
        has.pid = i == 2 ? getpid() : 0;
        assert_int_equal(process_madvise(process, ranges, 3, 4, 0), 600);
        snprintf(words, sizeof(words), "process %d 0 4 0;%s", process, each);
        CALLED(words);
    }
    assert_string_equal(has.asked, "/proc/self/fdinfo/9");
    assert_int_equal(process_madvise(-10000, ranges + 1, 2, 4, 0),
                     500); /* The first is a block's. */
    CALLED("process -10000 0 4 0;advise 0x10000000 200 4;madvise 0x20000000 300 4;");
    for (unsigned fail = 1; fail <= 3; fail++) { /* Bytes until one fails. */
        anew(NULL);
        has.fails = fail;
        assert_int_equal(process_madvise(-10000, ranges, 3, 4, 0), fail == 1   ? -1
                                                                   : fail == 2 ? 100
                                                                               : 300);
        assert_int_equal(has.advised, fail);
    }
}

static void advice_to_others_and_what_the_kernel_refuses_is_the_kernels(void **state)
{
    struct iovec ranges[] = {{AWAY, 100}, {HEAP, 200}};
    (void)state;
    has.result = 55;
    for (unsigned i = 0; i < 2; i++) {
        has.pid = i ? getpid() + 1 : 0;
        assert_int_equal(process_madvise(9, ranges, 2, 4, 1), 55);
        CALLED("process 9 2 4 1;");
    }
    has.refuses = -1; /* Such advice, or such flags. */
    assert_int_equal(process_madvise(-10000, ranges, 2, 4, 1), 55);
    CALLED("process -10000 0 4 1;process -10000 2 4 1;");
    has.refuses = 0;
    assert_int_equal(process_madvise(-10000, ranges, 1, 4, 1), 55);
    CALLED("process -10000 1 4 1;"); /* Of no block. */
}

static void a_segment_over_a_block_lets_it_retreat(void **state)
{
    (void)state;
    has.result = 7;
    assert_ptr_equal(shmat(4, HEAP, SHM_REMAP), (void *)7);
    CALLED("retreat 0x10000000 12288;shmat 4 0x10000000 16384;");
    assert_ptr_equal(shmat(4, HEAP - SEGMENT + 1, SHM_REMAP), (void *)7);
    CALLED("retreat 0xfffd001 12288;shmat 4 0xfffd001 16384;");
    shmat(4, HEAP - SEGMENT + 1, SHM_REMAP | SHM_RND); /* Rounded down it ends before. */
    CALLED("shmat 4 0xfffd001 24576;");
    shmat(4, HEAP, 0); /* The kernel refuses what is taken. */
    CALLED("shmat 4 0x10000000 0;");
    has.no_segment = true;
    shmat(4, HEAP, SHM_REMAP);
    CALLED("shmat 4 0x10000000 16384;");
    has.no_segment = false;
    has.stays = true;
    assert_ptr_equal(shmat(4, HEAP, SHM_REMAP), (void *)-1);
    CALLED("retreat 0x10000000 12288;");
}

static void a_segment_in_the_heap_is_detached_whole(void **state)
{
    (void)state;
    has.mappings = 3; /* The program has changed rights of a part. */
    assert_int_equal(shmdt(HEAP + 4096), 0);
    CALLED("unmap 0x10001000 12288;");
    for (unsigned i = 0; i < 2; i++) {
        has.other = 3;
        has.other_name = i;
        assert_int_equal(shmdt(HEAP + 4096), 0);
        CALLED("unmap 0x10001000 8192;");
    }
    has.other = 0;
    assert_int_equal(shmdt(HEAP + 4097), 0); /* Not its beginning. */
    CALLED("shmdt 0x10001001;");
    shmdt(HEAP);
    CALLED("shmdt 0x10000000;");
    shmdt(AWAY);
    CALLED("shmdt 0x20000000;");
    has.no_inode = true;
    shmdt(HEAP + 4096);
    CALLED("shmdt 0x10001000;");
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_functions_behind_are_found_or_stay_system_calls),
        TEST(calls_about_other_memory_pass_through),
        TEST(a_block_retreats_before_its_pages_change),
        TEST(an_address_that_is_a_hint_replaces_nothing),
        TEST(a_block_that_is_moved_or_moved_over_goes_by_the_heap),
        TEST(advice_to_the_own_process_is_advice_to_each_range),
        TEST(advice_to_others_and_what_the_kernel_refuses_is_the_kernels),
        TEST(a_segment_over_a_block_lets_it_retreat),
        TEST(a_segment_in_the_heap_is_detached_whole),
    };
    return RUN_TESTS(tests);
}
