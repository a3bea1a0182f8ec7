/* SPDX-License-Identifier: MIT */
/* The ring: pinned memory through which copies of pageable memory go. */
#ifndef ZC_COPY_RING_H
#define ZC_COPY_RING_H

#include <stdbool.h>
#include <stddef.h>

#include "driver/real.h"

#define ZC_RING_SLOTS 8u
#define ZC_RING_SLOT ((size_t)8 << 20) /* Bytes of a slot. */
#define ZC_RING_BYTES (ZC_RING_SLOTS * ZC_RING_SLOT)

/*
 * A slot for the caller alone: a free one; else one whose copy has passed; else, by zc_ring_take(),
 * the one whose copy left first, after waiting for it.  zc_ring_try() returns -1 instead of
 * waiting.  No lock is held on return.
 */
unsigned zc_ring_take(void);
int zc_ring_try(void);

/* The memory of a slot that the caller has; made at its first use, counted against max_pinned. NULL
 * where there is none to be had: then the slot is of no use. */
char *zc_ring_memory(unsigned slot);

/* Gives a slot back.  `event`, if not NULL, tells when the copy from it has passed, and is the
 * ring's from here on, of the context `home`. */
void zc_ring_give(unsigned slot, CUevent event, CUcontext home);

#endif
