/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of driver_saxpy. */
#include "../device.h"
#include "driver_saxpy.cuh"

SIM_KERNEL(saxpy)
