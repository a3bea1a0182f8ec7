/* SPDX-License-Identifier: MIT */
/* The program's view of SIGSEGV: its action, and which threads block it. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/*
 * Once fault handling is on, the kernel has libzc's action, and SIGSEGV is unblocked in every
 * thread.  What the program set instead is stored here.
 */

/* The first word of a sigset_t; the kernel uses only this one. */
#define ZC_SIGBIT(sig) ((uint64_t)1 << ((sig)-1))
#define ZC_SIGSEGV ZC_SIGBIT(SIGSEGV)
static inline uint64_t zc_sigword(const sigset_t *set)
{
    return *(const uint64_t *)(const void *)set;
}
static inline void zc_sigword_put(sigset_t *set, uint64_t word)
{
    *(uint64_t *)(void *)set = word;
}

/* True once the program's action is stored here.  Read without a lock. */
extern bool zc_sigsegv_on;
static inline bool zc_sigsegv_is_on(void)
{
    return __builtin_expect(__atomic_load_n(&zc_sigsegv_on, __ATOMIC_ACQUIRE), 0);
}

/* Makes `handler` the kernel's action, and stores the program's.  Once. */
void zc_sigsegv_start(void (*handler)(int sig, siginfo_t *info, void *context));

/* sigaction(2) for SIGSEGV: returns the program's last action in `old`, and stores `act`.  Either
 * may be NULL.  Neither is accessed while the record is locked. */
int zc_sigsegv_action(const struct sigaction *act, struct sigaction *old);

/* True in a child of vfork(2), whose actions and masks are stored apart from its parent's. */
bool zc_sigsegv_vfork_child(void);

/* True for the action that zc_sigsegv_start() gave to the kernel. */
bool zc_sigsegv_ours(const struct sigaction *act);

/* Call this first in the handler. */
void zc_sigsegv_enter(void);

/* True if the calling thread, which has this mask in the kernel, is in libzc's handler; false while
 * that runs the program's own handler. */
bool zc_sigsegv_serving(uint64_t mask);

/* Treats a SIGSEGV as the kernel would have done with the program's action and mask.  Call it in
 * the handler, with the handler's arguments; returns if the program goes on. */
void zc_sigsegv_forward(siginfo_t *info, ucontext_t *context);

/*
 * True if the calling thread blocks SIGSEGV in the program's view; `mask` is its mask in the
 * kernel.  The view is tied to the signals that were blocked together with SIGSEGV.  If one of them
 * is unblocked again, the mask was restored: by siglongjmp(3), by the return from a handler, or by
 * libc after a block of its own.
 */
bool zc_sigsegv_blocked(uint64_t mask);

/* The calling thread blocks SIGSEGV from now on.  `with`: signals that the same call newly
 * blocked. */
void zc_sigsegv_block(uint64_t with);

/* It still blocks SIGSEGV, and the rest of its mask has become `mask` by a call of the
 * program's. */
void zc_sigsegv_keep(uint64_t mask);

/* It no longer blocks SIGSEGV.  A waiting signal arrives before this returns. */
void zc_sigsegv_unblock(void);

/* True if a SIGSEGV sent to the calling thread waits to be unblocked. */
bool zc_sigsegv_pending(void);

/* Between these two calls a SIGSEGV sent to the calling thread waits, while its faults are still
 * served.  For code that must not be interrupted but touches protected pages.  After the last
 * release the signal arrives with the mask that the caller sets next.  They nest. */
void zc_sigsegv_hold(void);
void zc_sigsegv_release(void);

/* A signal whose bit in the kernel's mask means that a SIGSEGV handler of the program's runs:
 * glibc's SIGSETXID, which no libc function shows or blocks. */
#define ZC_SIGSEGV_HANDLER_BIT 33

/* A signal whose bit in the kernel's mask, without that of SIGSETXID, means that libzc's handler
 * runs: glibc's SIGCANCEL. glibc itself blocks it only together with SIGSETXID (glibc,
 * sysdeps/unix/sysv/linux/internal-signals.h), or in its timer threads. */
#define ZC_SIGSEGV_SERVING_BIT 32

/* For the child of fork(2). */
void zc_sigsegv_child(void);
