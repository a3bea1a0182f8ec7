/* SPDX-License-Identifier: MIT */
/* SIGSEGV of the program's own: the actions, flags and stacks that it may have set. */
#include "fault_story.h"

static void jump(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    tell_info(info);
    siglongjmp(way_out, 1);
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

/* Sent to the thread that serves a fault, or where nothing is protected to one that runs. */
static void while_a_fault_is_served(void (*send)(void))
{
    while_served = send;
    settled();
    if (while_served)
        send();
}

static void send_by_kill(void)
{
    kill(getpid(), SIGSEGV);
}

static void send_by_tgkill(void)
{
    syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV);
}

/* A crash handler may send itself again what it got. */
static void send_as_a_fault(void)
{
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    info.si_signo = SIGSEGV;
    info.si_code = SEGV_MAPERR;
    info.si_addr = foreign + 3;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
}

static void sent_while_served(void)
{
    set_action(SIGSEGV, only_tell, SA_SIGINFO, SIGUSR1);
    while_a_fault_is_served(send_by_kill);
    tell(1);
    while_a_fault_is_served(send_by_tgkill);
    tell(2);
    while_a_fault_is_served(send_as_a_fault);
    touch_shared();
}

static void jump_out_of_what_was_sent(void)
{
    set_action(SIGSEGV, jump, SA_SIGINFO, SIGUSR1);
    if (sigsetjmp(way_out, 1) == 0)
        while_a_fault_is_served(send_by_tgkill);
    tell(blocked_now(SIGSEGV));
    touch_shared();
}

static void ignored_while_served(void)
{
    signal(SIGSEGV, SIG_IGN);
    while_a_fault_is_served(send_by_tgkill);
    touch_shared();
}

static void blocked_while_served(void)
{
    sigset_t segv;
    sigemptyset(&segv);
    sigaddset(&segv, SIGSEGV);
    set_action(SIGSEGV, only_tell, SA_SIGINFO, 0);
    sigprocmask(SIG_BLOCK, &segv, NULL);
    while_a_fault_is_served(send_by_tgkill);
    tell(1);
    sigprocmask(SIG_UNBLOCK, &segv, NULL);
}

static void default_while_served(void)
{
    while_a_fault_is_served(send_by_kill);
    tell(1);
}

static void default_as_a_fault(void)
{
    settled();
    send_as_a_fault();
    tell(1);
}

static int sent; /* Atomic. */

static void count_sent(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    if (info->si_code != SI_TKILL || info->si_pid != getpid())
        tell(info->si_code);
    __atomic_fetch_add(&sent, 1, __ATOMIC_RELAXED);
}

static void *send_many(void *thread)
{
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        pthread_kill(*(pthread_t *)thread, SIGSEGV);
    return NULL;
}

/* Faults and signals of one thread, which nothing puts into an order. */
static void sent_among_faults(void)
{
    pthread_t self = pthread_self(), sender;
    set_action(SIGSEGV, count_sent, SA_SIGINFO, 0);
    settled();
    ready = 0;
    if (pthread_create(&sender, NULL, send_many, &self) != 0)
        _exit(94);
    for (int i = 0; i < 200 || __atomic_load_n(&sent, __ATOMIC_RELAXED) < 100; i++)
        touch_shared();
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    pthread_join(sender, NULL);
}

#define SCENES(X)                                                                                  \
    X(default_action)                                                                              \
    X(ignored_fault)                                                                               \
    X(ignored_kill)                                                                                \
    X(default_kill)                                                                                \
    X(handler_with_info)                                                                           \
    X(handler_without_info)                                                                        \
    X(nodefer)                                                                                     \
    X(fault_in_handler)                                                                            \
    X(reset_hand)                                                                                  \
    X(jump_out)                                                                                    \
    X(jump_out_without_mask)                                                                       \
    X(unblock_in_handler)                                                                          \
    X(on_alternate_stack)                                                                          \
    X(not_on_alternate_stack)                                                                      \
    X(stack_overflow)                                                                              \
    X(sent_signals)                                                                                \
    X(sent_while_served)                                                                           \
    X(jump_out_of_what_was_sent)                                                                   \
    X(ignored_while_served)                                                                        \
    X(blocked_while_served)                                                                        \
    X(default_while_served)                                                                        \
    X(default_as_a_fault)                                                                          \
    X(sent_among_faults)
SCENES(TEST)
RUN_SCENES(SCENES)
