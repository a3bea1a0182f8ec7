/* SPDX-License-Identifier: MIT */
/* Host build of the kernel of transfer. */
#include "../device.h"
#include "transfer.cuh"

SIM_KERNEL(add_one)
