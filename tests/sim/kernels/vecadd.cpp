/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of vecadd. */
#include "../device.h"
#include "vecadd.cuh"

SIM_KERNEL(vecadd)
