/* SPDX-License-Identifier: MIT */
/* Memory pools.  Requests in stream order stay in theirs. */
#pragma once

#include "driver/real.h"
#include "ledger/flow.h"

/* The kind of memory that requests from a pool ask for. */
enum zc_kind zc_pool_kind(CUmemoryPool pool);

/* The program made a pool, or got one of the driver's; or destroyed one. */
void zc_pool_note(CUmemoryPool pool, const CUmemLocation *location, CUmemAllocationType type);
void zc_pool_forget(CUmemoryPool pool);
