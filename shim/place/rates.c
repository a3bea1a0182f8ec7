/* SPDX-License-Identifier: MIT */
/* Times of kernels that are given blocks which move. */
#include "place/rates.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/own.h"

#define RATES 256 /* Kernels and graphs whose times are known, */
#define PROBES 8  /* each in one of so many places. */

#define KNOWN_MS 60000u /* Most of the known times that counts. */

static ZC_LOCK(rates_lock, ZC_RANK_RATES);
static ZC_OWN struct {
    struct zc_rate rates[RATES];  /* With the lock. */
    uint64_t idle_at[ZC_DEVICES]; /* Microsecond in which each rests by known times.  Atomic. */
} known;

/* The entry of a kernel, new if there was none.  With the lock. */
static struct zc_rate *rate_entry(uint64_t kernel)
{
    uint64_t first = kernel >> 4;
    struct zc_rate *r = &known.rates[first % RATES];
    for (unsigned i = 1; r->kernel && r->kernel != kernel && i < PROBES; i++)
        r = &known.rates[(first + i) % RATES];
    if (r->kernel && r->kernel != kernel)
        r = &known.rates[first % RATES];
    if (r->kernel != kernel)
        *r = (struct zc_rate){.kernel = kernel};
    return r;
}

struct zc_rate zc_rate_of(uint64_t kernel)
{
    ZC_LOCK_HELD(mine, &rates_lock);
    return mine ? *rate_entry(kernel) : (struct zc_rate){.kernel = kernel};
}

uint64_t zc_rate_loss(const struct zc_rate *r, uint64_t bytes)
{
    uint64_t there = zc_rate_scaled(r->time, r->all, r->bytes);
    return r->time_of_them > there ? zc_rate_scaled(r->time_of_them - there, bytes, r->spilled) : 0;
}

static uint64_t clock_us(void)
{
    return zc_ticks_to_ns(zc_ticks()) / 1000;
}

static uint64_t busy_us(int device, uint64_t now)
{
    uint64_t until = __atomic_load_n(&known.idle_at[device], __ATOMIC_RELAXED);
    return until > now ? until - now : 0;
}

/* It will be busy so much longer.  With the lock. */
static void expect(int device, uint64_t microseconds)
{
    uint64_t now = clock_us();
    __atomic_store_n(&known.idle_at[device], now + busy_us(device, now) + microseconds,
                     __ATOMIC_RELAXED);
}

unsigned zc_rate_busy_ms(int device)
{
    uint64_t ms = busy_us(device, clock_us()) / 1000;
    return (unsigned)(ms < KNOWN_MS ? ms : KNOWN_MS);
}

void zc_rate_rests(int device)
{
    __atomic_store_n(&known.idle_at[device], 0, __ATOMIC_RELAXED);
}

void zc_rate_launched(const struct zc_rated *n, uint64_t spent)
{
    if (!zc_lock_take(&rates_lock))
        return;
    struct zc_rate *r = rate_entry(n->kernel);
    r->spent += spent;
    r->blind += r->time ? 0 : n->bytes;
    expect(n->device, zc_rate_scaled(r->time, n->bytes, r->bytes) + zc_rate_loss(r, n->spilled));
    zc_lock_drop(&rates_lock);
}

void zc_rate_timed(const void *rated, uint64_t microseconds)
{
    const struct zc_rated *n = rated;
    uint64_t time = microseconds ? microseconds : 1;
    if (!zc_lock_take(&rates_lock))
        return;
    struct zc_rate *r = rate_entry(n->kernel);
    if (!n->spilled) {
        r->bytes = n->bytes;
        r->time = time;
        expect(n->device, zc_rate_scaled(time, r->blind, n->bytes));
        r->blind = 0;
    } else {
        r->all = n->bytes;
        r->spilled = n->spilled;
        r->time_of_them = time;
    }
    zc_lock_drop(&rates_lock);
}
