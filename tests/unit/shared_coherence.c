/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages, against two plain memories: random accesses of
 * the CPU's, by stores and by system calls, in this thread, in others and from another process,
 * copies, forks and ends.  The pages are the kernel's own; the block is one of the host heap's.
 * ZC_MODEL_STEPS says how many steps each of eight seeds has, ZC_MODEL_SEED chooses another one
 * alone.
 */
#include "host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/module.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "shared/coherence.h"

#define PAGE 4096u
#define SPAN ((uint32_t)ZC_HOST_UNIT * 2)
#define BYTES (SPAN - 100) /* The rest of the last page is nobody's. */
#define SEEDS 8u

extern const struct zc_module zc_module_hostheap;

enum event { READ, WRITE, COPY_IN, COPY_OUT, KERNEL, FORK, END, AGAIN, EVENTS };

static unsigned char *at, *gpu; /* The CPU's bytes at h, and everybody's at d. */
static struct zc_extent *extent;
static unsigned char h[SPAN], d[SPAN], child[SPAN]; /* The plain memories. */
static uint32_t known;                              /* Bytes of d that were written, from 0 on. */
static bool frozen;
static uint64_t seed, done[EVENTS];
static int own_memory, file;

static uint32_t below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

/* Ways to write n bytes of `from` to h, none of which libzc sees. */
static void by_store(unsigned char *to, unsigned char *from, size_t n)
{
    memcpy(to, from, n);
}

static void by_pread(unsigned char *to, unsigned char *from, size_t n)
{
    assert_int_equal(syscall(SYS_pwrite64, file, from, n, 0), n);
    assert_int_equal(syscall(SYS_pread64, file, to, n, 0), n);
}

static void by_writev(unsigned char *to, unsigned char *from, size_t n)
{
    struct iovec local = {from, n}, remote = {to, n};
    assert_int_equal(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), n);
}

static void by_own_memory(unsigned char *to, unsigned char *from, size_t n)
{
    assert_int_equal(pwrite(own_memory, from, n, (off_t)(uintptr_t)to), n);
}

/* Another process, which has the same memory to write from. */
static void by_another_process(unsigned char *to, unsigned char *from, size_t n)
{
    int status;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t parent = getpid(), other = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (other == 0) {
        struct iovec local = {from, n}, remote = {to, n};
        _exit(process_vm_writev(parent, &local, 1, &remote, 1, 0) != (ssize_t)n);
    }
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
}

static void by_pipe(unsigned char *to, unsigned char *from, size_t n)
{
    int ends[2];
    n = n < PAGE ? n : PAGE; /* A pipe that nobody reads meanwhile holds that. */
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], from, n), n);
    assert_int_equal(syscall(SYS_read, ends[0], to, n), n);
    close(ends[0]);
    close(ends[1]);
}

struct job {
    unsigned char *to, *from;
    size_t n;
};

static void *store(void *arg)
{
    struct job *job = arg;
    memcpy(job->to, job->from, job->n);
    return NULL;
}

static void by_another_thread(unsigned char *to, unsigned char *from, size_t n)
{
    struct job job = {to, from, n};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, store, &job), 0);
    pthread_join(thread, NULL);
}

static void (*const writers[])(unsigned char *to, unsigned char *from, size_t n) = {
    by_store,      by_store,           by_store,          by_pread, by_writev,
    by_own_memory, by_another_process, by_another_thread, by_pipe};
#define WRITERS (sizeof(writers) / sizeof(writers[0]))

static void write_some(uint32_t low, uint32_t n, size_t way)
{
    static unsigned char bytes[PAGE];
    n = n < PAGE ? n : PAGE;
    memset(bytes, (int)below(256), n);
    writers[way](at + low, bytes, n);
    memcpy(h + low, bytes, n);
}

static void same(const unsigned char *is, const unsigned char *plain, uint32_t low, uint32_t high)
{
    if (memcmp(is + low, plain + low, high - low) == 0)
        return;
    for (uint32_t i = low; i < high; i++)
        if (is[i] != plain[i])
            fail_msg("byte %u is %u, not %u", i, is[i], plain[i]);
}

/* The host block of the program, and a device block for it; the host block may have had others. */
static void begin(bool again)
{
    if (!again) {
        at = host_get(BYTES);
        extent = zc_hostheap_extent((uintptr_t)at);
        assert_true(zc_memfile_shareable(extent));
        memset(at, 1, BYTES);
        memset(h, 1, BYTES);
        frozen = false;
    }
    done[AGAIN] += again;
    known = 0;
    assert_true(zc_memfile_show(extent, (uintptr_t)gpu));
}

static void end_device(void)
{
    same(gpu, d, 0, known);
    zc_memfile_reserve((uintptr_t)gpu, SPAN);
    same(at, h, 0, BYTES);
}

