/* SPDX-License-Identifier: MIT */
/* Which memory entry points were asked for and not caught. */
#ifndef ZC_HOOK_COVERAGE_H
#define ZC_HOOK_COVERAGE_H

#include <stdbool.h>

/* Notes a successful request for a driver entry point.  `caught` is whether it got a wrapper. */
void zc_coverage_note(const char *symbol, int version, bool caught);

/* True for the name of an entry point that allocates, frees, copies, sets, prefetches, advises,
 * registers, maps, exports or queries memory. */
bool zc_coverage_is_memory(const char *symbol);

/* The reason why an entry point is left alone (passthrough.def), or NULL. */
const char *zc_coverage_passthrough(const char *symbol);

#endif
