/* SPDX-License-Identifier: MIT */
/* Turns the copies of growing arrays into remaps. */
#pragma once

#include "driver/copy.h"
#include "vmm/growth.h"

/*
 * A program grows an array by allocating a larger block, copying the smaller one into it, and
 * freeing the smaller one.  The copy stays pending, and the free makes the physical memory of the
 * small block the beginning of the large one.  If something could tell the difference before that
 * (a launch, a copy, a set), memory is attached and the copy is made.
 */

/* Handles a transfer that touches a lazy block.  ZC_FACT_PENDING: it stays pending, and is recorded
 * once its outcome is known.  ZC_FACT_FAILED: c->result is the driver's code. */
uint32_t zc_grow_facts(struct zc_copy *c);

/* Makes a block ready for a call that looks at its addresses.  If that fails, says why. */
CUresult zc_grow_materialize(const struct zc_block *block, enum zc_fn fn);

/*
 * The program frees a claimed block, and its context was waited for.  With a pending copy into
 * another one it hands over its memory, and *kept_out is true: freed() was called, and the block,
 * whose addresses stay mapped for the next growth, is quarantined and may be taken by another
 * thread at any time.  On failure nothing has changed, and the program gets the returned code.
 */
CUresult zc_grow_freeing(struct zc_block *block, void (*freed)(struct zc_block *block),
                         bool *kept_out);

/* The same in stream order: a pending copy into it is dropped, one out of it is made, and later
 * calls attach no memory to it. */
CUresult zc_grow_leaving(struct zc_block *block);

/* Removes a lazy block, whatever is pending.  The caller gives its memory back. */
void zc_grow_forget(struct zc_vmm *v);

/* `fn` is about to give a stream work that may wait for the CPU (driver/await.h): makes all pending
 * copies first.  A code other than CUDA_SUCCESS is returned to the program. */
CUresult zc_grow_drain(enum zc_fn fn);

/* True while rules with `grown` leave blocks as cudaMalloc makes them, because no array has grown
 * in this process (vmm/grown.c): most programs never grow one, and a block of `vmm` can't be
 * exported by cuIpcGetMemHandle.  Atomic. */
extern bool zc_grown_asked;

/* True for a copy as arrays grow by: half a block or more, into the beginning of another one. */
bool zc_grown_whole(const struct zc_copy *c);

/* Notes such a copy that was made into a larger block; and that cuMemFree has freed a block of the
 * driver's: if it was copied so, into one that is still there, an array has grown. */
void zc_grown_note(const struct zc_copy *c);
void zc_grown_freed(const struct zc_block *block);
