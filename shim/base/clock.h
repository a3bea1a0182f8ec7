/* SPDX-License-Identifier: MIT */
/* Time for measuring calls: the CPU's counter if its rate is constant, else CLOCK_MONOTONIC. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Ticks at an arbitrary but constant rate.  On x86-64 with an invariant TSC, and on aarch64, this
 * reads the CPU's counter (about 9 ns).  Elsewhere a tick is a nanosecond of CLOCK_MONOTONIC.
 */
uint64_t zc_ticks_slow(void);

extern bool zc_clock_counter; /* The CPU's counter is in use; constant after the first reading. */

static inline uint64_t zc_ticks(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(__atomic_load_n(&zc_clock_counter, __ATOMIC_RELAXED), 1))
        return __builtin_ia32_rdtsc();
#endif
    return zc_ticks_slow();
}

/* Finds the rate, exact to 0.1 %, in 100 us.  Called at the first CUDA call. */
void zc_clock_calibrate(void);

/* Converts a span of ticks to nanoseconds.  0 before zc_clock_calibrate(). */
uint64_t zc_ticks_to_ns(uint64_t ticks);

/* Nanoseconds since the Unix epoch, for log lines. */
uint64_t zc_wall_ns(void);

/* The conversion: ns = ticks * mult >> 32.  The counters file has it for its readers. */
uint64_t zc_clock_mult(void);
