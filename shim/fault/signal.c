/* SPDX-License-Identifier: MIT */
/*
 * Hooks on functions that set the action of SIGSEGV.  They pass through until pages are protected.
 * From then on libzc's action stays in the kernel, and the program reads back its own.
 */
#include "fault/signal.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "driver/real.h"
#include "fault/sigsegv.h"
#include "fault/io.h"
#include "fault/sigmask_repair.h"

#define EXPORT __attribute__((visibility("default")))

/* Declared here because old libc headers lack some of them. */
#define ZC_SIGNAL(name, result, params, args) EXPORT result name params;
#include "fault/signal.def"

static void find_real_signal(void);
#define ZC_SIGNAL(name, result, params, args)                                                      \
    static result first_##name params                                                              \
    {                                                                                              \
        find_real_signal();                                                                        \
        return zc_libc_signal.name args;                                                           \
    }
#include "fault/signal.def"

struct zc_libc_signal zc_libc_signal = {
#define ZC_SIGNAL(name, result, params, args) .name = first_##name,
#include "fault/signal.def"
};

static void find_real_signal(void)
{
    zc_libc_find();
    zc_io_find();
#define ZC_SIGNAL(name, result, params, args)                                                      \
    __atomic_store_n(&zc_libc_signal.name, (result(*) params)zc_real_dlsym(RTLD_NEXT, #name),      \
                     __ATOMIC_RELEASE);
#include "fault/signal.def"
}

static uint64_t bit_of(int sig)
{
    return sig >= 1 && sig <= 64 ? ZC_SIGBIT(sig) : 0;
}

/* Records whether the sa_mask that the program gave an action contains SIGSEGV. */
static void note_mask(int sig, bool has)
{
    if (!zc_sigsegv_is_on() || zc_sigsegv_vfork_child())
        return;
    if (has)
        __atomic_fetch_or(&zc_repair_masks, bit_of(sig), __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&zc_repair_masks, ~bit_of(sig), __ATOMIC_RELAXED);
}

/* For other signals only sa_mask is changed, and the program reads back what it set. */
static int other_action(int sig, const struct sigaction *act, struct sigaction *old)
{
    bool had = __atomic_load_n(&zc_repair_masks, __ATOMIC_RELAXED) & bit_of(sig);
    bool has = act && (zc_sigword(&act->sa_mask) & ZC_SIGSEGV);
    struct sigaction open;
    if (has) {
        open = *act;
        zc_sigword_put(&open.sa_mask, zc_sigword(&act->sa_mask) & ~ZC_SIGSEGV);
    }
    int result = zc_libc_signal.sigaction(sig, has ? &open : act, old);
    if (result != 0)
        return result;
    if (act)
        note_mask(sig, has);
    if (old && had)
        zc_sigword_put(&old->sa_mask, zc_sigword(&old->sa_mask) | ZC_SIGSEGV);
    return result;
}

/* Fault handling may begin while libc is in the call; then its effect is taken over, and its answer
 * corrected. */
static int action_before(int sig, const struct sigaction *act, struct sigaction *old)
{
    int result = zc_libc_signal.sigaction(sig, act, old);
    if (!zc_sigsegv_is_on() || result != 0)
        return result;
    if (sig != SIGSEGV)
        return act ? other_action(sig, act, NULL) : result;
    bool told_ours = old && zc_sigsegv_ours(old);
    return zc_sigsegv_action(act, told_ours ? old : NULL);
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if (!zc_sigsegv_is_on())
        return action_before(sig, act, old);
    return sig == SIGSEGV ? zc_sigsegv_action(act, old) : other_action(sig, act, old);
}

/* siginterrupt(3) was called for SIGSEGV: signal(3) then leaves SA_RESTART out. */
static bool interrupts;

/* The older functions, built on sigaction as in glibc (sysdeps/posix/signal.c).  Also used before
 * pages are protected, because that may begin while libc is in them. */
static zc_sighandler set_handler(zc_sighandler handler, int flags, bool masked)
{
    struct sigaction act, old;
    act.sa_handler = handler;
    act.sa_flags = flags;
    sigemptyset(&act.sa_mask);
    if (masked)
        sigaddset(&act.sa_mask, SIGSEGV);
    act.sa_restorer = NULL;
    return sigaction(SIGSEGV, &act, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static int bsd_flags(void)
{
    return __atomic_load_n(&interrupts, __ATOMIC_RELAXED) ? 0 : SA_RESTART;
}

/* libc sets a sa_mask without SIGSEGV in them. */
static zc_sighandler noted(int sig, zc_sighandler was)
{
    if (was != SIG_ERR)
        note_mask(sig, false);
    return was;
}

#define OLD_FUNCTION(name, flags, masked)                                                          \
    EXPORT zc_sighandler name(int sig, zc_sighandler handler)                                      \
    {                                                                                              \
        return sig == SIGSEGV && handler != SIG_ERR                                                \
                   ? set_handler(handler, flags, masked)                                           \
                   : noted(sig, zc_libc_signal.name(sig, handler));                                \
    }
OLD_FUNCTION(signal, bsd_flags(), true)
OLD_FUNCTION(bsd_signal, bsd_flags(), true)
OLD_FUNCTION(ssignal, bsd_flags(), true)
OLD_FUNCTION(sysv_signal, (int)(SA_RESETHAND | SA_NODEFER), false)
OLD_FUNCTION(__sysv_signal, (int)(SA_RESETHAND | SA_NODEFER), false)

/* SIG_HOLD blocks and leaves the action; every other value also unblocks (sigset(3)). */
EXPORT zc_sighandler sigset(int sig, zc_sighandler handler)
{
    if (sig != SIGSEGV) {
        zc_sighandler result = zc_libc_signal.sigset(sig, handler);
        return handler == SIG_HOLD ? result : noted(sig, result);
    }
    sigset_t set, before;
    struct sigaction old;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    if (sigaction(SIGSEGV, NULL, &old) != 0)
        return SIG_ERR;
    zc_sighandler was = old.sa_handler;
    if (handler != SIG_HOLD && set_handler(handler, 0, false) == SIG_ERR)
        return SIG_ERR;
    sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &set, &before);
    return zc_sigword(&before) & ZC_SIGSEGV ? SIG_HOLD : was;
}

EXPORT int sigignore(int sig)
{
    if (sig != SIGSEGV) {
        int result = zc_libc_signal.sigignore(sig);
        if (result == 0)
            note_mask(sig, false);
        return result;
    }
    return set_handler(SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

EXPORT int siginterrupt(int sig, int interrupt)
{
    if (sig != SIGSEGV)
        return zc_libc_signal.siginterrupt(sig, interrupt);
    __atomic_store_n(&interrupts, interrupt != 0, __ATOMIC_RELAXED);
    struct sigaction act;
    sigaction(SIGSEGV, NULL, &act);
    act.sa_flags = interrupt ? act.sa_flags & ~SA_RESTART : act.sa_flags | SA_RESTART;
    return sigaction(SIGSEGV, &act, NULL);
}
