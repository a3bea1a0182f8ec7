/* SPDX-License-Identifier: MIT */
/* What the program reads back of its action and mask, and what it means that SIGSEGV is blocked. */
#include "fault_story.h"

#include "fault/sigsegv.h"

static void block(int how, int sig)
{
    sigset_t set;
    sigemptyset(&set);
    if (sig)
        sigaddset(&set, sig);
    else
        sigfillset(&set);
    tell(pthread_sigmask(how, &set, NULL));
}

static void blocked_send(void)
{
    sigset_t pending;
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    block(SIG_BLOCK, SIGSEGV);
    settled();
    tell(blocked_now(SIGSEGV));
    raise(SIGSEGV);
    sigpending(&pending);
    tell(sigismember(&pending, SIGSEGV));
    block(SIG_UNBLOCK, SIGSEGV);
    tell(blocked_now(SIGSEGV));
    sigpending(&pending);
    tell(sigismember(&pending, SIGSEGV));
}

static void blocked_fault(void)
{
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    block(SIG_BLOCK, 0);
    settled();
    tell(blocked_now(SIGSEGV));
    poke(foreign + 3);
}

static void blocked_and_back(void)
{
    sigset_t all, old, now;
    sigfillset(&all);
    settled();
    sigprocmask(SIG_SETMASK, &all, &old);
    tell(sigismember(&old, SIGSEGV));
    touch_shared();
    sigprocmask(SIG_BLOCK, NULL, &now);
    tell(sigismember(&now, SIGSEGV));
    tell(sigismember(&now, 33));
    sigprocmask(SIG_SETMASK, &old, &now);
    tell(sigismember(&now, SIGSEGV));
    tell(blocked_now(SIGSEGV));
}

/* The mask that siglongjmp(3) restores is the one of before the block. */
static void blocked_and_jumped(void)
{
    set_action(SIGSEGV, repair, SA_SIGINFO, 0);
    settled();
    if (sigsetjmp(way_out, 1) == 0) {
        block(SIG_BLOCK, 0);
        siglongjmp(way_out, 1);
    }
    tell(blocked_now(SIGSEGV));
    poke(foreign + 3);
}

/* Signals that were blocked together are unblocked one by one. */
static void blocked_among_others(void)
{
    sigset_t set, one;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    settled();
    tell(blocked_now(SIGSEGV));
    block(SIG_UNBLOCK, SIGUSR1);
    tell(blocked_now(SIGSEGV));
    touch_shared();
    block(SIG_UNBLOCK, SIGUSR2);
    tell(blocked_now(SIGSEGV));
    sigdelset(&set, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &one, NULL);
    tell(blocked_now(SIGSEGV));
    tell(blocked_now(SIGUSR2));
    block(SIG_UNBLOCK, SIGSEGV);
    tell(blocked_now(SIGSEGV));
}

/* As code does that starts a thread. */
static void mask_and_jump(int sig, siginfo_t *info, void *context)
{
    sigset_t all, old;
    (void)sig;
    (void)context;
    tell_info(info);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    tell(blocked_now(SIGSEGV));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    tell(blocked_now(SIGSEGV));
    siglongjmp(way_out, 1);
}

static void masked_in_the_handler_and_jumped(void)
{
    set_action(SIGSEGV, mask_and_jump, SA_SIGINFO, 0);
    settled();
    for (volatile int round = 0; round < 2; round++) {
        if (sigsetjmp(way_out, 1) == 0)
            poke(foreign + 3);
        tell(blocked_now(SIGSEGV));
    }
}

