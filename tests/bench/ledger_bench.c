/* SPDX-License-Identifier: MIT */
/* Measures the ledger's calls and its memory, and prints a table.  It judges nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unwind.h>

#include "base/arena.h"
#include "base/own.h"
#include "ledger/block.h"
#include "ledger/traffic.h"
#include "ledger/site_path.h"
#include "ledger/counters.h"

#define ROUNDS 2000000u
#define SPAN 4096u /* Address space a block of the bench has to itself. */

static uint64_t state = 88172645463325252ull;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct zc_block *add(uint64_t base)
{
    const struct zc_block like = {.base = base, .size = SPAN / 2};
    struct zc_block *block = zc_block_add(&like);

    if (block == NULL)
        exit(1);
    return block;
}

static void take_out(struct zc_block *block)
{
    if (zc_block_claim(block))
        zc_block_remove(block);
}

/* Addresses in random order: slot i of a shuffled range. */
static uint64_t *shuffled(size_t n)
{
    uint64_t *at = malloc(n * sizeof(*at));

    if (at == NULL)
        exit(1);
    for (size_t i = 0; i < n; i++)
        at[i] = (i + 1) * SPAN;
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = draw() % (i + 1);
        uint64_t swap = at[i];

        at[i] = at[j];
        at[j] = swap;
    }
    return at;
}

static void bench_blocks(size_t n)
{
    uint64_t *at = shuffled(n), sum = 0;
    struct zc_block **live = malloc(n * sizeof(struct zc_block *));
    double start, find, pair;

    if (live == NULL)
        exit(1);
    for (size_t i = 0; i < n; i++)
        live[i] = add(at[i]);
    start = now_ns();
    for (unsigned i = 0; i < ROUNDS; i++)
        sum += zc_block_find(at[draw() % n] + 17)->size;
    find = (now_ns() - start) / ROUNDS;
    start = now_ns();
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t j = draw() % n;
        uint64_t base = live[j]->base;

        take_out(live[j]);
        live[j] = add(base);
    }
    pair = (now_ns() - start) / ROUNDS;
    printf("%8zu  %8.1f  %12.1f\n", n, find, pair);
    for (size_t i = 0; i < n; i++)
        take_out(live[i]);
    free(at);
    free(live);
    if (sum == 0)
        exit(1);
    zc_own_forget();
    zc_arena_reset();
}

static void bench_record(void)
{
    struct zc_block *block = add(SPAN);
    struct zc_transfer t = {.asked = zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE),
                            .real = zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE),
                            .bytes = 4096,
                            .copies = 1,
                            .ticks = 100,
                            .dst = block};
    double start = now_ns();

    for (unsigned i = 0; i < ROUNDS; i++)
        zc_traffic_record(&t);
    printf("record, one block: %.1f ns\n", (now_ns() - start) / ROUNDS);
    t.dst = NULL;
    start = now_ns();
    for (unsigned i = 0; i < ROUNDS; i++)
        zc_traffic_record(&t);
    printf("record, no block:  %.1f ns\n", (now_ns() - start) / ROUNDS);
    take_out(block);
}

__attribute__((noinline)) static uint32_t wrapper(void)
{
    uint32_t site = zc_site_here(__builtin_frame_address(0), __builtin_return_address(0));

    __asm__ volatile("" ::: "memory");
    return site;
}

__attribute__((noinline)) static uint32_t call(unsigned depth)
{
    uint32_t site = depth == 0 ? wrapper() : call(depth - 1);

    __asm__ volatile("" ::: "memory");
    return site;
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *frames)
{
    return _Unwind_GetIP(context) != 0 && ++*(unsigned *)frames < ZC_SITE_FRAMES
               ? _URC_NO_REASON
               : _URC_END_OF_STACK;
}

/* The cost of the walk by libgcc's unwinder, without the names of the frames' objects. */
__attribute__((noinline)) static uint32_t walk_libgcc(unsigned depth)
{
    unsigned frames = 0;

    if (depth > 0)
        frames = walk_libgcc(depth - 1);
    else
        _Unwind_Backtrace(count_frame, &frames);
    __asm__ volatile("" ::: "memory");
    return frames;
}

static void bench_site(void)
{
    volatile uint32_t site = 0;
    double start = now_ns();

    site = call(6);
    printf("site, first:       %.1f ns\n", now_ns() - start);
    start = now_ns();
    for (unsigned i = 0; i < 20000; i++) {
        zc_site_path_reset();
        site = call(6);
    }
    printf("site, walked:      %.1f ns\n", (now_ns() - start) / 20000);
    start = now_ns();
    for (unsigned i = 0; i < 20000; i++)
        site = walk_libgcc(6);
    printf("walk by libgcc:    %.1f ns\n", (now_ns() - start) / 20000);
    start = now_ns();
    for (unsigned i = 0; i < ROUNDS; i++)
        site = call(6);
    printf("site, cached:      %.1f ns\n", (now_ns() - start) / ROUNDS);
    (void)site;
}

int main(void)
{
    if (!zc_counters_open(NULL))
        return 1;
    printf("  blocks  find, ns  add+remove, ns\n");
    for (size_t n = 1; n <= 1000000; n *= n == 1 ? 1000 : 10)
        bench_blocks(n);
    bench_record();
    bench_site();
    return 0;
}
