/* SPDX-License-Identifier: MIT */
/* What host memory is that the program takes for pageable. */
#pragma once

#include <stdint.h>

#include "ledger/traffic.h"

/* Fills in what the pageable sides of a transfer are, of which these are the first addresses.  Not
 * for transfers without such a side, which are most. */
void zc_source_tell(struct zc_transfer *t, uint64_t dst, uint64_t src);
