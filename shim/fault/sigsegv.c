/* SPDX-License-Identifier: MIT */
/* Gives SIGSEGV to the program as the kernel would have done. */
#include "fault/sigsegv.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "fault/signal.h"

#define WORD 8 /* Bytes of a signal mask in the kernel. */
#define SEGV ZC_SIGBIT(SIGSEGV)

/* The kernel's struct, in the order that suits copies; glibc's sigset_t has 120 bytes more. */
struct action {
    void *handler; /* SIG_DFL, SIG_IGN, or a function of the kind that SA_SIGINFO says. */
    void (*restorer)(void);
    uint64_t mask;
    int flags;
};

bool zc_sigsegv_on;
static struct action program; /* Under `guard`. */
static void (*ours)(int sig, siginfo_t *info, void *context);
static uint32_t guard; /* Held for a few instructions, with every signal blocked. */

/* What one thread blocks in the program's view. */
struct view {
    bool blocked;
    bool pending;     /* `info` waits. */
    uint64_t witness; /* Signals whose bits in the kernel's mask together confirm `blocked`; 0:
                       * none needed. */
    siginfo_t info;   /* The first occurrence; further ones are dropped, as signal(7) says. */
};
static __thread struct view view __attribute__((tls_model("initial-exec")));

/* Whether libzc's handler has run in this thread, and how often libzc holds back what is sent. */
static __thread bool entered __attribute__((tls_model("initial-exec")));
static __thread uint32_t held __attribute__((tls_model("initial-exec")));

/* A child of vfork(2) runs in the memory of the thread that waits for it, and has actions and masks
 * of its own. */
static __thread struct {
    pid_t pid; /* 0 while there is none. */
    struct action program;
    struct view parent; /* What `view` was. */
} guest __attribute__((tls_model("initial-exec")));
static pid_t home; /* Whose memory it is. */

static void set_mask(int how, uint64_t mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, how, &mask, old, WORD);
}

/* With every signal blocked no handler can interrupt the holder and wait for it. */
static uint64_t enter(void)
{
    uint64_t before = 0;
    set_mask(SIG_BLOCK, ~(uint64_t)0, &before);
    zc_word_lock(&guard);
    return before;
}

static void leave(uint64_t before)
{
    zc_word_unlock(&guard);
    set_mask(SIG_SETMASK, before, NULL);
}

bool zc_sigsegv_vfork_child(void)
{
    pid_t me = getpid();
    if (me == guest.pid)
        return true;
    if (guest.pid)
        view = guest.parent;
    guest.pid = me == home ? 0 : me;
    if (guest.pid) {
        uint64_t mask = enter();
        guest.program = program;
        leave(mask);
        guest.parent = view;
        view.pending = false;
    }
    return guest.pid;
}

/* The record of the caller's process; under `guard`. */
static struct action *action_record(bool is_guest)
{
    return is_guest ? &guest.program : &program;
}

static struct action action_of(const struct sigaction *act)
{
    return (struct action){.handler = (void *)act->sa_handler,
                           .restorer = act->sa_restorer,
                           .mask = zc_sigword(&act->sa_mask) &
                                   ~(ZC_SIGBIT(SIGKILL) | ZC_SIGBIT(SIGSTOP)),
                           .flags = act->sa_flags};
}

static bool is_function(const struct action *a)
{
    return a->handler != (void *)SIG_DFL && a->handler != (void *)SIG_IGN;
}

/*
 * The kernel's action: libzc's handler, with those of the program's flags that act before a handler
 * runs.  With every signal in the mask, except the one by which threads are asked to open SIGSEGV
 * (fault/sigmask_repair.c), nothing interrupts libzc's part, and the frame that it returns through
 * holds the mask of the interrupted code.
 */
