/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of pitched. */
#include "../device.h"
#include "pitched.cuh"

SIM_KERNEL(blur)
SIM_KERNEL(sum_volume)
SIM_GLOBAL(weights)
SIM_GLOBAL(volume_sum)
