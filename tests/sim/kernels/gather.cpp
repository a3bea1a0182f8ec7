/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of gather. */
#include "../device.h"
#include "gather.cuh"

SIM_KERNEL(gather)