static void install(const struct action *a, struct sigaction *was)
{
    struct sigaction act;
    act.sa_sigaction = ours;
    zc_sigword_put(&act.sa_mask, ~ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT));
    act.sa_flags = SA_SIGINFO | (is_function(a) ? a->flags & (SA_ONSTACK | SA_RESTART)
                                                : SA_ONSTACK | SA_RESTART);
    zc_libc_signal.sigaction(SIGSEGV, &act, was);
}

bool zc_sigsegv_ours(const struct sigaction *act)
{
    return act->sa_sigaction == ours;
}

/* The program's action is there before libzc's handler needs it.  Another thread may have set a
 * later one, by a call that began before. */
void zc_sigsegv_start(void (*handler)(int sig, siginfo_t *info, void *context))
{
    struct sigaction before;
    zc_libc_signal.sigaction(SIGSEGV, NULL, &before);
    ours = handler;
    home = getpid();
    program = action_of(&before);
    __atomic_store_n(&zc_sigsegv_on, true, __ATOMIC_SEQ_CST);
    install(&program, &before);
    if (zc_sigsegv_ours(&before))
        return;
    struct action last = action_of(&before);
    uint64_t mask = enter();
    bool other = last.handler != program.handler || last.flags != program.flags;
    program = last;
    leave(mask);
    if (other)
        install(&last, NULL);
}

int zc_sigsegv_action(const struct sigaction *act, struct sigaction *old)
{
    struct action wanted = act ? action_of(act) : (struct action){0};
    struct action *now = action_record(zc_sigsegv_vfork_child());
    uint64_t mask = enter();
    struct action before = *now;
    if (act)
        *now = wanted;
    leave(mask);
    if (act) {
        struct sigaction kernel;
        install(&wanted, NULL);
        /* The flag and address by which libc returns from handlers are in what it reports. */
        zc_libc_signal.sigaction(SIGSEGV, NULL, &kernel);
        mask = enter();
        now->restorer = kernel.sa_restorer;
        now->flags |= kernel.sa_flags & 0x04000000;
        leave(mask);
    }
    if (old) {
        old->sa_handler = (zc_sighandler)before.handler;
        old->sa_flags = before.flags;
        old->sa_restorer = before.restorer;
        zc_sigword_put(&old->sa_mask, before.mask);
    }
    return 0;
}

/* Before this is noted for the first time the thread may have been asked and opened. */
void zc_sigsegv_enter(void)
{
    if (entered)
        return;
    entered = true;
    set_mask(SIG_BLOCK, SEGV, NULL);
}

bool zc_sigsegv_serving(uint64_t mask)
{
    return entered && (mask & ZC_SIGBIT(ZC_SIGSEGV_SERVING_BIT));
}

bool zc_sigsegv_blocked(uint64_t mask)
{
    zc_sigsegv_vfork_child();
    return view.blocked && (mask & view.witness) == view.witness;
}

void zc_sigsegv_block(uint64_t with)
{
    view.witness = with;
    view.blocked = true;
}

void zc_sigsegv_keep(uint64_t mask)
{
    if (view.witness == ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT))
        set_mask(SIG_BLOCK, view.witness, NULL); /* Libc's masks leave it out. */
    else
        view.witness &= mask;
}

/* Sends the occurrence to this thread again, as it was: the kernel lets a process say anything
 * about signals to itself (rt_sigqueueinfo(2)). */
static void send_again(const siginfo_t *info)
{
    syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGSEGV, info);
}

void zc_sigsegv_unblock(void)
{
    if (view.witness == ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT))
        set_mask(SIG_UNBLOCK, view.witness, NULL);
    view.blocked = false;
    view.witness = 0;
    if (view.pending) {
        siginfo_t info = view.info;
        view.pending = false;
        send_again(&info);
    }
}

bool zc_sigsegv_pending(void)
{
    zc_sigsegv_vfork_child();
    return view.pending;
}

