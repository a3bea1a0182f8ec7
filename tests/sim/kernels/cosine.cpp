/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of cosine. */
#include "../device.h"
#include "cosine.cuh"

SIM_KERNEL(cosine)
