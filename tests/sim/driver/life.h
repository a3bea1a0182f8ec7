/* SPDX-License-Identifier: MIT */
/* The life of the driver in a process: before cuInit, running, in a forked child, after the
 * destructor. */
#ifndef SIM_LIFE_H
#define SIM_LIFE_H

#include "driver.h"

/* CUDA_SUCCESS where an entry point of that kind may run, else the code that the real driver gives
 * in this state. */
CUresult sim_life_check(enum sim_when when);

#endif
