/*
 * SIGSEGV of the program's own while libzc handles faults: every scene runs twice, with the kernel
 * alone and with fault handling on, and must tell the same story and end the same way.
 */
#include "fault_test.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* What a scene saw, in memory that it shares with the test. */
static struct story {
    int length;
    long told[64];
} *story;

static bool handled;                 /* Whether fault handling is on in this run. */
static enum { FIRST, LAST } order;   /* Whether it was on before the scene began. */
static sigjmp_buf way_out;

static void tell(long what)
{
    if (story->length < 64)
        story->told[story->length++] = what;
}

/* Where a scene has made its settings: fault handling may begin here, and a protected page is
 * touched in any case. */
static void settled(void)
{
    if (!handled)
        return;
    if (order == LAST)
        if (zc_fault_start(&fake_ops))
            _exit(99);
    fake_protect(PROT_NONE);
    poke(region + 5 * PAGE);
    if (faults != 1)
        _exit(98);
}

static void set_action(int sig, void (*handler)(int, siginfo_t *, void *), int flags, int masked)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    act.sa_sigaction = handler;
    act.sa_flags = flags;
    if (masked)
        sigaddset(&act.sa_mask, masked);
    if (sigaction(sig, &act, NULL) != 0)
        _exit(97);
}

static bool blocked_now(int sig)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, sig);
}

/* On an address, tells the offset in the page that faulted. */
static void tell_info(const siginfo_t *info)
{
    tell(info->si_signo);
    tell(info->si_code);
    if (info->si_code > 0)
        tell((char *)info->si_addr - foreign);
    tell(blocked_now(SIGSEGV));
    tell(blocked_now(SIGUSR1));
    tell(blocked_now(SIGUSR2));
    tell(blocked_now(33));
}

static void touch_shared(void)
{
    if (handled) {
        fake_protect(PROT_NONE);
        poke(region + 7 * PAGE);
        if (faults != 1)
            _exit(96);
    }
}

static void repair(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    tell_info(info);
    tell(sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR2));
    touch_shared();
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
    errno = 77;
}

static void repair_plain(int sig)
{
    tell(sig);
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
}

static void jump(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell_info(info);
    siglongjmp(way_out, 1);
}

static void only_tell(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell_info(info);
}

static void fault_again(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell_info(info);
    poke(foreign + 9);
}

static void where(int sig, siginfo_t *info, void *context)
{
    stack_t now;
    (void)sig;
    (void)info;
    (void)context;
    sigaltstack(NULL, &now);
    tell(now.ss_flags & SS_ONSTACK);
    mprotect(foreign, PAGE, PROT_READ | PROT_WRITE);
}

static void default_action(void)
{
    settled();
    poke(foreign + 3);
}

static void ignored_fault(void)
{
    signal(SIGSEGV, SIG_IGN);
    settled();
    poke(foreign + 3);
}

static void ignored_kill(void)
{
    signal(SIGSEGV, SIG_IGN);
    settled();
    tell(raise(SIGSEGV));
}

static void default_kill(void)
{
    settled();
    kill(getpid(), SIGSEGV);
    tell(1);
}

static void handler_with_info(void)
{
    sigset_t two;
    sigemptyset(&two);
    sigaddset(&two, SIGUSR2);
    sigprocmask(SIG_BLOCK, &two, NULL);
    set_action(SIGSEGV, repair, SA_SIGINFO, SIGUSR1);
    settled();
    poke(foreign + 3);
    tell(errno);
    tell(blocked_now(SIGSEGV));
    tell(blocked_now(SIGUSR1));
    tell(blocked_now(SIGUSR2));
}

static void handler_without_info(void)
{
    signal(SIGSEGV, repair_plain);
    settled();
    poke(foreign + 3);
    tell(foreign[3]);
}

static void nodefer(void)
{
    set_action(SIGSEGV, repair, SA_SIGINFO | SA_NODEFER, 0);
    settled();
    poke(foreign + 3);
}

static void fault_in_handler(void)
{
    set_action(SIGSEGV, fault_again, SA_SIGINFO, 0);
    settled();
    poke(foreign + 3);
}

static void reset_hand(void)
{
    struct sigaction now;
    set_action(SIGSEGV, repair, SA_SIGINFO | (int)SA_RESETHAND, 0);
    settled();
    poke(foreign + 3);
    sigaction(SIGSEGV, NULL, &now);
    tell(now.sa_handler == SIG_DFL);
    tell(now.sa_flags);
    mprotect(foreign, PAGE, PROT_NONE);
    poke(foreign + 4);
}

