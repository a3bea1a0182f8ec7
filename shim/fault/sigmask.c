/* SPDX-License-Identifier: MIT */
/*
 * Hooks on functions that set a thread's signal mask.  Once pages are protected, SIGSEGV stays open
 * in the kernel, because a fault while it is blocked ends the process.  The program still sees it
 * blocked.
 */
#include "fault/signal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "driver/real.h"
#include "fault/sigsegv.h"
#include "fault/sigmask_repair.h"

#define EXPORT __attribute__((visibility("default")))

#define ZC_SIGNAL(name, result, params, args) EXPORT result name params;
#include "fault/signal.def"

typedef int (*mask_function)(int how, const sigset_t *set, sigset_t *old);

/* Signals that libc or the kernel removes from every mask. */
#define NEVER                                                                                      \
    (ZC_SIGBIT(SIGKILL) | ZC_SIGBIT(SIGSTOP) | ZC_SIGBIT(ZC_SIGSEGV_SERVING_BIT) |                 \
     ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT))

/* Applies the program's request about SIGSEGV to its view.  `was`: it blocked SIGSEGV before;
 * `before` is the rest of the old mask. */
static void change_view(int how, uint64_t wanted, bool was, uint64_t before)
{
    bool named = wanted & ZC_SIGSEGV, opens = how == SIG_UNBLOCK;
    if (how == SIG_SETMASK ? !named : opens ? named : !was && !named)
        zc_sigsegv_unblock();
    else if (was)
        zc_sigsegv_keep(how == SIG_SETMASK ? wanted : opens ? before & ~wanted : ~(uint64_t)0);
    else if (!opens)
        zc_sigsegv_block(wanted & ~(ZC_SIGSEGV | NEVER | before));
}

/* Reads and writes the sets where libc would, so that a bad pointer has the usual effect. */
static int change(mask_function real, int how, const sigset_t *set, sigset_t *old)
{
    sigset_t open, before;
    uint64_t wanted = set ? zc_sigword(set) : 0;
    if (set) {
        open = *set;
        zc_sigword_put(&open, wanted & ~ZC_SIGSEGV);
    }
    int result = real(how, set ? &open : NULL, &before);
    if (result != 0)
        return result;
    uint64_t mask = zc_sigword(&before);
    bool was = zc_sigsegv_blocked(mask);
    if (set)
        change_view(how, wanted, was, mask);
    if (old)
        zc_sigword_put(old, (mask & ~ZC_SIGBIT(ZC_SIGSEGV_HANDLER_BIT)) | (was ? ZC_SIGSEGV : 0));
    return result;
}

/* Fault handling may begin while libc is in the call; then its effect is applied to the view
 * afterwards. */
static int change_before(mask_function real, int how, const sigset_t *set, sigset_t *old)
{
    int result = real(how, set, old);
    if (!zc_sigsegv_is_on() || result != 0 || !set)
        return result;
    bool named = zc_sigword(set) & ZC_SIGSEGV;
    if (how == SIG_SETMASK ? !named : how == SIG_UNBLOCK && named)
        zc_sigsegv_unblock();
    else
        zc_repair_self();
    return result;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return (zc_sigsegv_is_on() ? change : change_before)(zc_libc_signal.sigprocmask, how, set, old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return (zc_sigsegv_is_on() ? change : change_before)(zc_libc_signal.pthread_sigmask, how, set,
                                                         old);
}

static int change_one(int how, int sig)
{
    sigset_t set;
    sigemptyset(&set);
    return sigaddset(&set, sig) != 0 ? -1 : sigprocmask(how, &set, NULL);
}

EXPORT int sighold(int sig)
{
    return zc_sigsegv_is_on() ? change_one(SIG_BLOCK, sig) : zc_libc_signal.sighold(sig);
}

EXPORT int sigrelse(int sig)
{
    return zc_sigsegv_is_on() ? change_one(SIG_UNBLOCK, sig) : zc_libc_signal.sigrelse(sig);
}

/* BSD masks are the first 32 signals. */
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
    return zc_sigsegv_is_on() ? change_bsd(SIG_BLOCK, &mask) : zc_libc_signal.sigblock(mask);
}

EXPORT int sigsetmask(int mask)
{
    return zc_sigsegv_is_on() ? change_bsd(SIG_SETMASK, &mask) : zc_libc_signal.sigsetmask(mask);
}

EXPORT int siggetmask(void)
{
    return zc_sigsegv_is_on() ? change_bsd(SIG_BLOCK, NULL) : zc_libc_signal.siggetmask();
}

/* This is a cancellation point, so nothing may need undoing after it.  Handlers that run meanwhile
 * may touch protected pages, and find SIGSEGV open. */
EXPORT int sigsuspend(const sigset_t *set)
{
    if (!zc_sigsegv_is_on() || !(zc_sigword(set) & ZC_SIGSEGV))
        return zc_libc_signal.sigsuspend(set);
    sigset_t open = *set;
    zc_sigword_put(&open, zc_sigword(set) & ~ZC_SIGSEGV);
    return zc_libc_signal.sigsuspend(&open);
}

EXPORT int sigpending(sigset_t *set)
{
    int result = zc_libc_signal.sigpending(set);
    if (zc_sigsegv_is_on() && result == 0 && zc_sigsegv_pending())
        zc_sigword_put(set, zc_sigword(set) | ZC_SIGSEGV);
    return result;
}

/* A thread that begins with a mask of its own, and its start routine. */
struct beginning {
    void *(*run)(void *arg);
    void *arg;
};

/* libc has set the mask, and the thread has not run anything yet. */
static void *begin(void *memory)
{
    struct beginning b = *(struct beginning *)memory;
    zc_arena_put(memory, sizeof(b));
    if (zc_sigsegv_is_on())
        zc_repair_self();
    return b.run(b.arg);
}

/* Attributes have masks since glibc 2.32. */
static bool blocks_segv(const pthread_attr_t *attr)
{
    static int (*get)(const pthread_attr_t *attr, sigset_t *set);
    sigset_t set;
    if (!__atomic_load_n(&get, __ATOMIC_ACQUIRE)) {
        zc_libc_find();
        __atomic_store_n(&get,
                         (int (*)(const pthread_attr_t *, sigset_t *))zc_real_dlsym(
                             RTLD_NEXT, "pthread_attr_getsigmask_np"),
                         __ATOMIC_RELEASE);
    }
    return get && get(attr, &set) == 0 && (zc_sigword(&set) & ZC_SIGSEGV);
}

/* Needed before pages are protected, too: that may begin while libc is in the call. */
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    struct beginning *b = attr && blocks_segv(attr) ? zc_arena_get(sizeof(*b)) : NULL;
    if (!b)
        return zc_libc_signal.pthread_create(thread, attr, run, arg);
    *b = (struct beginning){run, arg};
    int result = zc_libc_signal.pthread_create(thread, attr, begin, b);
    if (result != 0)
        zc_arena_put(b, sizeof(*b));
    return result;
}
