/* SPDX-License-Identifier: MIT */
/* Names the rule of a block when the driver refuses a call because of its place. */
#ifndef ZC_HOOK_DIAGNOSE_H
#define ZC_HOOK_DIAGNOSE_H

#include "driver/real.h"

/*
 * Explains a refused call: if `address` is in a block that libzc placed elsewhere, one message
 * names the rule, its line and the block.  Returns the driver's code unchanged.
 */
CUresult zc_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code);

#endif
