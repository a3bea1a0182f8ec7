/* SPDX-License-Identifier: MIT */
/* Records memory entry points that programs ask for and libzc does not hook. */
#pragma once

#include <stdbool.h>

/* Records a successful request for a driver entry point.  `caught`: it got a wrapper. */
void zc_coverage_note(const char *symbol, bool caught);

/* True if the name is that of an entry point that allocates, frees, copies, sets, prefetches,
 * advises, registers, maps, exports or queries memory. */
bool zc_coverage_is_memory(const char *symbol);

/* Why libzc does not hook an entry point (passthrough.def), or NULL. */
const char *zc_coverage_passthrough(const char *symbol);
