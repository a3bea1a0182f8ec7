/*
 * Functions that set a thread's signal mask.  Once pages are protected SIGSEGV stays open in the
 * kernel, because a fault while it is blocked ends the process; the program's view keeps it.
 */
#include "catch/signal.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "place/chain.h"

#define EXPORT __attribute__((visibility("default")))
#define SEGV ZC_SIGBIT(SIGSEGV)

#define ZC_SIGNAL(name, result, params, args) EXPORT result name params;
#include "catch/signal.def"

static bool on(void)
{
    return __builtin_expect(__atomic_load_n(&zc_chain_on, __ATOMIC_ACQUIRE), 0);
}

typedef int (*mask_function)(int how, const sigset_t *set, sigset_t *old);

/* What the program asked about SIGSEGV, done to its view.  `newly` are the signals that the call
 * blocked besides. */
static void change_view(int how, bool named, bool was, uint64_t newly)
{
    if (how == SIG_SETMASK && named)
        zc_chain_block(newly);
    else if (how == SIG_BLOCK && named && !was)
        zc_chain_block(newly);
    else if ((how == SIG_SETMASK && !named) || (how == SIG_UNBLOCK && named))
        zc_chain_unblock();
}

/* The sets are read and written where libc would, so that a bad pointer does what it did. */
static int change(mask_function real, int how, const sigset_t *set, sigset_t *old)
{
    sigset_t open, before;
    uint64_t wanted = set ? zc_sigword(set) : 0;
    if (set) {
        open = *set;
        zc_sigword_put(&open, wanted & ~SEGV);
    }
    int result = real(how, set ? &open : NULL, &before);
    if (result != 0)
        return result;
    uint64_t mask = zc_sigword(&before);
    bool was = zc_chain_blocked(mask);
    if (set)
        change_view(how, wanted & SEGV, was, wanted & ~SEGV & ~mask);
    if (old)
        zc_sigword_put(old, (mask & ~ZC_SIGBIT(ZC_CHAIN_WITNESS)) | (was ? SEGV : 0));
    return result;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return on() ? change(zc_libc_signal.sigprocmask, how, set, old)
                : zc_libc_signal.sigprocmask(how, set, old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return on() ? change(zc_libc_signal.pthread_sigmask, how, set, old)
                : zc_libc_signal.pthread_sigmask(how, set, old);
}

static int change_one(int how, int sig)
{
    sigset_t set;
    sigemptyset(&set);
    return sigaddset(&set, sig) != 0 ? -1 : sigprocmask(how, &set, NULL);
}

EXPORT int sighold(int sig)
{
    return on() ? change_one(SIG_BLOCK, sig) : zc_libc_signal.sighold(sig);
}

EXPORT int sigrelse(int sig)
{
    return on() ? change_one(SIG_UNBLOCK, sig) : zc_libc_signal.sigrelse(sig);
}

/* BSD's masks are the first 32 signals. */
static int change_bsd(int how, const int *mask)
{
    sigset_t set, old;
    sigemptyset(&set);
    if (mask)
        zc_sigword_put(&set, (uint32_t)*mask);
    return sigprocmask(how, mask ? &set : NULL, &old) < 0 ? -1 : (int)(uint32_t)zc_sigword(&old);
}

EXPORT int sigblock(int mask)
{
    return on() ? change_bsd(SIG_BLOCK, &mask) : zc_libc_signal.sigblock(mask);
}

EXPORT int sigsetmask(int mask)
{
    return on() ? change_bsd(SIG_SETMASK, &mask) : zc_libc_signal.sigsetmask(mask);
}

EXPORT int siggetmask(void)
{
    return on() ? change_bsd(SIG_BLOCK, NULL) : zc_libc_signal.siggetmask();
}

/* A cancellation point, so nothing may have to be undone after it: handlers that run meanwhile may
 * meet protected pages, and find SIGSEGV open. */
EXPORT int sigsuspend(const sigset_t *set)
{
    if (!on() || !(zc_sigword(set) & SEGV))
        return zc_libc_signal.sigsuspend(set);
    sigset_t open = *set;
    zc_sigword_put(&open, zc_sigword(set) & ~SEGV);
    return zc_libc_signal.sigsuspend(&open);
}

EXPORT int sigpending(sigset_t *set)
{
    int result = zc_libc_signal.sigpending(set);
    if (on() && result == 0 && zc_chain_pending())
        zc_sigword_put(set, zc_sigword(set) | SEGV);
    return result;
}

/* The mask that a thread begins with (pthread_attr_setsigmask_np(3)). */
EXPORT int pthread_attr_setsigmask_np(pthread_attr_t *attr, const sigset_t *set)
{
    if (!on() || !set || !(zc_sigword(set) & SEGV))
        return zc_libc_signal.pthread_attr_setsigmask_np(attr, set);
    sigset_t open = *set;
    zc_sigword_put(&open, zc_sigword(set) & ~SEGV);
    return zc_libc_signal.pthread_attr_setsigmask_np(attr, &open);
}
