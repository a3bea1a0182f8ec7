/* SPDX-License-Identifier: MIT */
/* Threads that are asked to open SIGSEGV, in the midst of something else. */
#include "fault_test.h"

#include <ucontext.h>

#include "fault/signal.h"

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

/* Until the other thread has looked, and has done what it does then. */
static void serve_meanwhile(bool (*fault)(uintptr_t, bool), void (*then)(pthread_t thread))
{
    static struct zc_fault_ops ops = {fake_owns, NULL, NULL, fake_open};
    pthread_t thread;
    ready = 0;
    ops.fault = fault;
    if (zc_fault_start(&ops))
        _exit(5);
    fake_protect(PROT_NONE);
    pthread_create(&thread, NULL, served_thread, NULL);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        usleep(100);
    if (zc_fault_start(&ops))
        _exit(6);
    if (then)
        then(thread);
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void served_meanwhile(void)
{
    signal(SIGSEGV, open_foreign);
    serve_meanwhile(slow_fault, NULL);
}

static void a_thread_that_serves_a_fault_is_not_taken_for_one_that_blocks(void **test)
{
    (void)test;
    assert_int_equal(in_child(served_meanwhile), 0);
}

static volatile int serving, interrupted, arrived;

static void count_sent(int sig, siginfo_t *info, void *context)
{
    (void)context;
    interrupted += serving;
    arrived += info->si_code == SI_TKILL;
    open_foreign(sig);
}

static bool fault_that_shows(uintptr_t address, bool write)
{
    serving = 1;
    bool served = slow_fault(address, write);
    serving = 0;
    return served;
}

static void send_segv(pthread_t thread)
{
    pthread_kill(thread, SIGSEGV);
}

static void sent_meanwhile(void)
{
    struct sigaction act = {.sa_sigaction = count_sent, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &act, NULL);
    serve_meanwhile(fault_that_shows, send_segv);
    if (interrupted || arrived != 1)
        _exit(9);
}

static void a_signal_sent_to_a_thread_asked_in_a_fault_waits_until_it_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(sent_meanwhile), 0);
}

/* With the mask of glibc's threads for timers, some of which run the program's functions. */
static void *timer_thread(void *unused)
{
    char byte;
    mask_past_libc(SIG_SETMASK, ~BIT(33), NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    if (read(channel[0], &byte, 1) != 1)
        _exit(2);
    poke(region);
    return unused;
}

static void blocked_all_but_setxid(void)
{
    pthread_t thread = begin(timer_thread, NULL);
    protect_and_go();
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_with_the_mask_of_timers_is_opened(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_all_but_setxid), 0);
}

static bool fault_with_mask(uintptr_t address, bool write)
{
    uint64_t now = 0;
    mask_past_libc(SIG_BLOCK, 0, &now);
    if (!(now & BIT(SIGSEGV)))
        _exit(9);
    return fake_fault(address, write);
}

/* Between the kernel and libzc's first instruction the mask has been opened. */
static void opened_on_the_way(void)
{
    static const struct zc_fault_ops ops = {fake_owns, fault_with_mask, NULL, fake_open};
    struct sigaction ours;
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = SEGV_ACCERR};
    ucontext_t context;
    if (zc_fault_start(&ops))
        _exit(5);
    fake_protect(PROT_NONE);
    getcontext(&context);
    info.si_addr = region;
    zc_libc_signal.sigaction(SIGSEGV, NULL, &ours);
    mask_past_libc(SIG_SETMASK, ~(BIT(33) | BIT(SIGSEGV)), NULL);
    ours.sa_sigaction(SIGSEGV, &info, &context);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_was_asked_on_its_way_into_a_fault_closes_again(void **test)
{
    (void)test;
    assert_int_equal(in_child(opened_on_the_way), 0);
}

/* As aio_read(3) does while it starts a thread: the program's mask comes back past its hooks. */
static void *shortly_blocked(void *unused)
{
    uint64_t now = BIT(SIGSEGV);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    mask_past_libc(SIG_SETMASK, ~(BIT(32) | BIT(33)), NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (now & BIT(SIGSEGV))
        mask_past_libc(SIG_BLOCK, 0, &now);
    mask_past_libc(SIG_SETMASK, BIT(SIGUSR1), NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (sigismember(&mask, SIGSEGV) || !sigismember(&mask, SIGUSR1))
        _exit(8);
    sigfillset(&mask);
    sigdelset(&mask, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if (sigismember(&mask, SIGSEGV))
        _exit(9);
    poke(foreign);
    poke(region);
    return unused;
}

static void blocked_for_a_moment(void)
{
    pthread_t thread;
    ready = 0;
    signal(SIGSEGV, open_foreign);
    fake_protect(PROT_NONE);
    pthread_create(&thread, NULL, shortly_blocked, NULL);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        usleep(100);
    if (zc_fault_start(&fake_ops))
        _exit(5);
    pthread_join(thread, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_libc_blocks_for_a_moment_is_open_behind_it(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_for_a_moment), 0);
}

/* Inherits the mask of a thread that has been seen blocked, and has not been asked yet. */
static void *born_blocked(void *unused)
{
    char byte;
    mask_past_libc(SIG_UNBLOCK, BIT(33), NULL);
    if (read(channel[0], &byte, 1) != 1)
        _exit(2);
    poke(region);
    return unused;
}

static void *starts_another(void *other)
{
    uint64_t pending = 0;
    mask_past_libc(SIG_SETMASK, ~(uint64_t)0, NULL);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    while (!(pending & BIT(33)))
        syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    pthread_create(other, NULL, born_blocked, NULL);
    mask_past_libc(SIG_UNBLOCK, BIT(33), NULL);
    return NULL;
}

static void born_meanwhile(void)
{
    pthread_t other, thread = begin(starts_another, &other);
    protect_and_go();
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    if (faults != 1)
        _exit(7);
}

static void a_thread_that_a_blocked_one_starts_meanwhile_is_opened(void **test)
{
    (void)test;
    assert_int_equal(in_child(born_meanwhile), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_serves_a_fault_is_not_taken_for_one_that_blocks),
        cmocka_unit_test(a_signal_sent_to_a_thread_asked_in_a_fault_waits_until_it_is_served),
        cmocka_unit_test(a_thread_with_the_mask_of_timers_is_opened),
        cmocka_unit_test(a_thread_that_was_asked_on_its_way_into_a_fault_closes_again),
        cmocka_unit_test(a_thread_that_libc_blocks_for_a_moment_is_open_behind_it),
        cmocka_unit_test(a_thread_that_a_blocked_one_starts_meanwhile_is_opened),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, fake_setup, NULL);
}
