/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of coherence. */
#include "../device.h"
#include "coherence.cuh"

SIM_KERNEL(count_up)
SIM_KERNEL(answer)
SIM_KERNEL(write_out)
