/* SPDX-License-Identifier: MIT */
/* Faults of many threads at once, and of threads that block SIGSEGV. */
#include "fault_test.h"

#include <pthread.h>

#include "fault/signal.h"

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

static int raw_block; /* Past libc: every signal of the kernel's. */

/* Blocks all signals, and waits for a byte before it touches a protected page. */
static void *blocked_thread(void *arg)
{
    sigset_t all, now;
    char byte;
    (void)arg;
    sigfillset(&all);
    if (raw_block)
        mask_past_libc(SIG_SETMASK, ~(uint64_t)0, NULL);
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
    return begin(blocked_thread, NULL);
}

static void blocked_before(void)
{
    pthread_t thread = begin_blocked();
    protect_and_go();
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

static void *start_while_cancelled(void *returned)
{
    pthread_cancel(pthread_self());
    if (zc_fault_start(&fake_ops))
        _exit(5);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    *(bool *)returned = true;
    return NULL;
}

static void cancelled(void)
{
    pthread_t blocked = begin_blocked(), thread;
    bool returned = false;
    pthread_create(&thread, NULL, start_while_cancelled, &returned);
    pthread_join(thread, NULL);
    fake_protect(PROT_NONE);
    if (!returned || write(channel[1], "x", 1) != 1)
        _exit(6);
    pthread_join(blocked, NULL);
}

static void a_thread_that_is_to_be_cancelled_opens_the_others(void **test)
{
    (void)test;
    assert_int_equal(in_child(cancelled), 0);
}

static int (*libc_sigmask)(int how, const sigset_t *set, sigset_t *old);

static void *start_faults(void *unused)
{
    if (zc_fault_start(&fake_ops))
        _exit(5);
    return unused;
}

/* Another thread begins fault handling while this one is on its way to libc. */
static int begins_meanwhile(int how, const sigset_t *set, sigset_t *old)
{
    pthread_t thread;
    zc_libc_signal.pthread_sigmask = libc_sigmask;
    pthread_create(&thread, NULL, start_faults, NULL);
    pthread_join(thread, NULL);
    return libc_sigmask(how, set, old);
}

static void begin_during(int how, int sig)
{
    sigset_t set;
    sigfillset(&set);
    if (sig) {
        sigemptyset(&set);
        sigaddset(&set, sig);
    }
    zc_libc_signal.pthread_sigmask = begins_meanwhile;
    pthread_sigmask(how, &set, NULL);
    fake_protect(PROT_NONE);
    poke(region);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (sigismember(&set, SIGSEGV) != (how == SIG_BLOCK) || faults != 1)
        _exit(6);
}

static void blocked_during(void)
{
    pthread_sigmask(SIG_SETMASK, NULL, NULL); /* Finds libc's. */
    libc_sigmask = zc_libc_signal.pthread_sigmask;
    begin_during(SIG_BLOCK, 0);
}

static void unblocked_during(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    libc_sigmask = zc_libc_signal.pthread_sigmask;
    begin_during(SIG_UNBLOCK, SIGSEGV);
}

static void a_thread_that_changes_its_mask_meanwhile_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(blocked_during), 0);
    assert_int_equal(in_child(unblocked_during), 0);
}

static struct zc_libc_signal libc;

static void begin_faults(void)
{
    pthread_t thread;
    zc_libc_signal = libc;
    pthread_create(&thread, NULL, start_faults, NULL);
    pthread_join(thread, NULL);
}

static int begins_in_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    begin_faults();
    return libc.sigaction(sig, act, old);
}

#define BEGINS_IN(name)                                                                            \
    static zc_sighandler begins_in_##name(int sig, zc_sighandler handler)                          \
    {                                                                                              \
        begin_faults();                                                                            \
        return libc.name(sig, handler);                                                            \
    }
BEGINS_IN(signal)
BEGINS_IN(sysv_signal)
BEGINS_IN(sigset)

static int begins_in_sigignore(int sig)
{
    begin_faults();
    return libc.sigignore(sig);
}

