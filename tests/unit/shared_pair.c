/* SPDX-License-Identifier: MIT */
/* Device blocks of `shared` from one backing to the other and to their end, with a driver and a
 * kernel that refuse any call on the way. */
#include "shared_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/memory.h"
#include "driver/lock.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/overlay.h"
#include "host/visits.h"
#include "memory/place.h"
#include "shared/backing.h"
#include "vmm/lazy.h"
#include "vmm/vmm.h"

/* The kernel, as the library calls it. */
static volatile unsigned kernel_calls, kernel_refuses; /* A fault handler counts, too. */
static volatile bool kernel_is_full;                   /* It maps nothing after that. */

static bool kernel_may(bool maps)
{
    kernel_calls++;
    if (kernel_calls != kernel_refuses &&
        !(maps && kernel_is_full && kernel_refuses && kernel_calls > kernel_refuses))
        return true;
    errno = ENOMEM;
    return false;
}

static volatile bool interrupted; /* A SIGSEGV is sent to the thread when it maps pages. */
static pid_t mover;               /* Thread that waits in the middle of parting a page.  Atomic. */
static bool moving, forked;       /* Atomic. */

/* For a moment, or until the process has forked. */
static void wait_for_fork(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    __atomic_store_n(&moving, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 300 && !__atomic_load_n(&forked, __ATOMIC_ACQUIRE); i++)
        nanosleep(&moment, NULL);
}

void *zc_memory_map(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    if (interrupted) {
        interrupted = false;
        raise(SIGSEGV);
    }
    if (!kernel_may(true))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, rights, flags, fd, offset);
}

int zc_memory_protect(void *at, size_t n, int protection)
{
    return kernel_may(false) ? (int)syscall(SYS_mprotect, at, n, protection) : -1;
}

int zc_memory_unmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

int zc_memory_advise(void *at, size_t n, int advice)
{
    return (int)syscall(SYS_madvise, at, n, advice);
}

void *zc_memory_move(void *from, size_t n, size_t to_n, int flags, void *to)
{
    if (!kernel_may(true))
        return MAP_FAILED;
    to = (void *)syscall(SYS_mremap, from, n, to_n, flags, to);
    if (__atomic_load_n(&mover, __ATOMIC_ACQUIRE) == syscall(SYS_gettid))
        wait_for_fork();
    return to;
}

static void count_from_here(unsigned driver, unsigned kernel)
{
    driver_calls = kernel_calls = 0;
    driver_refuses = driver;
    kernel_refuses = kernel;
}

/* Both sides, and what they hold. */
static struct zc_backing backing;
static struct zc_shared *pair;
static struct zc_block block;
static struct zc_extent *extent;
static char *host;
static char want_h[SIZE], want_d[SIZE];

static void make_device(const char *rule)
{
    bool output = strcmp(rule, "output") == 0;
    const struct zc_want want = {.size = SIZE,
                                 .context = current,
                                 .rule = &zc_rules()->rules[output ? 2 : 1],
                                 .api = ZC_API_cuMemAlloc,
                                 .host_heap = true};
    const char *why = NULL;
    backing = (struct zc_backing){0};
    if (zc_place_shared.make(&want, &backing, &why) != CUDA_SUCCESS)
        fail_msg("no device block: %s", why);
    pair = backing.vmm->pair;
    block = (struct zc_block){.id = 1, .size = SIZE};
    zc_shared_note(pair, &block);
}

static void make_host(char byte)
{
    host = memset(host_get(SIZE), byte, SIZE);
    extent = zc_hostheap_extent((uintptr_t)host);
    memset(want_h, byte, SIZE);
}

static char *device(void)
{
    return (char *)zc_shared_address(pair);
}

static bool become_one(void)
{
    assert_true(zc_hostheap_claim_for_device(extent));
    bool one = zc_shared_to_one(pair, extent, true);
    zc_hostheap_unclaim(extent);
    return one;
}

