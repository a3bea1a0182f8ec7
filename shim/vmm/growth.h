/* SPDX-License-Identifier: MIT */
/* The step of an array that grows from one block into the next. */
#pragma once

#include "log/lines.h"
#include "log/ranges.h"
#include "vmm/vmm.h"

/*
 * The block `new` has a pending copy of `old`, or has addresses in which memory of `old` is mapped.
 * A block is the old one of at most one step, and the new one of at most one.
 *
 * A program that grew an array once will grow it again.  So a block that replaced another keeps its
 * addresses (`kept`), where the chunks that both had are still mapped; the next block gets these,
 * and maps only what was added since.  It also gets headroom, memory for its next small steps,
 * because each step makes three driver calls, which take as long for 2 MiB as for 100.  That is up
 * to 512 MiB in all, or an eighth of a larger array if its step is smaller than that; and of all
 * arrays together a 256th of the device's memory, because nobody else can use it.
 *
 * All functions are called with the driver lock.
 */
struct zc_growth {
    struct zc_vmm *old, *new; /* No `old`: it is gone, and what is mapped could not be unmapped. */
    bool mapped;  /* Chunks of `old` are mapped in the addresses of `new`, and none of its own. */
    bool pending; /* A copy of `old` into `new` is pending. */
    struct zc_growth *next, *before; /* List of pending copies. */
    /* A pending copy is recorded when its outcome is known. */
    struct zc_transfer transfer;
    struct zc_log_call call;   /* The log's description of its call. */
    char range[ZC_RANGE_NAME]; /* The call's range, which may end before. */
};

/* The step, if a copy is pending; else NULL. */
static inline struct zc_growth *zc_growth_pending(struct zc_growth *g)
{
    return g && g->pending ? g : NULL;
}

/* Gives a growing block without addresses those that another block keeps, if they fit. */
void zc_growth_enter(struct zc_vmm *v);

/* Unmaps the chunks of another block in the addresses of this one. */
CUresult zc_growth_detach(struct zc_vmm *v, const char **why);

/* `old` is about to grow into `new`, and into no other block.  NULL if the driver does not unmap
 * what one of them has in common with a third, or libzc has no memory for it. */
struct zc_growth *zc_growth_begin(struct zc_vmm *new, struct zc_vmm *old);

/* The pending copy has been made, or is not needed. */
void zc_growth_end(struct zc_growth *g);

/* Gives the chunks of the old block to the new one, which keeps the addresses.  `block` is the old
 * one's ledger entry. */
void zc_growth_inherit(struct zc_growth *g, struct zc_block *block);

/* Ends what a block that goes has in common with others.  The caller unmaps its addresses. */
void zc_growth_leave(struct zc_vmm *v);

/* The headroom that a block should get which is about to get memory; and counts that of one that
 * `held` so many bytes, and holds others now. */
size_t zc_growth_headroom(const struct zc_vmm *v);
void zc_growth_count(const struct zc_vmm *v, size_t held);

/* The most memory that a new block of this size and context can take over from a block that it may
 * grow from.  With no context: any block of the device from any other. */
size_t zc_growth_largest(int device, CUcontext context, size_t span);