/* False where the device block has to get memory of its own. */
static bool copy_in(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    low = low < known ? low : known; /* No byte of d stays unknown before one that is not. */
    bool differs = zc_coherent_differs(extent, low, high);
    if (!zc_coherent_copy(extent, (uintptr_t)gpu, low, high, true, &moved)) {
        assert_true(frozen && differs);
        same(gpu, d, 0, known);
        return false;
    }
    assert_int_equal(moved.elided + moved.copied, high - low);
    assert_int_equal(moved.copied != 0, differs);
    memcpy(d + low, h + low, high - low);
    known = known > high ? known : high;
    return true;
}

static void copy_out(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    if (high > known)
        return;
    zc_coherent_copy(extent, (uintptr_t)gpu, low, high, false, &moved);
    assert_int_equal(moved.elided + moved.copied, high - low);
    memcpy(h + low, d + low, high - low);
}

static void fork_now(void)
{
    zc_module_hostheap.before_fork();
    zc_module_hostheap.after_fork();
    frozen = true;
    memcpy(child, gpu, SPAN);
    assert_false(zc_memfile_shareable(extent));
}

/* Pieces of a byte to all, as many of each order of magnitude, and all. */
static uint32_t some(uint32_t of)
{
    uint32_t n = 1 + below(1u << below(24));
    return n < of && below(8) ? n : of;
}

static bool step(void)
{
    uint32_t low = below(8) ? below(BYTES) : 0, high = low + some(BYTES - low), what = below(64);
    enum event event = what < 16   ? READ
                       : what < 36 ? WRITE
                       : what < 46 ? COPY_IN
                       : what < 56 ? COPY_OUT
                       : below(16) ? KERNEL
                                   : FORK;
    done[event]++;
    switch (event) {
    case READ:
        same(at, h, low, high);
        break;
    case WRITE:
        write_some(low, high - low, below(WRITERS));
        break;
    case COPY_IN:
        return copy_in(low, high);
    case COPY_OUT:
        copy_out(low, high);
        break;
    case KERNEL:
        if (high <= known)
            same(gpu, d, low, high);
        break;
    default:
        fork_now();
    }
    return true;
}

static void run_model(uint64_t first, uint64_t steps)
{
    bool again = false;
    seed = first;
    begin(again);
    for (uint64_t i = 0; i < steps; i++) {
        if (step() && below(100))
            continue;
        if (frozen)
            same(gpu, child, 0, SPAN);
        done[END]++;
        end_device();
        again = !frozen && below(2);
        if (!again)
            zc_hostmem_put(at);
        begin(again);
    }
    end_device();
    zc_hostmem_put(at);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void two_memories_and_shared_pages_never_differ(void **unused)
{
    uint64_t steps = number("ZC_MODEL_STEPS", 600), one_seed = number("ZC_MODEL_SEED", 0);
    (void)unused;
    for (uint64_t i = 1; i <= SEEDS && !one_seed; i++)
        run_model(i, steps);
    if (one_seed)
        run_model(one_seed, steps);
    for (unsigned i = 0; i < EVENTS; i++)
        assert_true(done[i] > 0);
}

static void what_any_writer_writes_is_the_host_blocks_alone(void **unused)
{
    (void)unused;
    for (size_t way = 0; way < WRITERS; way++) {
        struct zc_moved moved = {0, 0};
        seed = 1;
        begin(false);
        assert_true(copy_in(0, BYTES));
        assert_false(zc_coherent_differs(extent, 0, BYTES));
        write_some(5 * PAGE + 9, 20, way);
        same(at, h, 0, BYTES);
        same(gpu, d, 0, BYTES);
        assert_false(zc_coherent_differs(extent, 0, 5 * PAGE));
        assert_false(zc_coherent_differs(extent, 6 * PAGE, BYTES));
        assert_true(
            zc_coherent_copy(extent, (uintptr_t)gpu, 5 * PAGE - 1, 5 * PAGE + 12, true, &moved));
        assert_int_equal(moved.copied, 12); /* Of the page, what is asked for. */
        assert_int_equal(moved.elided, 1);
        same(gpu, d, 0, 5 * PAGE + 9);
        same(gpu, h, 5 * PAGE, 5 * PAGE + 12);
        same(gpu, d, 5 * PAGE + 12, BYTES);
        memcpy(d, gpu, BYTES);
        end_device();
        zc_hostmem_put(at);
    }
}

/* Threads write one half each, of other pages, while the other half is copied again and again. */
static volatile bool stop;

static void *write_upper(void *unused)
{
    for (unsigned i = 0; !stop; i++)
        for (uint32_t p = SPAN / 2; p < BYTES; p += PAGE)
            at[p + i % PAGE] = (unsigned char)i;
    return unused;
}

static void a_copy_loses_no_write_of_another_thread(void **unused)
{
    pthread_t thread;
    (void)unused;
#ifdef __SANITIZE_THREAD__
    skip(); /* The program's own race is what it is about. */
#endif
    seed = 7;
    begin(false);
    assert_true(copy_in(0, SPAN / 2));
    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, write_upper, NULL), 0);
    for (unsigned i = 0; i < 300; i++) {
        struct zc_moved moved = {0, 0};
        unsigned char mark = (unsigned char)i;
        at[PAGE * (i % 16)] = h[PAGE * (i % 16)] = mark;
        assert_true(zc_coherent_copy(extent, (uintptr_t)gpu, 0, BYTES, true, &moved));
        same(gpu, h, 0, SPAN / 2);
        if (i == 150)
            fork_now();
        if (frozen)
            break;
    }
    stop = true;
    pthread_join(thread, NULL);
    memcpy(h, at, BYTES);
    known = 0;
    end_device();
    zc_hostmem_put(at);
}