static void copy_in(void)
{
    struct zc_shared_hold hold;
    struct zc_moved moved = {0};
    assert_true(zc_shared_lock_host(pair, extent, &hold));
    assert_true(zc_coherent_to_device(&pair->pages, 0, SIZE, &moved));
    zc_shared_unlock(pair, &hold);
    memcpy(want_d, want_h, SIZE);
}

static void write_host(size_t at, char byte)
{
    *(volatile char *)&host[at] = want_h[at] = byte;
}

/* One pair, in ONE: its pages are equal but the middle one. */
static void make_pair(void)
{
    make_device("input");
    make_host(1);
    assert_true(become_one());
    assert_true(read_only);
    copy_in();
    write_host(UNIT, 2);
}

static void attach(void)
{
    const char *why;
    assert_true(zc_driver_lock());
    assert_int_equal(zc_lazy_attach(pair->vmm, 0, SIZE, &why), CUDA_SUCCESS);
    zc_driver_unlock();
}

/* What both sides hold, and that the CPU may write its own. */
static void assert_all(enum zc_page state)
{
    for (size_t page = 0; page < SIZE / UNIT; page++)
        assert_int_equal(pair->pages.state[page], state);
}

static void check_both(void)
{
    assert_memory_equal(host, want_h, SIZE);
    assert_memory_equal(device(), want_d, SIZE);
    for (size_t at = 0; at < SIZE; at += UNIT)
        write_host(at, 9);
    assert_memory_equal(device(), want_d, SIZE);
}

static void end_both(void)
{
    count_from_here(0, 0);
    assert_int_equal(zc_place_shared.detach(&backing), CUDA_SUCCESS);
    assert_int_equal(zc_place_shared.unmake(&backing, false), CUDA_SUCCESS);
    assert_memory_equal(host, want_h, SIZE);
    memset(host, 3, SIZE);
    assert_int_equal(zc_shared_ones, 0);
    assert_int_equal(live, 0);
    if (extent)
        zc_hostmem_put(host);
}

static const char changed[] = "the test says so";

/* Until none is refused any more.  The last round has none. */
static void whatever_is_refused_a_block_is_one_or_has_memory_of_its_own(void **state)
{
    unsigned refusals = 0;
    bool more = true;
    (void)state;
    for (unsigned n = 1; more; n++) {
        make_pair();
        count_from_here(n, 0);
        CUresult result = zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed);
        more = driver_calls >= n;
        count_from_here(0, 0);
        refusals += result != CUDA_SUCCESS;
        assert_int_equal(zc_shared_is_one(pair), zc_shared_ones == 1);
        if (zc_shared_is_one(pair)) {
            assert_int_not_equal(result, CUDA_SUCCESS);
            check_both();
            assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
        }
        attach();
        assert_null(extent->shared);
        check_both();
        memset(device(), 7, SIZE);
        memset(want_d, 7, SIZE);
        check_both();
        end_both();
    }
    assert_true(refusals >= 8);
}

/* Whether the block had memory already or not, and whoever refuses. */
static void whatever_is_refused_a_block_that_does_not_become_one_can_be_used(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        bool more = true, attached = round & 1, kernel = round & 2;
        for (unsigned n = 1; more; n++) {
            make_device("input");
            make_host(4);
            if (attached)
                attach();
            count_from_here(kernel ? 0 : n, kernel ? n : 0);
            bool one = become_one();
            more = (kernel ? kernel_calls : driver_calls) >= n;
            count_from_here(0, 0);
            assert_int_equal(zc_shared_is_one(pair), one);
            assert_true(one || more);
            if (one)
                copy_in();
            if (!one)
                assert_true(zc_vmm_whole(pair->vmm) || zc_lazy_pending(pair->vmm));
            if (!one)
                attach();
            memcpy(want_d, device(), SIZE);
            check_both();
            end_both();
        }
    }
}

/* Of an output, to which kernels write: it is one with memory of nobody's from the first one on,
 * where that is possible. */
static bool deliver(void)
{
    assert_true(zc_hostheap_claim_for_device(extent));
    bool done = zc_shared_deliver(pair, extent);
    zc_hostheap_unclaim(extent);
    return done;
}

