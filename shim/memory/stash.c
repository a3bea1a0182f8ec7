/* SPDX-License-Identifier: MIT */
/* Host memory that holds what is in a block while its device memory is given back. */
#include "memory/stash.h"

#include "base/memory.h"
#include "memory/limits.h"
#include "memory/pages.h"

CUresult zc_stash_make(struct zc_stash *stash, size_t bytes, const char **why)
{
    if (!zc_limits_take(ZC_PLACE_PINNED, -1, bytes, why))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *why = "the kernel gives no memory";
    void *pages = zc_pages_make(bytes, 0, -1);
    if (!pages) {
        zc_limits_give(ZC_PLACE_PINNED, -1, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    zc_memory_advise(pages, zc_pages_span(bytes), MADV_DONTFORK);
    bool pinned = zc_real.cuMemHostRegister_v2(pages, bytes, CU_MEMHOSTREGISTER_PORTABLE) ==
                  CUDA_SUCCESS; /* Else copies are slower. */
    *stash = (struct zc_stash){pages, bytes, pinned};
    return CUDA_SUCCESS;
}

void zc_stash_unmake(struct zc_stash *stash)
{
    if (!stash->pages)
        return;
    if (stash->pinned)
        zc_real.cuMemHostUnregister(stash->pages);
    zc_pages_unmake(stash->pages, stash->bytes, 0);
    zc_limits_give(ZC_PLACE_PINNED, -1, stash->bytes);
    stash->pages = NULL;
}
