/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of pooled. */
#include "../device.h"
#include "pooled.cuh"

SIM_KERNEL(add_ramp)