void zc_sigsegv_hold(void)
{
    held++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void zc_sigsegv_release(void)
{
    held--;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* From here on none is kept any more. */
    if (held || !view.pending)
        return;
    siginfo_t info = view.info;
    view.pending = false;
    set_mask(SIG_BLOCK, SEGV, NULL);
    send_again(&info);
}

/* Whether executing the interrupted instruction again raises the signal again. */
static bool synchronous(const siginfo_t *info)
{
    return info->si_code > 0 && info->si_code != SEGV_MTEAERR;
}

/*
 * Ends the process by the default action, with the core dump and the siginfo that it would have
 * had: what is sent again arrives when libzc's handler returns.  A fault is sent, too, because a
 * process may have sent itself what looks like one.
 */
static void die(const siginfo_t *info)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    zc_libc_signal.sigaction(SIGSEGV, &act, NULL);
    send_again(info);
}

/* The action to run, with SA_RESETHAND done. */
static struct action take_action(void)
{
    struct action *from = action_record(zc_sigsegv_vfork_child());
    uint64_t mask = enter();
    struct action now = *from;
    if (is_function(&now) && (now.flags & SA_RESETHAND))
        from->handler = (void *)SIG_DFL;
    leave(mask);
    return now;
}

/*
 * The program's handler, with the mask of sigaction(2): the interrupted code's, sa_mask, and
 * SIGSEGV without SA_NODEFER.  The last lives in the thread's view, with a witness in the kernel's
 * mask.  A handler may leave by siglongjmp(3), or change the mask that it returns to.
 */
static void run(const struct action *a, siginfo_t *info, ucontext_t *context)
{
    uint64_t mask = zc_sigword(&context->uc_sigmask) | (a->mask & ~SEGV);
    bool was_blocked = view.blocked;
    uint64_t old_witness = view.witness;
    int error = errno;
    if (!(a->flags & SA_NODEFER) || (a->mask & SEGV)) {
        mask |= ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT);
        zc_sigsegv_block(ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT));
    }
    set_mask(SIG_SETMASK, mask, NULL);
    errno = error;
    if (a->flags & SA_SIGINFO)
        ((void (*)(int, siginfo_t *, void *))a->handler)(SIGSEGV, info, context);
    else
        ((void (*)(int))a->handler)(SIGSEGV);
    error = errno;
    set_mask(SIG_BLOCK, ~(uint64_t)0, NULL);
    view.blocked = was_blocked;
    view.witness = old_witness;
    uint64_t back = zc_sigword(&context->uc_sigmask);
    if (back & SEGV) {
        zc_sigword_put(&context->uc_sigmask, back & ~SEGV);
        zc_sigsegv_block(0);
    } else if (view.pending && !zc_sigsegv_blocked(back)) {
        /* Blocked until the return to the interrupted code, where it arrives. */
        siginfo_t waiting = view.info;
        view.pending = false;
        send_again(&waiting);
    }
    errno = error;
}

void zc_sigsegv_forward(siginfo_t *info, ucontext_t *context)
{
    uint64_t mask = zc_sigword(&context->uc_sigmask);
    bool blocked = zc_sigsegv_blocked(mask);
    if ((blocked || held) && !synchronous(info)) {
        if (!view.pending)
            view.info = *info;
        view.pending = true;
        return;
    }
    struct action now = take_action();
    /* A fault that is blocked or ignored ends the process all the same (signal(7)). */
    if (blocked || now.handler == (void *)SIG_DFL ||
        (now.handler == (void *)SIG_IGN && synchronous(info)))
        die(info);
    else if (now.handler != (void *)SIG_IGN)
        run(&now, info, context);
}

/* What waits for a process does not wait for its children.  Until here the child was taken for one
 * of vfork(2), whose actions and masks no other thread has. */
void zc_sigsegv_child(void)
{
    __atomic_store_n(&guard, 0, __ATOMIC_RELAXED);
    home = getpid();
    if (guest.pid == home) {
        program = guest.program;
        guest.pid = 0;
    } else {
        view.pending = false;
    }
}