static void read_back(void)
{
    static const int flags[] = {SA_SIGINFO, SA_SIGINFO | SA_ONSTACK | SA_RESTART,
                                SA_SIGINFO | SA_NODEFER | (int)SA_RESETHAND};
    struct sigaction old;
    set_action(SIGSEGV, repair, SA_SIGINFO | SA_NODEFER, SIGHUP);
    set_action(SIGALRM, only_tell, SA_SIGINFO, SIGSEGV);
    settled();
    for (int i = 0; i < 4; i++) {
        memset(&old, 0, sizeof(old));
        tell(sigaction(SIGSEGV, NULL, &old));
        tell(old.sa_flags);
        tell((long)(uintptr_t)old.sa_sigaction);
        tell((long)(uintptr_t)old.sa_restorer);
        tell(sigismember(&old.sa_mask, SIGHUP) * 2 + sigismember(&old.sa_mask, SIGUSR1));
        if (i < 3)
            set_action(SIGSEGV, only_tell, flags[i], SIGUSR1);
    }
    tell(sigaction(SIGALRM, NULL, &old));
    tell(sigismember(&old.sa_mask, SIGSEGV));
    set_action(SIGALRM, only_tell, SA_SIGINFO, SIGUSR1);
    tell(sigaction(SIGALRM, NULL, &old));
    tell(sigismember(&old.sa_mask, SIGSEGV));
    tell(sigaction(65, NULL, &old));
    tell(errno);
    tell((long)(uintptr_t)signal(SIGSEGV, SIG_IGN));
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

extern void (*bsd_signal(int sig, void (*handler)(int)))(int);

static bool masks_segv(int sig)
{
    struct sigaction now;
    sigaction(sig, NULL, &now);
    return sigismember(&now.sa_mask, SIGSEGV);
}

/* Those that know no sa_mask end the one that was there. */
static void older_functions_of_others(void)
{
    static const int sigs[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGHUP, SIGTERM};
    for (int i = 0; i < 5; i++)
        set_action(sigs[i], only_tell, SA_SIGINFO, SIGSEGV);
    settled();
    signal(SIGALRM, repair_plain);
    sysv_signal(SIGUSR1, repair_plain);
    sigset(SIGUSR2, repair_plain);
    sigignore(SIGHUP);
    sigset(SIGTERM, SIG_HOLD);
    for (int i = 0; i < 5; i++)
        tell(masks_segv(sigs[i]));
    siginterrupt(SIGTERM, 1);
    tell(masks_segv(SIGTERM));
}

static void tell_action(void)
{
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    tell((long)(uintptr_t)now.sa_handler);
    tell(now.sa_flags);
    tell(sigismember(&now.sa_mask, SIGSEGV));
    tell(blocked_now(SIGSEGV));
}

static void older_functions(void)
{
    settled();
    tell((long)(uintptr_t)signal(SIGSEGV, repair_plain));
    tell_action();
    tell((long)(uintptr_t)sysv_signal(SIGSEGV, SIG_IGN));
    tell_action();
    tell((long)(uintptr_t)bsd_signal(SIGSEGV, repair_plain));
    tell((long)(uintptr_t)sigset(SIGSEGV, SIG_HOLD));
    tell_action();
    tell((long)(uintptr_t)sigset(SIGSEGV, SIG_DFL));
    tell_action();
    tell(siginterrupt(SIGSEGV, 1));
    tell((long)(uintptr_t)signal(SIGSEGV, repair_plain));
    tell_action();
    tell(sigignore(SIGSEGV));
    tell_action();
    tell((long)(uintptr_t)signal(SIGSEGV, SIG_ERR));
}

static void older_masks(void)
{
    settled();
    tell(sighold(SIGSEGV));
    touch_shared();
    tell(blocked_now(SIGSEGV));
    tell(siggetmask());
    tell(sigrelse(SIGSEGV));
    tell(sigblock(1 << (SIGSEGV - 1) | 1 << (SIGUSR1 - 1)));
    touch_shared();
    tell(sigsetmask(0));
    tell(siggetmask());
    tell(sighold(500));
}

/* A handler whose sa_mask holds SIGSEGV may meet protected pages. */
static void mask_of_another_handler(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    act.sa_handler = repair_plain;
    sigfillset(&act.sa_mask);
    sigaction(SIGUSR1, &act, NULL);
    settled();
    raise(SIGUSR1);
    tell(blocked_now(SIGSEGV));
}

static void by_ucontext(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)info;
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGSEGV);
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
}

static void mask_by_ucontext(void)
{
    set_action(SIGSEGV, by_ucontext, SA_SIGINFO, 0);
    settled();
    poke(foreign + 3);
    tell(blocked_now(SIGSEGV));
    touch_shared();
    mprotect(foreign, PAGE, PROT_NONE);
    poke(foreign + 3);
}

