/* SPDX-License-Identifier: MIT */
/* ZC_POLICY=auto: the preset everyday, or the policy that `zc` made of earlier runs of the same
 * program, its profile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* True for ZC_POLICY=auto and auto-frozen. */
bool zc_profile_asked(void);

/* True for ZC_POLICY=auto. */
bool zc_profile_learns(void);

/* The profile's path, whether it is there or not; NULL without a cache.  Called once, under the
 * lock of the rules. */
const char *zc_profile_find(void);

/* The same after that, if this run is to teach later ones; else NULL. */
const char *zc_profile_taught(void);

/* The pattern of a log that waits beside the profile until `zc` reads it; "off" if many wait. */
const char *zc_profile_log(void);

/* The preset's text. */
const char *zc_profile_base(size_t *bytes_out);
