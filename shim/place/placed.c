/* SPDX-License-Identifier: MIT */
/* Finds blocks by the addresses that calls name. */
#include "place/placed.h"

struct zc_block *zc_block_at(CUdeviceptr address)
{
    struct zc_block *b = address ? zc_block_find(address) : NULL;
    return b && b->base == address && !(b->flags & ZC_BLOCK_QUARANTINED) ? b : NULL;
}

struct zc_block *zc_placed_at(CUdeviceptr address)
{
    struct zc_block *b = address ? zc_block_find(address) : NULL;
    return b && (b->flags & ZC_BLOCK_KNOWN) ? b : NULL;
}

struct zc_block *zc_converted_at(CUdeviceptr address)
{
    struct zc_block *b = zc_placed_at(address);
    return b && !zc_block_hosted(b) ? b : NULL;
}

struct zc_block *zc_hosted_at(CUdeviceptr address)
{
    struct zc_block *b = zc_placed_at(address);
    return b && zc_block_hosted(b) ? b : NULL;
}
