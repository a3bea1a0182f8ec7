/* SPDX-License-Identifier: MIT */
/* Host memory for programs that map memory themselves: the place `mapped` of cuMemCreate. */
#ifndef ZC_MEMORY_HANDLE_H
#define ZC_MEMORY_HANDLE_H

#include "memory/place.h"

/*
 * Creates the handle of want->prop from host memory, on the rule's NUMA node or the one nearest to
 * the device.  Size and export types are as the program asked.  Fills out->handle.  On failure
 * returns the driver's code and the reason.
 */
CUresult zc_handle_make(const struct zc_want *want, struct zc_backing *out, const char **why);

#endif
