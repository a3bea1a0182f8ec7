/* SPDX-License-Identifier: MIT */
/* Host memory for programs that map memory themselves: the place `mapped` of cuMemCreate. */
#ifndef ZC_MEMORY_HANDLE_H
#define ZC_MEMORY_HANDLE_H

#include "memory/place.h"

/*
 * Creates the handle of want->prop from host memory, on the NUMA node of the rule or next to the
 * device.  Everything else is as the program asked: size, and ways to export the handle.  Fills
 * out->handle; on failure returns the driver's code and says why.
 */
CUresult zc_handle_make(const struct zc_want *want, struct zc_backing *out, const char **why);

#endif
