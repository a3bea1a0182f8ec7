/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of matmul. */
#include "../device.h"
#include "matmul.cuh"

SIM_KERNEL(matmul)
