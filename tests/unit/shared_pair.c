/* SPDX-License-Identifier: MIT */
/* The life of a pair: its two sides are freed by different threads at once. */
#include "host_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/memory.h"
#include "host/extent.h"
#include "shared/access.h"
#include "shared/pair.h"

#define SIZE (4 * MIB)

static struct zc_extent *extent;

static bool closed;               /* The kernel opens no page: it has no mappings left. */
static volatile bool interrupted; /* A SIGSEGV is sent to the thread when it opens a page. */

/* What libzc does to pages comes here. */
int zc_memory_protect(void *at, size_t n, int protection)
{
    if (interrupted && protection == (PROT_READ | PROT_WRITE)) {
        interrupted = false;
        raise(SIGSEGV);
    }
    if (closed && protection == (PROT_READ | PROT_WRITE)) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_mprotect, at, n, protection);
}

static pid_t mover;         /* Thread that waits in the middle of parting a page.  Atomic. */
static bool moving, forked; /* Atomic. */

/* For a moment, or until the process has forked. */
static void wait_for_fork(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    __atomic_store_n(&moving, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 300 && !__atomic_load_n(&forked, __ATOMIC_ACQUIRE); i++)
        nanosleep(&moment, NULL);
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
    to = (void *)syscall(SYS_mremap, from, n, to_n, flags, to);
    if (__atomic_load_n(&mover, __ATOMIC_ACQUIRE) == syscall(SYS_gettid))
        wait_for_fork();
    return to;
}

/* The other side's free, between two instructions of this one's. */
static void free_host(int sig)
{
    (void)sig;
    zc_shared_host_gone(extent);
}

static struct zc_shared *pair_in(char *host)
{
    const char *why;
    const struct zc_shared_want want = {
        .size = SIZE, .rule = &zc_rules()->rules[1], .node = -1}; /* "[rule device]" */
    struct zc_shared *p = zc_shared_make(&want, &why);
    assert_non_null(p);
    assert_ptr_equal(p->pages.base, host);
    extent = zc_hostheap_extent((uintptr_t)host);
    zc_shared_publish(p);
    zc_hostheap_unclaim(extent);
    return p;
}

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

static pid_t tid; /* Atomic. */

/* A new thread has the mask of the one that made it, which holds the lock. */
static void *free_device(void *pair)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    __atomic_store_n(&tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    zc_shared_device_gone(pair);
    return NULL;
}

#define POLICY                                                                                     \
    "[rule host]\napi = malloc\nsize = 1M..\nplace = shared\n"                                     \
    "[rule device]\napi = cudaMalloc\nplace = shared\n"

/* A scene in a process of its own: with a pair, whose pages were copied if it says so: both sides
 * see them then, and the CPU may only read.  Returns its wait status. */
