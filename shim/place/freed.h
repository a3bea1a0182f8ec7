/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed, deferred until its stream has passed. */
#pragma once

#include "memory/place.h"

/* As cuMemFree: waits for the block's context, and lets the memory go.  Calls note() once the block
 * is claimed and will go.  On failure it stays, and the program gets the returned code;
 * *diagnosed_out: it was explained. */
CUresult zc_place_free(struct zc_block *block, void (*note)(struct zc_block *block),
                       bool *diagnosed_out);

/* The same in the order of a stream: once `event`, which may be NULL, has passed. */
CUresult zc_place_free_in_order(struct zc_block *block, CUevent event, CUstream stream,
                                enum zc_flavour flavour, void (*note)(struct zc_block *block));

/* Gives back the memory that streams have passed: with `waited`, for calls in which the program
 * itself waits for the device, of all places and freed host blocks; else of places that never wait.
 * The second for one by which the driver has freed a block of its own. */
void zc_freed_reap(bool waited);
void zc_freed_bare(const struct zc_block *block);
