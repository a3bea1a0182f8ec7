/* SPDX-License-Identifier: MIT */
/* Runs the grid of a host-built kernel: built-in index variables, blocks, threads and barriers. */
#ifndef SIM_DEVICE_GRID_H
#define SIM_DEVICE_GRID_H

#include <vector_types.h>

#include "sim.h"

/* CUDA's built-in variables; of the simulated thread that runs on this OS thread. */
extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread dim3 blockDim;
extern __thread dim3 gridDim;
static const int warpSize = 32;

namespace sim
{

/* Runs body(argument) once for every thread of every block of the launch, on the calling thread. */
void run_grid(const struct sim_launch *launch, void (*body)(void *), void *argument);

/* __syncthreads: returns when every thread of the block that has not ended has called it. */
void barrier(void);

} // namespace sim

#endif
