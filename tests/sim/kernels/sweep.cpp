/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of the sweeps. */
#include "../device.h"
#include "sweep.cuh"

SIM_KERNEL(update)
