/* SPDX-License-Identifier: MIT */
/* The sources of host memory that the program takes for pageable. */
#pragma once

#include <stdint.h>

#include "host/hostheap.h"
#include "ledger/traffic.h"

/* Bytes of the smallest transfer whose memory is told apart: no rule makes smaller ones faster. */
#define ZC_SOURCE_LEAST ZC_HOST_MIN

/* Fills in what the pageable sides of a transfer are, of which these are the first addresses.  Not
 * for transfers without such a side, nor for smaller ones, which are most. */
void zc_source_tell(struct zc_transfer *t, uint64_t dst, uint64_t src);
