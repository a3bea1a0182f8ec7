/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of pagerank. */
#include "../device.h"
#include "pagerank.cuh"

SIM_KERNEL(pagerank_give)
SIM_KERNEL(pagerank_gather)
