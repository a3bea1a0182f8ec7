/* SPDX-License-Identifier: MIT */
/* From the stack to a site. */
#pragma once

#include <stdint.h>

#include "ledger/site.h"

/*
 * The index of the site of the current call.  Walks the caller's stack by call-frame information.
 * Leading frames of libzc, CUDA, libc and libstdc++ are left out.  The walk ends after
 * ZC_SITE_FRAMES frames, at a signal trampoline, at code of no object (module "?", offset 0) or at
 * anything strange.  A per-thread cache makes a repeated path cost some 10 ns; it is keyed by both
 * arguments and checked against the return addresses on the stack.
 *
 * Called directly in the exported wrapper: `frame` is __builtin_frame_address(0) there, and `pc`
 * its return address.  Returns 0 for a new path in a signal handler that interrupted the table.  No
 * malloc; no lock on the cached path; no loader call that takes the loader's lock if glibc has
 * _dl_find_object.  Keeps errno.
 */
uint32_t zc_site_here(void *frame, void *pc);

/* Clears the cache of paths. */
void zc_site_path_reset(void);
