/* Faults of kernels and of copies: SIGSEGV and SIGBUS inside guarded code become
 * CUDA_ERROR_ILLEGAL_ADDRESS. Faults anywhere else go to the handler that was there before. */
#define _GNU_SOURCE
#include "stream.h"
#include <setjmp.h>
#include <signal.h>

static __thread sigjmp_buf *guard;
static struct sigaction old_segv, old_bus;

static void fault(int signal, siginfo_t *info, void *context)
{
    if (guard)
        siglongjmp(*guard, 1);
    const struct sigaction *old = signal == SIGSEGV ? &old_segv : &old_bus;
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(signal, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signal);
    } else {
        sigaction(signal, old,
                  NULL); /* the instruction faults again, and the default action follows */
    }
}

void sim_guard_start(void)
{
    struct sigaction action = {.sa_sigaction = fault,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
}

CUresult sim_guarded(CUresult (*fn)(void *), void *data)
{
    sigjmp_buf here;
    sigjmp_buf *volatile outer = guard;
    CUresult r;
    if (sigsetjmp(here, 0) == 0) {
        guard = &here;
        r = fn(data);
    } else {
        r = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    guard = outer;
    return r;
}
