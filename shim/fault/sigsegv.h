/* SPDX-License-Identifier: MIT */
/* SIGSEGV as the program sees it: its action, and whether a thread blocks it. */
#ifndef ZC_FAULT_SIGSEGV_H
#define ZC_FAULT_SIGSEGV_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/*
 * Once fault handling is on the kernel has libzc's action and leaves SIGSEGV open in every thread.
 * What the program set instead is kept here.
 */

/* The first word of a sigset_t, which is all that the kernel knows of it. */
#define ZC_SIGBIT(sig) ((uint64_t)1 << ((sig)-1))
static inline uint64_t zc_sigword(const sigset_t *set)
{
    return *(const uint64_t *)(const void *)set;
}
static inline void zc_sigword_put(sigset_t *set, uint64_t word)
{
    *(uint64_t *)(void *)set = word;
}

/* True once the program's action is kept here.  Read without a lock. */
extern bool zc_sigsegv_on;

/* Makes `handler` the kernel's action, and keeps the program's.  Once. */
void zc_sigsegv_start(void (*handler)(int sig, siginfo_t *info, void *context));

/* sigaction(2) for SIGSEGV: returns in `old` what the program set last, and takes `act`.  Either
 * may be NULL.  Neither is touched while the record is locked. */
int zc_sigsegv_action(const struct sigaction *act, struct sigaction *old);

/* True in a child of vfork(2), whose actions and masks are kept apart from its parent's. */
bool zc_sigsegv_vfork_child(void);

/* True for the action that zc_sigsegv_start() gave to the kernel. */
bool zc_sigsegv_ours(const struct sigaction *act);

/* First in the handler. */
void zc_sigsegv_enter(void);

/* Whether the calling thread is in the handler, by its mask in the kernel; not where the program's
 * own is called from it. */
bool zc_sigsegv_serving(uint64_t mask);

/* Does with an occurrence of SIGSEGV what the kernel would have done with the program's action and
 * mask.  From the handler, with its own arguments; returns if the program goes on. */
void zc_sigsegv_forward(siginfo_t *info, ucontext_t *context);

/*
 * Whether the calling thread blocks SIGSEGV in the program's view; `mask` is its mask in the
 * kernel. The view is tied to the signals that were blocked together with it: where one of them is
 * open again, the program has left by siglongjmp(3) or from a handler, or libc has ended a block of
 * its own, and all of these restored the mask.
 */
bool zc_sigsegv_blocked(uint64_t mask);

/* The calling thread blocks SIGSEGV; `with` are signals that the same call newly blocked. */
void zc_sigsegv_block(uint64_t with);

/* It does so still, and what it blocks besides is `mask` now: by a call of the program's. */
void zc_sigsegv_keep(uint64_t mask);

/* It no longer does.  What was sent to it meanwhile arrives before this returns. */
void zc_sigsegv_unblock(void);

/* Whether a SIGSEGV that was sent to the calling thread waits for it to be unblocked. */
bool zc_sigsegv_pending(void);

/* From one to the other a SIGSEGV that is sent to the calling thread waits, while its faults are
 * served: for code that must not be interrupted, and that meets protected pages.  After the last
 * release it arrives with the mask that the caller sets next.  They nest. */
void zc_sigsegv_hold(void);
void zc_sigsegv_release(void);

/* The signal whose bit in the kernel's mask says that a handler of the program's for SIGSEGV runs:
 * glibc's SIGSETXID, which no function of libc shows or blocks. */
#define ZC_SIGSEGV_HANDLER_BIT 33

/* The signal whose bit in the kernel's mask says, without that of SIGSETXID, that libzc's handler
 * runs: glibc's SIGCANCEL, which glibc itself blocks together with SIGSETXID (glibc,
 * sysdeps/unix/sysv/linux/internal-signals.h), or in its threads for timers. */
#define ZC_SIGSEGV_SERVING_BIT 32

/* For the child of fork(2). */
void zc_sigsegv_child(void);

#endif
