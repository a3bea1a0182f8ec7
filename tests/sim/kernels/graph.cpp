/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of graph. */
#include "../device.h"
#include "graph.cuh"

SIM_KERNEL(accumulate)
SIM_KERNEL(fold)
