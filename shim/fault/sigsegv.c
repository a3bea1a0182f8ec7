/* SPDX-License-Identifier: MIT */
/* Forwards SIGSEGV to the program as the kernel would have done. */
#include "fault/sigsegv.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "fault/signal.h"

#define WORD 8 /* Bytes of a signal mask in the kernel. */

/* The kernel's struct, with fields in a convenient order; glibc's sigset_t is 120 bytes larger. */
struct action {
    void *handler; /* SIG_DFL, SIG_IGN, or a function as SA_SIGINFO says. */
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
    bool pending;     /* `info` is waiting to be delivered. */
    uint64_t witness; /* Signals whose bits in the kernel's mask confirm `blocked`, or 0. */
    siginfo_t info;   /* The first occurrence; more are dropped, as signal(7) says. */
};
static __thread struct view view __attribute__((tls_model("initial-exec")));

/* Whether libzc's handler has run in this thread, and how often zc_sigsegv_hold() is in force. */
static __thread bool entered __attribute__((tls_model("initial-exec")));
static __thread uint32_t held __attribute__((tls_model("initial-exec")));

/* A child of vfork(2) runs in the memory of the waiting parent thread, with its own actions and
 * masks. */
static __thread struct {
    pid_t pid; /* 0: there is none. */
    struct action program;
    struct view parent; /* The parent's `view`. */
} guest __attribute__((tls_model("initial-exec")));
static pid_t home; /* The process that the memory belongs to. */

static void set_mask(int how, uint64_t mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, how, &mask, old, WORD);
}

/* Blocks every signal, so that no handler can interrupt the holder and wait for it. */
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

/* The action of the calling process.  Under `guard`. */
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
 * Installs the kernel's action: libzc's handler, with those flags of the program's action that take
 * effect before a handler runs.  Its mask has every signal except the one that asks threads to
 * unblock SIGSEGV (fault/sigmask_repair.c).  So nothing interrupts libzc's part, and the signal
 * frame holds the mask of the interrupted code.
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

/* Stores the program's action before libzc's handler needs it.  Another thread may have set a later
 * one by a call that began earlier. */
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
        /* libc reports its own return flag and address with the action. */
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

/* Before `entered` is set, the thread may have been asked and opened already. */
void zc_sigsegv_enter(void)
{
    if (entered)
        return;
    entered = true;
    set_mask(SIG_BLOCK, ZC_SIGSEGV, NULL);
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
        set_mask(SIG_BLOCK, view.witness, NULL); /* libc's functions do not block this signal. */
    else
        view.witness &= mask;
}

/* Sends the signal to this thread again, unchanged: the kernel lets a process send itself any
 * siginfo (rt_sigqueueinfo(2)). */
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
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* From here on no occurrence is kept. */
    if (held || !view.pending)
        return;
    siginfo_t info = view.info;
    view.pending = false;
    set_mask(SIG_BLOCK, ZC_SIGSEGV, NULL);
    send_again(&info);
}

/* True if executing the interrupted instruction again raises the signal again. */
static bool synchronous(const siginfo_t *info)
{
    return info->si_code > 0 && info->si_code != SEGV_MTEAERR;
}

/*
 * Ends the process by the default action, with the usual core dump and siginfo: the signal that is
 * sent again arrives when libzc's handler returns.  Faults are sent again, too, because a process
 * may have sent itself what looks like a fault.
 */
static void die(const siginfo_t *info)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    zc_libc_signal.sigaction(SIGSEGV, &act, NULL);
    send_again(info);
}

/* The action to run, after SA_RESETHAND was applied. */
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
 * Runs the program's handler with the mask of sigaction(2): that of the interrupted code, sa_mask,
 * and SIGSEGV unless SA_NODEFER is set.  SIGSEGV is blocked only in the thread's view, with a
 * witness in the kernel's mask, because a handler may leave by siglongjmp(3) or change the mask
 * that it returns to.
 */
static void run(const struct action *a, siginfo_t *info, ucontext_t *context)
{
    uint64_t mask = zc_sigword(&context->uc_sigmask) | (a->mask & ~ZC_SIGSEGV);
    bool was_blocked = view.blocked;
    uint64_t old_witness = view.witness;
    int error = errno;
    if (!(a->flags & SA_NODEFER) || (a->mask & ZC_SIGSEGV)) {
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
    if (back & ZC_SIGSEGV) {
        zc_sigword_put(&context->uc_sigmask, back & ~ZC_SIGSEGV);
        zc_sigsegv_block(0);
    } else if (view.pending && !zc_sigsegv_blocked(back)) {
        /* Blocked until the interrupted code continues, where it arrives. */
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
    /* A blocked or ignored fault still ends the process (signal(7)). */
    if (blocked || now.handler == (void *)SIG_DFL ||
        (now.handler == (void *)SIG_IGN && synchronous(info)))
        die(info);
    else if (now.handler != (void *)SIG_IGN)
        run(&now, info, context);
}

/* A pending signal of a process is not inherited.  Until here the child looked like one of
 * vfork(2), whose actions and masks no other thread uses. */
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