static int in_a_process(void (*scene)(struct zc_shared *p), bool copied)
{
    struct zc_shared_hold hold;
    struct zc_moved moved = {0};
    const char *why;
    int status;
    pid_t child = fork();
    if (child == 0) {
        host_policy(POLICY);
        char *host = host_get(SIZE);
        if (!zc_shared_access_open(&why))
            _exit(2);
        struct zc_shared *p = pair_in(host);
        if (!zc_shared_lock(p, &hold))
            _exit(3);
        if (copied)
            zc_coherent_to_device(&p->pages, 0, SIZE, &moved, NULL);
        zc_shared_unlock(p, &hold);
        scene(p);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void device_goes(struct zc_shared *p)
{
    closed = true;
    zc_shared_leave(p, false);
}

static void host_goes(struct zc_shared *p)
{
    (void)p;
    closed = true;
    zc_shared_host_gone(extent);
}

static void host_goes_in_a_child(struct zc_shared *p)
{
    zc_extent_era++; /* As the host heap has it in a child of fork(2). */
    host_goes(p);
}

static void pages_that_do_not_open_when_a_side_goes_end_the_process(void **test)
{
    void (*const scenes[])(struct zc_shared * p) = {device_goes, host_goes, host_goes_in_a_child};
    (void)test;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        int status = in_a_process(scenes[i], true);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void *write_first(void *block)
{
    __atomic_store_n(&mover, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    *(volatile char *)block = 2;
    return NULL;
}

static void fork_while_a_page_is_parted(struct zc_shared *p)
{
    struct zc_shared_hold hold;
    struct zc_moved moved = {0};
    pthread_t thread;
    int status = 1;
    volatile char *host = memset((void *)p->pages.base, 1, SIZE);
    if (!zc_shared_lock(p, &hold))
        _exit(1);
    zc_coherent_to_device(&p->pages, 0, SIZE, &moved, NULL);
    zc_shared_unlock(p, &hold);
    if (pthread_create(&thread, NULL, write_first, (void *)host) != 0)
        _exit(2);
    while (!__atomic_load_n(&moving, __ATOMIC_ACQUIRE))
        sched_yield();
    pid_t child = fork();
    if (child == 0)
        _exit(host[1] == 1 && host[SIZE - 1] == 1 ? 0 : 3);
    __atomic_store_n(&forked, true, __ATOMIC_RELEASE);
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    _exit(status || host[0] != 2);
}

static void a_child_has_no_page_that_another_thread_is_parting(void **test)
{
    (void)test;
    assert_int_equal(in_a_process(fork_while_a_page_is_parted, true), 0);
}

static void part_in_vain(struct zc_shared *p)
{
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        _exit(1);
    closed = true;
    bool refused = zc_coherent_launch(&p->pages) == ZC_EFFECT_REFUSED &&
                   zc_coherent_touch(&p->pages, 0, true) == ZC_EFFECT_REFUSED;
    closed = false;
    bool opened = zc_coherent_touch(&p->pages, 0, true) == ZC_EFFECT_DONE;
    zc_shared_unlock(p, &hold);
    *(volatile char *)p->pages.base = 1;
    _exit(refused && opened ? 0 : 1);
}

static void a_page_that_stayed_closed_opens_when_it_is_touched(void **test)
{
    (void)test;
    assert_int_equal(in_a_process(part_in_vain, false), 0);
}

static void read_in_vain(struct zc_shared *p)
{
    struct zc_coherent *c = &p->pages;
    struct zc_shared_hold hold;
    uint64_t end;
    if (!zc_shared_lock(p, &hold) || zc_coherent_launch(c) != ZC_EFFECT_DONE)
        _exit(1);
    closed = true;
    bool refused = zc_coherent_device(c, 0, SIZE, false, NULL) == ZC_EFFECT_REFUSED;
    closed = false;
    bool opened = zc_coherent_device(c, 0, SIZE, false, NULL) == ZC_EFFECT_DONE;
    const char *there = (const char *)zc_coherent_alias(c, 0, SIZE, &end);
    _exit(refused && opened && there[0] == 0 && there[SIZE - 1] == 0 ? 0 : 1);
}

static void device_pages_that_do_not_open_stay_where_they_were(void **test)
{
    (void)test;
    assert_int_equal(in_a_process(read_in_vain, true), 0);
}

/* As a handler may: the page that is looked for under the lock is the pair's. */
static struct zc_shared *touched;
static volatile int arrived, under_lock;

static void touch(int sig)
{
    (void)sig;
    arrived++;
    under_lock += __atomic_load_n(&touched->owner, __ATOMIC_ACQUIRE) != 0;
    if (!under_lock)
        *(volatile char *)touched->pages.base = 2;
}

static void send_under_two_locks(struct zc_shared *p)
{
    struct zc_shared_hold hold, second_hold;
    struct zc_shared *other = pair_in(host_get(SIZE));
    touched = p;
    signal(SIGSEGV, touch);
    if (!zc_shared_lock(p, &hold) || !zc_shared_lock(other, &second_hold))
        _exit(1);
    raise(SIGSEGV);
    zc_shared_unlock(other, &second_hold);
    int early = arrived;
    zc_shared_unlock(p, &hold);
    _exit(early || arrived != 1 || under_lock ? 4 : 0);
}

static void send_in_a_fault(struct zc_shared *p)
{
    touched = p;
    signal(SIGSEGV, touch);
    interrupted = true;
    ((volatile char *)p->pages.base)[1] = 1;
    _exit(interrupted || arrived != 1 || under_lock ? 5 : 0);
}

static void a_signal_sent_to_the_holder_of_the_lock_waits_until_it_is_dropped(void **test)
{
    (void)test;
    assert_int_equal(in_a_process(send_under_two_locks, true), 0);
    assert_int_equal(in_a_process(send_in_a_fault, true), 0);
}

static void threads_that_free_both_sides_at_once_end_the_pair_once(void **test)
{
    struct zc_pair_counts before, after;
    struct zc_shared_hold hold;
    pthread_t thread;
    pid_t other;
    (void)test;
    host_policy(POLICY);
    char *host = host_get(SIZE);
    assert_non_null(host);
    struct zc_shared *p = pair_in(host);
    zc_shared_totals(&before);
    zc_shared_leave(p, false);
    signal(SIGUSR1, free_host);
    assert_true(zc_shared_lock(p, &hold));
    pthread_create(&thread, NULL, free_device, p);
    while (!(other = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)) || !wants_the_lock(other))
        sched_yield();
    pthread_kill(thread, SIGUSR1);
    zc_shared_unlock(p, &hold);
    pthread_join(thread, NULL);
    zc_shared_totals(&after);
    assert_int_equal(before.pairs, 1);
    assert_int_equal(after.pairs, 1);
    assert_null(extent->shared);
    zc_hostheap_put(host);
    /* The object of a pair that ended twice would be given out twice. */
    const struct zc_shared *first = pair_in(host_get(SIZE));
    assert_ptr_not_equal(first, pair_in(host_get(SIZE)));
}

static pthread_t second;
static int second_opened = -1; /* Atomic; -1 while it has no answer. */

static void *open_too(void *unused)
{
    const char *why;
    __atomic_store_n(&second_opened, zc_shared_access_open(&why), __ATOMIC_RELEASE);
    return unused;
}

/* In the library's first call of a scene a second thread asks for the same,
 * and has some time to get it before the first. */
static bool ask_twice;

void *zc_memory_map(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    if (ask_twice) {
        ask_twice = false;
        pthread_create(&second, NULL, open_too, NULL);
        for (int i = 0; i < 1000 && __atomic_load_n(&second_opened, __ATOMIC_ACQUIRE) < 0; i++)
            usleep(100);
    }
    return (void *)syscall(SYS_mmap, at, n, rights, flags, fd, offset);
}

static void open_at_once(void)
{
    const char *why;
    host_policy(POLICY);
    if (!zc_hostrule_open())
        _exit(2);
    ask_twice = true;
    bool first = zc_shared_access_open(&why);
    pthread_join(second, NULL);
    _exit(!(first && second_opened == 1));
}

static void threads_that_pair_first_at_once_both_may(void **test)
{
    int status;
    (void)test;
    pid_t child = fork();
    if (child == 0)
        open_at_once();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_pair_first_at_once_both_may),
        cmocka_unit_test(pages_that_do_not_open_when_a_side_goes_end_the_process),
        cmocka_unit_test(a_child_has_no_page_that_another_thread_is_parting),
        cmocka_unit_test(device_pages_that_do_not_open_stay_where_they_were),
        cmocka_unit_test(a_page_that_stayed_closed_opens_when_it_is_touched),
        cmocka_unit_test(a_signal_sent_to_the_holder_of_the_lock_waits_until_it_is_dropped),
        cmocka_unit_test(threads_that_free_both_sides_at_once_end_the_pair_once),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
