/* SPDX-License-Identifier: MIT */
/*
 * CUDA's atomic functions for the host build of kernels.  Blocks of different streams run on
 * different OS threads, and the CPU may use the same memory, so they are real atomics; the _system
 * and _block forms differ from the plain ones in scope only, and the widest scope serves all three.
 */
#ifndef SIM_DEVICE_ATOMIC_H
#define SIM_DEVICE_ATOMIC_H

#include <string.h>

namespace sim
{

/* *p = op(*p), for types and operations without an instruction; gives the old value. */
template <typename T, typename Op> static inline T atomic_update(T *p, Op op)
{
    T old, desired;

    __atomic_load(p, &old, __ATOMIC_SEQ_CST);
    do {
        desired = op(old);
    } while (
        !__atomic_compare_exchange(p, &old, &desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}

} // namespace sim

#define SIM_ATOMIC_SCOPE(name, suffix, expression)                                                 \
    template <typename T, typename V> static inline T name##suffix(T *p, V value)                  \
    {                                                                                              \
        return sim::atomic_update(p, [value](T old) { return (T)(expression); });                  \
    }
#define SIM_ATOMIC(name, expression)                                                               \
    SIM_ATOMIC_SCOPE(name, , expression)                                                           \
    SIM_ATOMIC_SCOPE(name, _system, expression)                                                    \
    SIM_ATOMIC_SCOPE(name, _block, expression)

/* The CUDA C++ Programming Guide defines each; `old` is the value in memory. */
SIM_ATOMIC(atomicAdd, old + (T)value)
SIM_ATOMIC(atomicSub, old - (T)value)
SIM_ATOMIC(atomicExch, ((void)old, (T)value))
SIM_ATOMIC(atomicMin, (T)value < old ? (T)value : old)
SIM_ATOMIC(atomicMax, old < (T)value ? (T)value : old)
SIM_ATOMIC(atomicAnd, old &(T)value)
SIM_ATOMIC(atomicOr, old | (T)value)
SIM_ATOMIC(atomicXor, old ^ (T)value)
SIM_ATOMIC(atomicInc, old >= (T)value ? (T)0 : old + 1)
SIM_ATOMIC(atomicDec, old == 0 || old > (T)value ? (T)value : old - 1)

#undef SIM_ATOMIC
#undef SIM_ATOMIC_SCOPE

template <typename T> static inline T atomicCAS(T *p, T compare, T value)
{
    __atomic_compare_exchange(p, &compare, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return compare;
}

template <typename T> static inline T atomicCAS_system(T *p, T compare, T value)
{
    return atomicCAS(p, compare, value);
}

static inline void __threadfence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_block(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void __threadfence_system(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif
