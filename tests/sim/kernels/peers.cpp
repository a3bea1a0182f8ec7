/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of peers. */
#include "../device.h"
#include "peers.cuh"

SIM_KERNEL(scale_from_peer)
