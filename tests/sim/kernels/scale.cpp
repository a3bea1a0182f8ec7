/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of scale. */
#include "../device.h"
#include "scale.cuh"

SIM_KERNEL(scale)