static int begins_in_siginterrupt(int sig, int interrupt)
{
    begin_faults();
    return libc.siginterrupt(sig, interrupt);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* No fault of these scenes is. */
static void not_the_programs(int sig)
{
    (void)sig;
    _exit(8);
}

/* One function that sets an action, and what it leaves. */
static void act_during(int which)
{
    struct sigaction act = {.sa_handler = not_the_programs}, now;
    signal(SIGSEGV, not_the_programs); /* Finds libc's. */
    libc = zc_libc_signal;
    zc_libc_signal.sigaction = begins_in_sigaction;
    zc_libc_signal.signal = begins_in_signal;
    zc_libc_signal.sysv_signal = begins_in_sysv_signal;
    zc_libc_signal.sigset = begins_in_sigset;
    zc_libc_signal.sigignore = begins_in_sigignore;
    zc_libc_signal.siginterrupt = begins_in_siginterrupt;
    if (which == 0)
        sigaction(SIGSEGV, &act, NULL);
    else if (which == 1)
        signal(SIGSEGV, not_the_programs);
    else if (which == 2)
        sysv_signal(SIGSEGV, not_the_programs);
    else if (which == 3)
        sigset(SIGSEGV, not_the_programs);
    else if (which == 4)
        sigignore(SIGSEGV);
    else
        siginterrupt(SIGSEGV, 1);
    fake_protect(PROT_NONE);
    poke(region);
    sigaction(SIGSEGV, NULL, &now);
    _exit(faults != 1 || now.sa_handler != (which == 4 ? SIG_IGN : not_the_programs));
}

static void an_action_that_is_set_while_fault_handling_begins_is_the_programs(void **test)
{
    (void)test;
    for (int which = 0; which < 6; which++) {
        pid_t child = fork();
        if (child == 0)
            act_during(which);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void touch_region(int sig)
{
    (void)sig;
    poke(region);
}

/* Between two calls of libzc's another thread's has come through, which began before. */
static int sets_meanwhile(int sig, const struct sigaction *act, struct sigaction *old)
{
    const struct sigaction other = {.sa_handler = not_the_programs, .sa_flags = SA_ONSTACK};
    zc_libc_signal = libc;
    int result = libc.sigaction(sig, act, old);
    libc.sigaction(SIGSEGV, &other, NULL);
    return result;
}

static void set_before(void)
{
    struct sigaction now, kernels;
    signal(SIGSEGV, touch_region);
    sigaction(SIGSEGV, NULL, &now); /* Finds libc's. */
    libc = zc_libc_signal;
    zc_libc_signal.sigaction = sets_meanwhile;
    if (zc_fault_start(&fake_ops))
        _exit(5);
    sigaction(SIGSEGV, NULL, &now);
    libc.sigaction(SIGSEGV, NULL, &kernels);
    if (now.sa_handler != not_the_programs || !(kernels.sa_flags & SA_ONSTACK))
        _exit(6);
    fake_protect(PROT_NONE);
    poke(region);
}

static void an_action_that_is_set_just_before_fault_handling_begins_is_kept(void **test)
{
    (void)test;
    assert_int_equal(in_child(set_before), 0);
}

static void masked_during(void)
{
    struct sigaction act = {.sa_handler = touch_region}, now;
    sigaction(SIGUSR1, NULL, &now); /* Finds libc's. */
    libc = zc_libc_signal;
    zc_libc_signal.sigaction = begins_in_sigaction;
    sigfillset(&act.sa_mask);
    sigaction(SIGUSR1, &act, NULL);
    fake_protect(PROT_NONE);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &now);
    if (faults != 1 || !sigismember(&now.sa_mask, SIGSEGV))
        _exit(7);
}

/* The same, where the mask of an action is opened. */
static int replaces_meanwhile(int sig, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction other = {.sa_handler = touch_region};
    int result = libc.sigaction(sig, act, old);
    if (sig != SIGUSR1)
        return result;
    zc_libc_signal = libc;
    sigfillset(&other.sa_mask);
    sigaction(SIGUSR1, &other, NULL);
    return result;
}

static void replaced_during(void)
{
    struct sigaction act = {.sa_handler = not_the_programs};
    sigfillset(&act.sa_mask);
    sigaction(SIGUSR1, &act, NULL);
    libc = zc_libc_signal;
    zc_libc_signal.sigaction = replaces_meanwhile;
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    raise(SIGUSR1);
    sigaction(SIGUSR1, NULL, &act);
    if (faults != 1 || !sigismember(&act.sa_mask, SIGSEGV))
        _exit(7);
}

static void a_handler_that_is_set_while_fault_handling_begins_is_served(void **test)
{
    (void)test;
    assert_int_equal(in_child(masked_during), 0);
    assert_int_equal(in_child(replaced_during), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_blocked_all_signals_before_is_opened),
        cmocka_unit_test(a_thread_that_cannot_be_opened_is_reported),
        cmocka_unit_test(a_thread_that_is_to_be_cancelled_opens_the_others),
        cmocka_unit_test(a_thread_that_changes_its_mask_meanwhile_is_served),
        cmocka_unit_test(an_action_that_is_set_while_fault_handling_begins_is_the_programs),
        cmocka_unit_test(an_action_that_is_set_just_before_fault_handling_begins_is_kept),
        cmocka_unit_test(a_handler_that_is_set_while_fault_handling_begins_is_served),
        cmocka_unit_test(a_thread_that_blocks_all_signals_later_is_served),
        cmocka_unit_test(a_forked_child_has_the_handler_too),
        cmocka_unit_test(threads_that_fault_at_once_all_go_on),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, fake_setup, NULL);
}
