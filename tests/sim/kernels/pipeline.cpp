/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of pipeline. */
#include "../device.h"
#include "pipeline.cuh"

SIM_KERNEL(mix)
