/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of rowsum. */
#include "../device.h"
#include "rowsum.cuh"

SIM_KERNEL(row_sums)
