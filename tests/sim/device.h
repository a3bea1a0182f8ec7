/* SPDX-License-Identifier: MIT */
/*
 * Host build of CUDA kernels for the simulated GPU: the words of CUDA C++ that a kernel's source
 * uses, given a meaning for g++, and the two macros that make the kernel known to the simulation.
 *
 * A wrapper in tests/sim/kernels/ includes this header, then the program's own .cuh, unchanged, and
 * names what to register:
 *
 *     #include "../device.h"
 *     #include "vecadd.cuh"
 *     SIM_KERNEL(vecadd)
 *
 * All threads of a block run on one OS thread (see device_grid.h), so __shared__ is thread_local.
 * Left out, so that their use fails to compile: warp intrinsics, textures, extern __shared__.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

/* Ahead of CUDA's headers, which define these only where they are not defined. */
#define __shared__ static thread_local

#include <vector_functions.h>
#include <vector_types.h>

#include <math.h>
#include <type_traits>

#include "device_atomic.h"
#include "device_grid.h"
#include "device_register.h"

/* CUDA offers min and max for every mix of arithmetic types, outside of any namespace. */
template <typename A, typename B> constexpr std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)b < (T)a ? (T)b : (T)a;
}

template <typename A, typename B> constexpr std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    return (T)a < (T)b ? (T)b : (T)a;
}

/* A load through the read-only cache. */
template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

static inline void __syncthreads(void)
{
    sim::barrier();
}

#endif
