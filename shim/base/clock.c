/* SPDX-License-Identifier: MIT */
/* The CPU's counter, if its rate is constant, and that rate measured against CLOCK_MONOTONIC. */
#include "base/clock.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define NS_PER_S 1000000000ull
#define SPAN_NS 100000ull /* Shortest span from which the rate is computed. */
#define TRIES 5

/* Ticks and nanoseconds read at the same moment. */
struct pair {
    uint64_t ticks;
    uint64_t ns; /* CLOCK_MONOTONIC. */
};

bool zc_clock_counter;
static struct {
    bool known;    /* zc_clock_counter is.  Atomic, as that; every thread would store the same. */
    uint64_t mult; /* Atomic. */
} rate;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

#if defined(__x86_64__)
static inline uint64_t read_counter(void)
{
    return __builtin_ia32_rdtsc();
}

/* Invariant TSC: CPUID Fn8000_0007 EDX bit 8 (Intel SDM volume 3, "Time-Stamp Counter"). */
static bool counter_is_constant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}
#else
/* AArch64's generic timer's virtual count is constant by its architecture (Arm ARM, D12). */
static inline uint64_t read_counter(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

static bool counter_is_constant(void)
{
    return true;
}
#endif

static bool find_counter(void)
{
    bool found = counter_is_constant();
    __atomic_store_n(&zc_clock_counter, found, __ATOMIC_RELAXED);
    __atomic_store_n(&rate.known, true, __ATOMIC_RELAXED);
    return found;
}

uint64_t zc_ticks_slow(void)
{
    bool counter = __atomic_load_n(&rate.known, __ATOMIC_RELAXED)
                       ? __atomic_load_n(&zc_clock_counter, __ATOMIC_RELAXED)
                       : find_counter();
    return counter ? read_counter() : clock_ns(CLOCK_MONOTONIC);
}

/* Takes the best of a few readings: a thread preempted between both clocks misreads. */
static struct pair read_pair(void)
{
    struct pair best = {0, 0};
    uint64_t best_gap = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = zc_ticks();
        uint64_t ns = clock_ns(CLOCK_MONOTONIC);
        uint64_t gap = zc_ticks() - before;
        if (gap < best_gap) {
            best_gap = gap;
            best = (struct pair){before + gap / 2, ns};
        }
    }
    return best;
}

static uint64_t measure_rate(void)
{
    struct pair first = read_pair(), last = first;
    while (last.ns - first.ns < SPAN_NS || last.ticks <= first.ticks)
        last = read_pair();
    return (uint64_t)(((unsigned __int128)(last.ns - first.ns) << 32) / (last.ticks - first.ticks));
}

void zc_clock_calibrate(void)
{
    uint64_t mult = find_counter() ? measure_rate() : (uint64_t)1 << 32;
    __atomic_store_n(&rate.mult, mult, __ATOMIC_RELAXED);
}

uint64_t zc_clock_mult(void)
{
    return __atomic_load_n(&rate.mult, __ATOMIC_RELAXED);
}

uint64_t zc_ticks_to_ns(uint64_t ticks)
{
    return (uint64_t)(((unsigned __int128)ticks * zc_clock_mult()) >> 32);
}

uint64_t zc_wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}
