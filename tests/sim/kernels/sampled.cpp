/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of recopy and rewrite. */
#include "../device.h"
#include "sampled.cuh"

SIM_KERNEL(add_samples)
