/* SPDX-License-Identifier: MIT */
/* Finds blocks by the addresses that calls name, as the program knows them. */
#pragma once

#include "base/life.h"
#include "driver/stream.h"
#include "ledger/block.h"
#include "host/pinned.h"

/* The live block that begins at an address, or NULL.  Quarantined blocks do not count. */
struct zc_block *zc_block_at(CUdeviceptr address);

/* The block that contains an address, if libzc made its memory or had registered it, or NULL.
 * Quarantined blocks count; blocks of the host heap that libc was asked for do not. */
struct zc_block *zc_placed_at(CUdeviceptr address);

/* True for an address next to such a block, in memory that libzc mapped: to the program nothing is
 * there. */
static inline bool zc_in_margin(CUdeviceptr address)
{
    return zc_block_in_margin(address) && address && zc_life_on();
}

/* True for an address in such a block or next to it. */
static inline bool zc_placed_near(CUdeviceptr address)
{
    return zc_life_on() && (zc_placed_at(address) || zc_in_margin(address));
}

/* True for an address of the host heap that must look pageable in the driver's answers; and the
 * address to ask about instead. */
static inline bool zc_hidden(CUdeviceptr address)
{
    return zc_pinned_hides(address);
}
static inline CUdeviceptr zc_disguise(CUdeviceptr address)
{
    return zc_hidden(address) ? (CUdeviceptr)(uintptr_t)zc_pinned_pageable : address;
}

/* The refusal of a call for mappings, and of one for managed memory, where such a block is. */
static inline CUresult zc_refuse_mapping(CUdeviceptr address)
{
    return zc_placed_near(address) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
static inline CUresult zc_refuse_managed(CUdeviceptr address)
{
    return zc_placed_near(address) ? zc_stream_refusal() : CUDA_SUCCESS;
}
static inline CUresult zc_refuse_managed_in(const CUdeviceptr *addresses, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; addresses && i < count && result == CUDA_SUCCESS; i++)
        result = zc_refuse_managed(addresses[i]);
    return result;
}

/* As zc_placed_at(), for blocks requested as device memory, and as pinned host memory. */
struct zc_block *zc_converted_at(CUdeviceptr address);
struct zc_block *zc_hosted_at(CUdeviceptr address);
