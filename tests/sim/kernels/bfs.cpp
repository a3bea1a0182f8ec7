/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of bfs. */
#include "../device.h"
#include "bfs.cuh"

SIM_KERNEL(bfs_start)
SIM_KERNEL(bfs_level)
