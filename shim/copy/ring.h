/* SPDX-License-Identifier: MIT */
/* The ring: pinned memory for copies of pageable memory. */
#pragma once

#include <stddef.h>

#include "driver/real.h"

#define ZC_RING_SLOTS 8u
#define ZC_RING_SLOT ((size_t)8 << 20) /* Bytes of a slot. */
#define ZC_RING_BYTES (ZC_RING_SLOTS * ZC_RING_SLOT)

/* Takes a slot: a free one, or one whose copy has passed.  Where there is none zc_ring_take()
 * waits, in naps, and zc_ring_try() returns -1.  No lock is held on return. */
unsigned zc_ring_take(void);
int zc_ring_try(void);

/* The memory of a slot that the caller owns; made at its first use, and counted against max_pinned.
 * NULL if there is none: then the slot is of no use. */
char *zc_ring_memory(unsigned slot);

/* Gives a slot back.  `event`, if not NULL, says when the copy from it has passed; it is of the
 * context `home`, and the ring owns it from now on. */
void zc_ring_give(unsigned slot, CUevent event, CUcontext home);
