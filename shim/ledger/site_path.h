/* SPDX-License-Identifier: MIT */
/* Between the stack walk and the table of sites. */
#ifndef ZC_LEDGER_SITE_PATH_H
#define ZC_LEDGER_SITE_PATH_H

#include <stdint.h>

#include "ledger/site.h"

/* The index of the site with these frames, which is added if necessary.  When the table fills up:
 * the site for the rest of the first frame's module. 0 for no frames, if the table is full, and in
 * a signal handler that interrupted the table. */
uint32_t zc_site_intern(const struct zc_frame *frames, unsigned n);

/* Clears the calling thread's cache of paths. */
void zc_site_path_reset(void);

#endif
