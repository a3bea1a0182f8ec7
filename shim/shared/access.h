/* SPDX-License-Identifier: MIT */
/* Accesses to pairs that no call of CUDA's announces: of the CPU, by faults and system calls, and
 * of kernels, by launches. */
#ifndef ZC_SHARED_ACCESS_H
#define ZC_SHARED_ACCESS_H

#include "shared/pair.h"

/* Before the first page is protected: makes room for pages that lie apart, and takes faults over.
 * False, with the reason in *why, where that can't be done. */
bool zc_shared_access_open(const char **why);

/* A pair whose device block kernels may write begins and ends: launches must be known of. */
void zc_shared_access_watch(const struct zc_shared *pair);
void zc_shared_access_unwatch(const struct zc_shared *pair);

/* Live pairs that kernels may write to.  Atomic. */
extern uint32_t zc_shared_writable;

/*
 * The driver is about to read memory of the program's by itself: what of it lies in pairs is the
 * CPU's own from now on, so that neither this call's kernel nor what other threads do closes it.  A
 * driver that met a closed page would wait with its locks held for who has to ask it.
 */
void zc_shared_lend(const void *memory, size_t n);

/* The program needs what is lost at an offset of a pair: stops it. */
_Noreturn void zc_shared_resolve_lost(struct zc_shared *pair, uint64_t offset, bool write);

#endif