static void jump_out(void)
{
    set_action(SIGSEGV, jump, SA_SIGINFO, SIGUSR1);
    settled();
    for (volatile int i = 0; i < 3; i++) {
        if (sigsetjmp(way_out, 1) == 0)
            poke(foreign + i);
        tell(blocked_now(SIGSEGV));
        tell(blocked_now(SIGUSR1));
        touch_shared();
    }
}

static void jump_out_without_mask(void)
{
    set_action(SIGSEGV, jump, SA_SIGINFO, SIGUSR1);
    settled();
    if (sigsetjmp(way_out, 0) == 0)
        poke(foreign + 1);
    tell(blocked_now(SIGSEGV));
    touch_shared();
    poke(foreign + 2);
}

static void unblock_in_handler(void)
{
    set_action(SIGSEGV, jump, SA_SIGINFO, 0);
    settled();
    for (volatile int i = 0; i < 3; i++) {
        sigset_t segv;
        sigemptyset(&segv);
        sigaddset(&segv, SIGSEGV);
        if (sigsetjmp(way_out, 0) == 0)
            poke(foreign + i);
        sigprocmask(SIG_UNBLOCK, &segv, NULL);
        tell(blocked_now(SIGSEGV));
    }
}

static char alternate[65536];

static void stack_scene(int flags)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigaltstack(&stack, NULL);
    set_action(SIGSEGV, where, SA_SIGINFO | flags, 0);
    settled();
    poke(foreign + 3);
}

static void on_alternate_stack(void)
{
    stack_scene(SA_ONSTACK);
}

static void not_on_alternate_stack(void)
{
    stack_scene(0);
}

static volatile int deepest = 1 << 30;

static int overflow(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth < deepest ? overflow(depth + 1) + room[0] : 0;
}

static void leave_overflow(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell(info->si_code);
    siglongjmp(way_out, 1);
}

static void stack_overflow(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
    sigaltstack(&stack, NULL);
    set_action(SIGSEGV, leave_overflow, SA_SIGINFO | SA_ONSTACK, 0);
    settled();
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(way_out, 1) == 0)
            tell(overflow(0));
}

static void sent_signals(void)
{
    set_action(SIGSEGV, only_tell, SA_SIGINFO, SIGUSR1);
    settled();
    raise(SIGSEGV);
    kill(getpid(), SIGSEGV);
    sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 5});
}

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

static void compare(void (*scene)(void))
{
    struct story bare;
    memset(story, 0, sizeof(*story));
    handled = false;
    int status = in_child(scene);
    bare = *story;
    for (int when = FIRST; when <= LAST; when++) {
        memset(story, 0, sizeof(*story));
        handled = true;
        order = when;
        pid_t child = fork();
        if (child == 0) {
            for (int sig = 1; sig < 32; sig++)
                signal(sig, SIG_DFL);
            if (when == FIRST && zc_fault_start(&fake_ops))
                _exit(95);
            alarm(20);
            scene();
            _exit(0);
        }
        int with;
        assert_int_equal(waitpid(child, &with, 0), child);
        assert_int_equal(with, status);
        assert_int_equal(story->length, bare.length);
        for (int i = 0; i < bare.length; i++)
            if (story->told[i] != bare.told[i])
                print_message("# told %d: %lx, bare %lx\n", i, story->told[i], bare.told[i]);
        for (int i = 0; i < bare.length; i++)
            assert_int_equal(story->told[i], bare.told[i]);
    }
}

#define SCENES(X)                                                                                  \
    X(default_action) X(ignored_fault) X(ignored_kill) X(default_kill) X(handler_with_info)        \
    X(handler_without_info) X(nodefer) X(fault_in_handler) X(reset_hand) X(jump_out)               \
    X(jump_out_without_mask) X(unblock_in_handler) X(on_alternate_stack)                           \
    X(not_on_alternate_stack) X(stack_overflow) X(sent_signals) X(blocked_send) X(blocked_fault)   \
    X(blocked_and_back) X(blocked_and_jumped) X(read_back) X(older_functions) X(older_masks)       \
    X(mask_of_another_handler) X(mask_by_ucontext)

#define TEST(scene)                                                                                \
    static void as_the_kernel_does__##scene(void **test)                                           \
    {                                                                                              \
        (void)test;                                                                                \
        compare(scene);                                                                            \
    }
SCENES(TEST)

int main(void)
{
    fake_map();
    story = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
#define ROW(scene) cmocka_unit_test(as_the_kernel_does__##scene),
    const struct CMUnitTest tests[] = {SCENES(ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
