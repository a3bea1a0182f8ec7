/* SPDX-License-Identifier: MIT */
/* Between the walk that finds a call path and the table of sites. */
#ifndef ZC_LEDGER_SITE_PATH_H
#define ZC_LEDGER_SITE_PATH_H

#include <stdint.h>

#include "ledger/site.h"

/* The index of the site with these frames, which is made where it is not there yet; when the table
 * fills up, of the site for the rest of the first frame's module.  0 for no frames, when the table
 * is full, and in a signal handler that interrupted the table. */
uint32_t zc_site_intern(const struct zc_frame *frames, unsigned n);

/* Forgets the calling thread's cached paths. */
void zc_site_path_reset(void);

#endif
