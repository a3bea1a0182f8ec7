/* SPDX-License-Identifier: MIT */
/* Host memory that holds what is in a block while its device memory is given back. */
#pragma once

#include "driver/real.h"

struct zc_stash {
    void *pages; /* NULL for none. */
    size_t bytes;
    bool pinned; /* The driver has registered it. */
};

/* Makes one, pinned if the driver does that.  It counts for max_pinned, and a child of fork(2) does
 * not get it.  With a context.  On failure returns a code, with the reason in *why. */
CUresult zc_stash_make(struct zc_stash *stash, size_t bytes, const char **why);

/* Gives it back; nothing if there is none. */
void zc_stash_unmake(struct zc_stash *stash);
