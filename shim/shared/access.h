/* SPDX-License-Identifier: MIT */
/* Accesses to pairs that no CUDA call announces: by the CPU (faults, system calls) and by kernels
 * (launches). */
#ifndef ZC_SHARED_ACCESS_H
#define ZC_SHARED_ACCESS_H

#include "shared/pair.h"

/* Prepares for protected pages: reserves room for parted pages and takes over SIGSEGV.  False, with
 * the reason in *why, if that is impossible. */
bool zc_shared_access_open(const char **why);

/* A pair whose device block kernels may write begins or ends: launches must be watched. */
void zc_shared_access_watch(const struct zc_shared *pair);
void zc_shared_access_unwatch(const struct zc_shared *pair);

/* Live pairs that kernels may write to.  Atomic. */
extern uint32_t zc_shared_writable;

/*
 * The driver is about to read memory of the program by itself.  Pages of pairs in it become the
 * CPU's own, so that neither this call's kernel nor other threads can close them.  If the driver
 * met a closed page, it would hold its locks while the fault handler needs the driver: a deadlock.
 */
void zc_shared_lend(const void *memory, size_t n);

/* The program accesses a lost page of a pair: stops the program. */
_Noreturn void zc_shared_resolve_lost(struct zc_shared *pair, uint64_t offset, bool write);

#endif