static void run_kernel(char byte)
{
    assert_int_equal(zc_shared_before_kernels(ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    memset(device(), byte, SIZE);
    memset(want_d, byte, SIZE);
}

static void whatever_is_refused_an_output_is_delivered_whole_or_not_at_all(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        bool more = true, kernel = round;
        kernel_is_full = round == 2;
        for (unsigned n = 1; more; n++) {
            make_device("output");
            assert_false(zc_shared_is_one(pair));
            run_kernel(7);
            assert_true(zc_shared_is_one(pair));
            assert_false(read_only);
            make_host(1);
            count_from_here(kernel ? 0 : n, kernel ? n : 0);
            bool done = deliver();
            more = (kernel ? kernel_calls : driver_calls) >= n;
            count_from_here(0, 0);
            assert_true(done || more);
            assert_ptr_equal(extent->shared, done ? pair : NULL);
            if (done)
                memset(want_h, 7, SIZE);
            check_both();
            assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
            check_both();
            void *other[3]; /* What libzc had for it is nobody's. */
            for (unsigned i = 0; i < 3; i++)
                other[i] = memset(host_get(SIZE), 5, SIZE);
            check_both();
            for (unsigned i = 0; i < 3; i++)
                zc_hostmem_put(other[i]);
            end_both();
        }
    }
    kernel_is_full = false;
}

static void whatever_is_refused_an_output_can_be_used(void **state)
{
    (void)state;
    for (unsigned kernel = 0; kernel < 2; kernel++) {
        bool more = true;
        for (unsigned n = 1; more; n++) {
            make_device("output");
            count_from_here(kernel ? 0 : n, kernel ? n : 0);
            CUresult result = zc_shared_before_kernels(ZC_FN_cuLaunchKernel);
            more = (kernel ? kernel_calls : driver_calls) >= n;
            count_from_here(0, 0);
            assert_true(more || zc_shared_is_one(pair));
            assert_true(result == CUDA_SUCCESS || !zc_shared_is_one(pair));
            if (result == CUDA_SUCCESS && !zc_shared_is_one(pair))
                assert_true(zc_vmm_whole(pair->vmm));
            if (result != CUDA_SUCCESS)
                attach();
            run_kernel(6);
            make_host(2);
            check_both();
            end_both();
        }
    }
}

static void a_host_block_that_goes_leaves_the_device_block_its_content(void **state)
{
    (void)state;
    make_pair();
    zc_shared_host_gone(extent);
    assert_null(extent->shared);
    zc_hostmem_put(host);
    extent = NULL;
    host = memset(host_get(SIZE), 5, SIZE);
    assert_memory_equal(device(), want_d, SIZE);
    assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
    assert_memory_equal(device(), want_d, SIZE);
    memset(want_h, 5, SIZE);
    end_both();
    zc_hostmem_put(host);
}

static void the_end_of_a_resized_host_block_counts_as_whole(void **state)
{
    const size_t size = SIZE - 4096;
    struct zc_moved moved = {0};
    struct zc_shared_hold hold;
    (void)state;
    make_pair();
    zc_shared_resize(extent, size);
    write_host(size - 1, 6);
    assert_true(zc_shared_lock_host(pair, extent, &hold));
    assert_true(zc_coherent_to_device(&pair->pages, 0, size, &moved));
    zc_shared_unlock(pair, &hold);
    assert_all(ZC_PAGE_SAME);
    memcpy(want_d, want_h, size);
    check_both();
    end_both();
}

static void pages_that_the_program_changes_are_its_own(void **state)
{
    const uintptr_t *base = (uintptr_t *)&host;
    (void)state;
    make_pair();
    assert_true(zc_shared_exile(extent, *base + 4096, *base + 8192, false));
    assert_true(zc_shared_exile(extent, *base + UNIT, *base + 3 * UNIT, true));
    assert_all(ZC_PAGE_OUT);
    memcpy(host + 4096, want_h + 4096, 4096); /* The program has said what is there now. */
    check_both();
    end_both();
}

/* Another mapping of the program's, and libzc's own pages beside it. */
static void pages_of_no_pair_change_one_by_one(void **state)
{
    (void)state;
    make_pair();
    uintptr_t base = (uintptr_t)host;
    assert_true(zc_shared_exile(extent, base, base + 4096, false));
    char *own =
        map_raw(host, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1);
    char *again = (char *)syscall(SYS_mremap, own, 0, 4096, MREMAP_MAYMOVE);
    zc_overlay_note(extent, base, 4096, ZC_OVERLAY_OPEN | ZC_OVERLAY_FOREIGN);
    memset(want_h, 0, 4096);
    assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
    assert_true(zc_shared_exile(extent, base, base + 2 * UNIT, true));
    assert_memory_equal(host, want_h, SIZE);
    write_host(0, 8);
    assert_int_equal(*again, 8);
    check_both();
    end_both();
}

static void a_change_that_the_kernel_refuses_leaves_a_block_of_no_pair(void **state)
{
    bool more = true;
    (void)state;
    kernel_is_full = true;
    for (unsigned n = 1; more; n++) {
        make_host(1);
        uintptr_t base = (uintptr_t)host;
        count_from_here(0, n);
        bool done = zc_shared_exile(extent, base + UNIT, base + SIZE, true);
        more = kernel_calls >= n;
        count_from_here(0, 0);
        assert_true(done || more);
        assert_memory_equal(host, want_h, SIZE);
        write_host(SIZE - 1, 2);
        assert_true(zc_memfile_freeze(extent)); /* As before a fork. */
        assert_memory_equal(host, want_h, SIZE);
        assert_false(zc_memfile_shareable(extent));
        zc_hostmem_put(host);
    }
    kernel_is_full = false;
}

#define POLICY                                                                                     \
    "[rule host]\napi = malloc\nsize = 1M..\nplace = shared\n"                                     \
    "[rule input]\napi = cudaMalloc\nplace = shared\naccess = read\n"                              \
    "[rule output]\napi = cudaMalloc\nplace = shared\naccess = write\n"

/* A scene in a process of its own, with a pair whose middle page is apart; returns its status. */
static int in_a_process(void (*scene)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        make_pair();
        scene();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_write_that_finds_no_mapping_makes_the_host_block_private(void **state)
{
    (void)state;
    make_pair();
    count_from_here(0, 3); /* The move of the page's copy. */
    write_host(0, 2);
    count_from_here(0, 0);
    assert_true(pair->pages.frozen);
    assert_all(ZC_PAGE_APART);
    check_both();
    end_both();
}

static void write_in_vain(void)
{
    kernel_is_full = true;
    count_from_here(0, 2);
    *(volatile char *)host = 2;
}

static void a_page_that_can_not_part_ends_the_process(void **state)
{
    (void)state;
    int status = in_a_process(write_in_vain);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void *write_first(void *unused)
{
    __atomic_store_n(&mover, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    *(volatile char *)host = 2;
    return unused;
}

static void fork_while_a_page_is_parted(void)
{
    pthread_t thread;
    int status = 1;
    if (pthread_create(&thread, NULL, write_first, NULL) != 0)
        _exit(2);
    while (!__atomic_load_n(&moving, __ATOMIC_ACQUIRE))
        sched_yield();
    pid_t child = fork();
    if (child == 0)
        _exit(host[1] == 1 && host[UNIT] == 2 && host[SIZE - 1] == 1 ? 0 : 3);
    __atomic_store_n(&forked, true, __ATOMIC_RELEASE);
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    _exit(status || host[0] != 2 || device()[0] != 1);
}

static void a_child_has_no_page_that_another_thread_is_parting(void **state)
{
    (void)state;
    assert_int_equal(in_a_process(fork_while_a_page_is_parted), 0);
}

/* As a handler may: the page that is looked for under the lock is the pair's. */
static volatile int arrived, under_lock;

static void touch(int sig)
{
    (void)sig;
    arrived++;
    under_lock += __atomic_load_n(&pair->owner, __ATOMIC_ACQUIRE) != 0;
    if (!under_lock)
        *(volatile char *)host = 2;
}

static void send_under_two_locks(void)
{
    struct zc_shared *first = pair;
    struct zc_shared_hold hold, second_hold;
    char *first_host = host;
    make_pair();
    struct zc_shared *other = pair;
    pair = first;
    host = first_host;
    signal(SIGSEGV, touch);
    zc_shared_lock(pair, &hold);
    zc_shared_lock(other, &second_hold);
    raise(SIGSEGV);
    zc_shared_unlock(other, &second_hold);
    int early = arrived;
    zc_shared_unlock(pair, &hold);
    _exit(early || arrived != 1 || under_lock ? 4 : 0);
}

static void send_in_a_fault(void)
{
    signal(SIGSEGV, touch);
    interrupted = true;
    ((volatile char *)host)[1] = 1;
    _exit(interrupted || arrived != 1 || under_lock ? 5 : 0);
}

static void a_signal_sent_to_the_holder_of_the_lock_waits_until_it_is_dropped(void **state)
{
    (void)state;
    assert_int_equal(in_a_process(send_under_two_locks), 0);
    assert_int_equal(in_a_process(send_in_a_fault), 0);
}

static pid_t tid; /* Atomic. */

/* True once a thread blocks SIGUSR1, as it does from the moment on that it wants the lock. */
static bool wants_the_lock(pid_t thread)
{
    char path[64], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) && sscanf(line, "SigBlk: %llx", &blocked) != 1)
        ;
    fclose(f);
    return blocked & 1ull << (SIGUSR1 - 1);
}

/* A new thread has the mask of the one that made it, which holds the lock. */
static void *free_device(void *unused)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    __atomic_store_n(&tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    zc_shared_part_ways(pair);
    return unused;
}

/* The other side's free, between two instructions of this one's. */
static void free_host(int sig)
{
    (void)sig;
    zc_shared_host_gone(extent);
}

static void threads_that_free_both_sides_at_once_end_the_pair_once(void **state)
{
    struct zc_shared_hold hold;
    pthread_t thread;
    pid_t other;
    (void)state;
    make_pair();
    assert_int_equal(zc_shared_unregister(pair), CUDA_SUCCESS);
    signal(SIGUSR1, free_host);
    zc_shared_lock(pair, &hold);
    pthread_create(&thread, NULL, free_device, NULL);
    while (!(other = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)) || !wants_the_lock(other))
        sched_yield();
    pthread_kill(thread, SIGUSR1);
    zc_shared_unlock(pair, &hold);
    pthread_join(thread, NULL);
    assert_null(extent->shared);
    end_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_refused_a_block_is_one_or_has_memory_of_its_own),
        cmocka_unit_test(whatever_is_refused_a_block_that_does_not_become_one_can_be_used),
        cmocka_unit_test(whatever_is_refused_an_output_is_delivered_whole_or_not_at_all),
        cmocka_unit_test(whatever_is_refused_an_output_can_be_used),
        cmocka_unit_test(a_host_block_that_goes_leaves_the_device_block_its_content),
        cmocka_unit_test(the_end_of_a_resized_host_block_counts_as_whole),
        cmocka_unit_test(pages_that_the_program_changes_are_its_own),
        cmocka_unit_test(pages_of_no_pair_change_one_by_one),
        cmocka_unit_test(a_change_that_the_kernel_refuses_leaves_a_block_of_no_pair),
        cmocka_unit_test(a_write_that_finds_no_mapping_makes_the_host_block_private),
        cmocka_unit_test(a_page_that_can_not_part_ends_the_process),
        cmocka_unit_test(a_child_has_no_page_that_another_thread_is_parting),
        cmocka_unit_test(a_signal_sent_to_the_holder_of_the_lock_waits_until_it_is_dropped),
        cmocka_unit_test(threads_that_free_both_sides_at_once_end_the_pair_once),
    };
    host_policy(POLICY);
    zc_hostrule_open();
    start_driver();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
