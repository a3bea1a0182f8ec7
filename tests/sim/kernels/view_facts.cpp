/* SPDX-License-Identifier: MIT */
/* Host build of the kernels of view_facts, address_facts and border_facts. */
#include "../device.h"
#include "../../gpu/view_facts.cuh"

SIM_KERNEL(load_number)
SIM_KERNEL(store_number)
SIM_KERNEL(add_numbers)
SIM_KERNEL(store_numbers)
SIM_KERNEL(add_together)