/* Of a file's private view, before 6.7 and after it. */
static void visit(uintptr_t from, uintptr_t to, void *arg)
{
    *(uint32_t *)arg += (uint32_t)((to - from) / PAGE);
}

static void the_kernel_tells_each_page_that_was_written(void **unused)
{
    const char *why;
    uint32_t found = 0, written = 0;
    (void)unused;
    assert_true(zc_pagemap_works(&why));
    begin(false);
    assert_true(copy_in(0, BYTES));
    for (uint32_t p = 0; p < SPAN / PAGE; p += 3) {
        at[p * PAGE] = h[p * PAGE] = 2;
        written++;
    }
    zc_pagemap_each((uintptr_t)at, (uintptr_t)at + SPAN, visit, &found);
    assert_int_equal(found, written);
    end_device();
    zc_hostmem_put(at);
}

static void near_pages_go_to_the_device_as_one_range_and_to_the_host_alone(void **unused)
{
    struct zc_moved in = {0, 0}, out = {0, 0};
    (void)unused;
    begin(false);
    assert_true(copy_in(0, BYTES));
    for (size_t p = 1; p <= 7; p += 3)
        at[p * PAGE] = h[p * PAGE] = 2;
    assert_true(zc_coherent_copy(extent, (uintptr_t)gpu, 0, BYTES, false, &out));
    assert_int_equal(out.copied, 3 * PAGE);
    assert_int_equal(out.copied + out.elided, BYTES);
    same(at, d, 0, BYTES);
    for (size_t p = 1; p <= 7; p += 3)
        at[p * PAGE] = 2;
    assert_true(zc_coherent_copy(extent, (uintptr_t)gpu, 0, BYTES, true, &in));
    assert_int_equal(in.copied, 7 * PAGE);
    memcpy(d, h, BYTES);
    same(gpu, d, 0, BYTES);
    assert_false(zc_coherent_differs(extent, 2 * PAGE, 4 * PAGE));
    end_device();
    zc_hostmem_put(at);
}

/* Without descriptors nothing is known, and all is copied. */
static void where_the_kernel_can_not_be_asked_all_is_copied(void **unused)
{
    struct rlimit had, none = {0, 0};
    struct zc_moved moved = {0, 0};
    (void)unused;
    begin(false);
    assert_true(copy_in(0, BYTES));
    write_some(3 * PAGE, 10, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &had), 0);
    none.rlim_max = had.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_true(zc_coherent_differs(extent, 0, PAGE));
    assert_true(zc_coherent_copy(extent, (uintptr_t)gpu, 0, BYTES, true, &moved));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &had), 0);
    assert_int_equal(moved.copied, BYTES);
    memcpy(d, h, BYTES);
    same(gpu, d, 0, BYTES);
    end_device();
    zc_hostmem_put(at);
}

static void a_block_is_unprofitable_once_copying_has_cost_more_than_it_saved(void **unused)
{
    (void)unused;
    begin(false);
    extent->elided = extent->cpu_copied = 0;
    assert_false(zc_coherent_unprofitable(extent));
    extent->cpu_copied = 2 * SPAN + (32u << 20);
    assert_true(zc_coherent_unprofitable(extent));
    extent->elided = 4 * extent->cpu_copied;
    assert_false(zc_coherent_unprofitable(extent));
    end_device();
    zc_hostmem_put(at);
}

static int open_memory(void **unused)
{
    (void)unused;
    gpu = mmap(NULL, 2 * SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gpu = (unsigned char *)(((uintptr_t)gpu + ZC_HOST_UNIT - 1) & ~(ZC_HOST_UNIT - 1));
    file = memfd_create("source", MFD_CLOEXEC);
    own_memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    return own_memory < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_tells_each_page_that_was_written),
        cmocka_unit_test(what_any_writer_writes_is_the_host_blocks_alone),
        cmocka_unit_test(near_pages_go_to_the_device_as_one_range_and_to_the_host_alone),
        cmocka_unit_test(where_the_kernel_can_not_be_asked_all_is_copied),
        cmocka_unit_test(a_copy_loses_no_write_of_another_thread),
        cmocka_unit_test(a_block_is_unprofitable_once_copying_has_cost_more_than_it_saved),
        cmocka_unit_test(two_memories_and_shared_pages_never_differ),
    };
    host_policy("[rule all]\napi = malloc\nsize = 1M..\nplace = shared\n"
                "[rule device]\napi = cudaMalloc\nplace = shared\naccess = read\n");
    zc_hostmem_ready();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_memory, NULL);
}
