/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of grow. */
#include "../device.h"
#include "grow.cuh"

SIM_KERNEL(append)