/* A child of vfork(2) has its parent's memory, and actions and masks of its own. */
static void set_by_vfork(void)
{
    int status = -1;
    set_action(SIGSEGV, repair, SA_SIGINFO, 0);
    set_action(SIGUSR2, only_tell, SA_SIGINFO, SIGSEGV);
    settled();
    pid_t child = vfork();
    if (child == 0) {
        tell_action();
        signal(SIGSEGV, SIG_DFL);
        signal(SIGUSR2, SIG_DFL);
        block(SIG_BLOCK, 0);
        tell_action();
        _exit(0);
    }
    tell(waitpid(child, &status, 0) == child);
    tell(status);
    tell_action();
    tell(masks_segv(SIGUSR2));
    poke(foreign + 3);
}

static void blocked_by_parent_of_vfork(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGSEGV, repair_plain);
    block(SIG_BLOCK, 0);
    settled();
    pid_t child = vfork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &none, NULL);
        poke(foreign + 3);
        _exit(blocked_now(SIGSEGV));
    }
    int status = -1;
    waitpid(child, &status, 0);
    tell(status);
    tell(blocked_now(SIGSEGV));
    mprotect(foreign, PAGE, PROT_NONE);
    poke(foreign + 3);
}

/* The parent's view comes back in the midst of what holds signals back. */
static void sent_after_vfork(void)
{
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    settled();
    pid_t child = vfork();
    if (child == 0) {
        block(SIG_BLOCK, 0);
        _exit(0);
    }
    if (handled)
        zc_sigsegv_hold();
    tell(blocked_now(SIGSEGV));
    if (handled)
        zc_sigsegv_release();
    raise(SIGSEGV);
    tell(1);
}

/* What was sent to the parent does not arrive in a child of fork(2). */
static void sent_before_fork(void)
{
    sigset_t pending;
    int status = -1;
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    settled();
    block(SIG_BLOCK, SIGSEGV);
    raise(SIGSEGV);
    pid_t child = fork();
    if (child == 0) {
        if (handled)
            zc_sigsegv_child();
        sigpending(&pending);
        tell(sigismember(&pending, SIGSEGV));
        block(SIG_UNBLOCK, SIGSEGV);
        _exit(0);
    }
    waitpid(child, &status, 0);
    tell(status);
    block(SIG_UNBLOCK, SIGSEGV);
}

static void *tell_in_thread(void *nothing)
{
    tell_action();
    return nothing;
}

/* Handlers of fork(2) that run before libzc's may set actions, for all threads of the child. */
static void set_before_handlers_of_fork(void)
{
    int status = -1;
    pthread_t thread;
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    settled();
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, repair_plain);
        if (handled)
            zc_sigsegv_child();
        pthread_create(&thread, NULL, tell_in_thread, NULL);
        pthread_join(thread, NULL);
        signal(SIGSEGV, SIG_IGN);
        pthread_create(&thread, NULL, tell_in_thread, NULL);
        pthread_join(thread, NULL);
        _exit(0);
    }
    waitpid(child, &status, 0);
    tell(status);
    tell_action();
}

#define SCENES(X)                                                                                  \
    X(blocked_send)                                                                                \
    X(blocked_fault)                                                                               \
    X(blocked_and_back)                                                                            \
    X(blocked_and_jumped)                                                                          \
    X(blocked_among_others)                                                                        \
    X(masked_in_the_handler_and_jumped)                                                            \
    X(read_back)                                                                                   \
    X(older_functions)                                                                             \
    X(older_masks)                                                                                 \
    X(mask_of_another_handler)                                                                     \
    X(mask_by_ucontext)                                                                            \
    X(set_by_vfork)                                                                                \
    X(blocked_by_parent_of_vfork)                                                                  \
    X(sent_before_fork)                                                                            \
    X(older_functions_of_others) X(sent_after_vfork) X(set_before_handlers_of_fork)
SCENES(TEST)
RUN_SCENES(SCENES)
