/* SPDX-License-Identifier: MIT */
/* Faults of kernels and of copies: SIGSEGV and SIGBUS inside guarded code become
 * CUDA_ERROR_ILLEGAL_ADDRESS, and writes to pages that are being registered wait. Faults anywhere
 * else go to the handler that the program has. */
#define _GNU_SOURCE
#include "stream.h"
#include "view.h"
#include <setjmp.h>
#include <signal.h>

/* The handlers below ours: those of the program's start, and those that it installed later. */
struct handlers {
    struct sigaction segv; /* of SIGSEGV */
    struct sigaction bus;  /* of SIGBUS */
};

static struct handlers first, latest;
static pthread_mutex_t handlers_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread sigjmp_buf *guard;

/* The fault that a handler of the program's has.  Handlers that leave by siglongjmp leave it here;
 * a later fault has another context, or the same one with a frame that is no deeper. */
static __thread struct {
    const void *context;
    const char *frame;
} passed;

static void pass_on(const struct sigaction *to, int signal, siginfo_t *info, void *context)
{
    if (to->sa_flags & SA_SIGINFO)
        to->sa_sigaction(signal, info, context);
    else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
        to->sa_handler(signal);
    else
        sigaction(signal, to, NULL); /* the instruction faults again: the default action follows */
}

static void fault(int signal, siginfo_t *info, void *context)
{
    if (signal == SIGSEGV && sim_swap_fault(info))
        return;
    if (guard && info->si_code > 0) /* Else it was sent, as by kill(2). */
        siglongjmp(*guard, 1);
    /* A later handler may pass the fault on to us, whom it found below itself. */
    const char *frame = __builtin_frame_address(0);
    bool back = passed.context == context && frame < passed.frame;
    const struct handlers *to = back ? &first : &latest;
    passed.context = context;
    passed.frame = frame;
    pass_on(signal == SIGSEGV ? &to->segv : &to->bus, signal, info, context);
    passed.context = NULL;
}

static bool handler_in_place(void)
{
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    return (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == fault;
}

static void install(struct handlers *below)
{
    struct sigaction action = {.sa_sigaction = fault,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &below->segv);
    sigaction(SIGBUS, &action, &below->bus);
}

void sim_guard_start(void)
{
    install(&first);
    latest = first;
}

void sim_guard_ensure(void)
{
    pthread_mutex_lock(&handlers_lock);
    if (!handler_in_place()) /* the program put its own over ours */
        install(&latest);
    pthread_mutex_unlock(&handlers_lock);
}

CUresult sim_guarded(CUresult (*fn)(void *), void *data)
{
    sigjmp_buf here;
    sigjmp_buf *volatile outer = guard;
    CUresult r;
    sim_guard_ensure();
    if (sigsetjmp(here, 0) == 0) {
        guard = &here;
        r = fn(data);
    } else {
        r = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    guard = outer;
    return r;
}

void sim_crash(void)
{
    volatile char *volatile nowhere = NULL;
    *nowhere = 0;
}
