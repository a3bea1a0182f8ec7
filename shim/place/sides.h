/* SPDX-License-Identifier: MIT */
/* The sides of copies and sets, whatever place their blocks are in. */
#pragma once

#include "host/pinned.h"
#include "driver/copy.h"
#include "shared/transfer.h"
#include "vmm/grow.h"

/* Looks both sides up in the ledger; asks the driver about addresses that the call leaves open. */
void zc_copy_resolve(struct zc_copy *c);

/* The driver refuses a side: pageable memory that the call names as device memory, though libzc has
 * registered it; and an address that the call can't name, in memory outside of the ledger. */
bool zc_side_refused(const struct zc_operand *b);
bool zc_side_nobodys(const struct zc_operand *b);

/* True if a side is a host heap block whose asynchronous copies libzc must complete. */
bool zc_copy_staged(const struct zc_copy *c);

/* Blocks that move stay until zc_sides_end(); while they do so, the second opens both sides to the
 * device of the stream and to the CPU.  Returns the driver's code. */
void zc_sides_hold(struct zc_copy *c);
CUresult zc_sides_open(const struct zc_copy *c);

/* While a host block is copied, no device block may become one with it by another copy.  Until the
 * second or zc_sides_end(). */
void zc_sides_visit(struct zc_copy *c);
void zc_sides_leave(struct zc_copy *c);

/* Gathers the facts that a row of the plan asks for: one of ZC_WAY_ASK_*. */
uint32_t zc_sides_answer(struct zc_copy *c, enum zc_way question);

/* False if threads can't make the copy: then the driver makes it, of a block that is registered
 * after all. */
bool zc_sides_by_threads(struct zc_copy *c);

/* Between both, what a planned copy reads stays what it is.  False where it has changed since the
 * plan, which is to be made anew.  No lock of the driver's may be taken meanwhile
 * (driver/launch.h). */
static inline bool zc_sides_keep(struct zc_copy *c)
{
    return zc_shared_keep(c);
}
static inline void zc_sides_release(struct zc_copy *c)
{
    zc_shared_release(c);
}

/* True for a copy that meets a block of two memories, and the copy between both of them: false
 * where it is to be planned anew. */
static inline bool zc_sides_pair(const struct zc_copy *c)
{
    return zc_shared_meets(&c->dst) || zc_shared_meets(&c->src);
}
static inline bool zc_sides_copy(struct zc_copy *c)
{
    return zc_shared_copy(c);
}

/* A copy was made: rules may learn from large ones, as those with `grown` do. */
static inline void zc_sides_note(const struct zc_copy *c)
{
    if (__atomic_load_n(&zc_grown_asked, __ATOMIC_RELAXED))
        zc_grown_note(c);
}

/* A graph is to make the copy.  Returns the driver's code. */
CUresult zc_sides_in_graph(const struct zc_copy *c);

/* Before the driver copies: ends registrations of pages that the CPU no longer has.  Returns the
 * code for the program's call where that can't be, which was explained. */
CUresult zc_sides_end_stale_pins(const struct zc_copy *c);
static inline CUresult zc_sides_end_stale(const struct zc_copy *c)
{
    return __builtin_expect(zc_pinned_stale(c->dst.extent) || zc_pinned_stale(c->src.extent), 0)
               ? zc_sides_end_stale_pins(c)
               : CUDA_SUCCESS;
}

/* The same before a graph copies an address.  If `late` is not NULL the graph reads it: *late is
 * set to the rule of memory that looks pageable to the program where it is read at its turn.  Of
 * pageable memory the driver reads it in the call that launches the graph. */
CUresult zc_side_launched(CUdeviceptr address, enum zc_fn fn, const struct zc_rule **late);

/* The copy has ended. */
void zc_sides_end(struct zc_copy *c);
