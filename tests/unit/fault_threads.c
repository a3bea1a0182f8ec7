/* Faults of many threads at once, and of threads that block SIGSEGV. */
#include "fault_test.h"

#include <pthread.h>
#include <sys/syscall.h>

#define THREADS 8
#define ROUNDS 20

static pthread_barrier_t barrier;

static void *write_all(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    for (int round = 0; round < ROUNDS; round++) {
        if (me == 0)
            fake_protect(round % 2 ? PROT_NONE : PROT_READ);
        pthread_barrier_wait(&barrier);
        for (size_t page = 0; page < PAGES; page++)
            __atomic_fetch_add(region + page * PAGE + me, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void threads_that_fault_at_once_all_go_on(void **test)
{
    (void)test;
    pthread_t threads[THREADS];
    assert_null(zc_fault_start(&fake_ops));
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, write_all, (void *)(uintptr_t)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t page = 0; page < PAGES; page++)
        for (size_t i = 0; i <= THREADS; i++)
            assert_int_equal(region[page * PAGE + i], page + 1 + (i < THREADS));
    assert_true(faults >= (int)PAGES);
}

/* A thread that blocks all signals, and waits for a byte before it touches a protected page. */
static int channel[2];
static int raw_block; /* Past libc: every signal of the kernel's. */
static int ready;     /* Atomic. */

static void *blocked_thread(void *arg)
{
    sigset_t all, now;
    uint64_t every = ~(uint64_t)0;
    char byte;
    (void)arg;
    sigfillset(&all);
    if (raw_block)
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &every, NULL, 8);
    else
        pthread_sigmask(SIG_SETMASK, &all, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    if (read(channel[0], &byte, 1) != 1)
        _exit(2);
    poke(region);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (!sigismember(&now, SIGSEGV) || !sigismember(&now, SIGUSR1) || sigismember(&now, 33))
        _exit(3);
    sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &now);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, SIGSEGV))
        _exit(4);
    return NULL;
}

static pthread_t begin_blocked(void)
{
    pthread_t thread;
    ready = 0;
    if (pipe(channel) != 0 || pthread_create(&thread, NULL, blocked_thread, NULL) != 0)
        _exit(1);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        usleep(100);
    return thread;
}

static void blocked_before(void)
{
    pthread_t thread = begin_blocked();
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    if (write(channel[1], "x", 1) != 1)
        _exit(6);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_blocked_all_signals_before_is_opened(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_before), 0);
}

static void blocked_before_past_libc(void)
{
    raw_block = 1;
    begin_blocked();
    const char *why = zc_fault_start(&fake_ops);
    if (!why || !strstr(why, "blocks SIGSEGV"))
        _exit(5);
}

static void a_thread_that_cannot_be_opened_is_reported(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_before_past_libc), 0);
}

/* A thread whose fault is served while another one looks for threads that block SIGSEGV. */
static int looked; /* Atomic. */

static bool slow_fault(uintptr_t address, bool write)
{
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
        usleep(100);
    return fake_fault(address, write);
}

static void open_foreign(int sig)
{
    (void)sig;
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
}

/* With any signal blocked the thread's own faults still reach the program's handler. */
static void *served_thread(void *unused)
{
    sigset_t one, now;
    poke(region);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (sigismember(&now, SIGSEGV))
        _exit(8);
    poke(foreign);
    return unused;
}

static void served_meanwhile(void)
{
    static const struct zc_fault_ops slow_ops = {fake_owns, slow_fault, fake_open};
    pthread_t thread;
    ready = 0;
    signal(SIGSEGV, open_foreign);
    if (zc_fault_start(&slow_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pthread_create(&thread, NULL, served_thread, NULL);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        usleep(100);
    if (zc_fault_start(&slow_ops))
        _exit(6);
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_serves_a_fault_is_not_taken_for_one_that_blocks(void **test)
{
    (void)test;
    assert_int_equal(in_child(served_meanwhile), 0);
}

static void blocked_after(void)
{
    if (zc_fault_start(&fake_ops))
        _exit(5);
    pthread_t thread = begin_blocked();
    fake_protect(PROT_NONE);
    if (write(channel[1], "x", 1) != 1)
        _exit(6);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_blocks_all_signals_later_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_after), 0);
}

/* The usual way to keep signals from a new thread: it inherits the mask. */
static void *touch_page(void *arg)
{
    poke(arg);
    return NULL;
}

static void inherited_mask(void)
{
    sigset_t all, old;
    pthread_t thread;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_attr_init(&attr);
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&thread, NULL, touch_page, region);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_join(thread, NULL);
    pthread_attr_setsigmask_np(&attr, &all);
    pthread_create(&thread, &attr, touch_page, region + PAGE);
    pthread_join(thread, NULL);
    if (faults != 2)
        _exit(6);
}

static void a_thread_with_an_inherited_mask_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(inherited_mask), 0);
}

static void faults_of_a_fork(void)
{
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pid_t child = fork();
    if (child == 0) {
        poke(region);
        poke(foreign);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV || faults != 0)
        _exit(6);
    poke(region);
    if (faults != 1)
        _exit(7);
}

static void a_forked_child_has_the_handler_too(void **test)
{
    (void)test;
    assert_int_equal(in_child(faults_of_a_fork), 0);
}

static int map(void **test)
{
    (void)test;
    fake_map();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_blocked_all_signals_before_is_opened),
        cmocka_unit_test(a_thread_that_cannot_be_opened_is_reported),
        cmocka_unit_test(a_thread_that_serves_a_fault_is_not_taken_for_one_that_blocks),
        cmocka_unit_test(a_thread_that_blocks_all_signals_later_is_served),
        cmocka_unit_test(a_thread_with_an_inherited_mask_is_served),
        cmocka_unit_test(a_forked_child_has_the_handler_too),
        cmocka_unit_test(threads_that_fault_at_once_all_go_on),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, map, NULL);
}
