/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of stencil. */
#include "../device.h"
#include "stencil.cuh"

SIM_KERNEL(stencil)
