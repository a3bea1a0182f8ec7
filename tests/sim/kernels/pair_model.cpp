/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of pair_model. */
#include "../device.h"
#include "../../gpu/pair_model.cuh"

SIM_KERNEL(sum_bytes)
SIM_KERNEL(write_bytes)
