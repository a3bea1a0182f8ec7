/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of both. */
#include "../device.h"
#include "both.cuh"

SIM_KERNEL(add_strided)
