/* SPDX-License-Identifier: MIT */
/* Traffic: totals by flow, in a slot for each thread; records a transfer in all counters. */
#include "ledger/traffic.h"

#include <string.h>

#include "base/module.h"
#include "ledger/block.h"
#include "ledger/cell.h"
#include "ledger/counters.h"

/* Slot of the calling thread, given out once, even if its thread ends, so that no count ever has
 * two writers.  0: it has none, or writes it: a signal handler in between must not, because its
 * count would be lost between the load and the store. */
static __thread struct {
    uint32_t slot;
    bool known; /* It has got one if there was any. */
} mine __attribute__((tls_model("initial-exec")));

/* Gives out slots 1 to the last; further threads share slot 0. */
static uint32_t traffic_slot_take(void)
{
    uint32_t *next = &zc_counters()->next_slot;
    uint32_t used = __atomic_load_n(next, __ATOMIC_RELAXED);
    while (used < ZC_COUNTERS_SLOTS - 1)
        if (__atomic_compare_exchange_n(next, &used, used + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return used + 1;
    return 0;
}

__attribute__((always_inline)) static inline void
totals_add(struct zc_totals *totals, const struct zc_transfer *t,
           void (*add)(uint64_t *count, uint64_t n))
{
    struct zc_count *asked = &totals->asked[t->asked][t->outcome];
    add(&asked->calls, !t->continues);
    add(&asked->bytes, t->bytes);
    add(&totals->ticks[t->asked], t->ticks);
    if (t->outcome == ZC_MOVED) {
        struct zc_count *moved = &totals->moved[t->real];
        add(&moved->calls, t->copies);
        add(&moved->bytes, t->bytes);
    }
}

static inline void count_block(struct zc_block *block, const struct zc_transfer *t, uint32_t slot)
{
    enum zc_dir dir = zc_flow_dir(t->asked);
    struct zc_cell *own = zc_cell_own(block->cell, dir, slot);
    if (__builtin_expect(own != NULL, 1))
        zc_cell_add(own, t, zc_add_own);
    else
        zc_cell_count(block->cell, block->site, (uint32_t)block->id, dir, t, slot);
}

/* One side that is pageable to the program.  Such copies take microseconds, so all threads share
 * the counts. */
static void count_source(struct zc_source_count *count, struct zc_source_sizes *sizes,
                         const struct zc_transfer *t, enum zc_kind real)
{
    unsigned size = 63 - (unsigned)__builtin_clzll(t->bytes | 1ull << ZC_SOURCE_SIZE_LEAST) -
                    ZC_SOURCE_SIZE_LEAST;
    zc_add_shared(&sizes->bytes[size < ZC_SOURCE_SIZES ? size : ZC_SOURCE_SIZES - 1], t->bytes);
    zc_add_shared(&count->asked.calls, !t->continues);
    zc_add_shared(&count->asked.bytes, t->bytes);
    zc_add_shared(&count->ticks, t->ticks);
    if (t->outcome == ZC_MOVED && real == ZC_KIND_PAGEABLE)
        zc_add_shared(&count->moved_bytes, t->bytes);
}

static void count_sources(struct zc_counters *counters, const struct zc_transfer *t)
{
    if (t->src_source != ZC_SOURCE_NONE)
        count_source(&counters->source[t->src_source - 1].from,
                     &counters->from_sizes[t->src_source - 1], t, zc_flow_src(t->real));
    if (t->dst_source != ZC_SOURCE_NONE)
        count_source(&counters->source[t->dst_source - 1].to,
                     &counters->to_sizes[t->dst_source - 1], t, zc_flow_dst(t->real));
}

void zc_traffic_record(const struct zc_transfer *t)
{
    struct zc_counters *counters = zc_counters();
    if (t->src_source | t->dst_source)
        count_sources(counters, t);
    if (!mine.known) {
        mine.known = true;
        mine.slot = traffic_slot_take();
    }
    uint32_t slot = mine.slot;
    mine.slot = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (slot != 0)
        totals_add(&counters->slot[slot], t, zc_add_own);
    else
        totals_add(&counters->slot[0], t, zc_add_shared);
    if (t->dst != NULL)
        count_block(t->dst, t, slot);
    if (t->src != NULL && t->src != t->dst)
        count_block(t->src, t, slot);
    if (t->call != 0)
        zc_cell_add(&counters->call[t->call][zc_flow_dir(t->asked)], t, zc_add_shared);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine.slot = slot;
}

__attribute__((noinline)) static void record_plain(const struct zc_plain_copy *c, uint64_t ticks)
{
    zc_traffic_record(&(struct zc_transfer){.asked = c->flow,
                                            .real = c->flow,
                                            .outcome = ZC_MOVED,
                                            .bytes = c->bytes,
                                            .copies = 1,
                                            .ticks = ticks,
                                            .dst = c->dst,
                                            .src = c->src});
}

void zc_traffic_plain(const struct zc_plain_copy *c, uint64_t ticks)
{
    struct zc_counters *counters = zc_counters();
    const struct zc_transfer t = {c->flow, c->flow, ZC_MOVED, c->bytes, .copies = 1, ticks};
    uint32_t slot = mine.slot;
    if (__builtin_expect(
            !slot || c->sequence != __atomic_load_n(&zc_index_sequence, __ATOMIC_ACQUIRE), 0))
        return record_plain(c, ticks);
    mine.slot = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    totals_add(&counters->slot[slot], &t, zc_add_own);
    for (unsigned i = 0; i < 2; i++)
        if (c->cell[i])
            zc_cell_add(c->cell[i], &t, zc_add_own);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine.slot = slot;
}

bool zc_traffic_cells(struct zc_plain_copy *c)
{
    enum zc_dir dir = zc_flow_dir(c->flow);
    struct zc_block *src = c->src == c->dst ? NULL : c->src;
    c->cell[0] = c->dst ? zc_cell_own(c->dst->cell, dir, mine.slot) : NULL;
    c->cell[1] = src ? zc_cell_own(src->cell, dir, mine.slot) : NULL;
    return mine.slot && !(c->dst && !c->cell[0]) && !(src && !c->cell[1]);
}

void zc_traffic_own(unsigned real, uint64_t bytes)
{
    struct zc_count *moved = &zc_counters()->slot[0].moved[real];
    zc_add_shared(&moved->calls, 1);
    zc_add_shared(&moved->bytes, bytes);
}

void zc_traffic_totals(struct zc_totals *out)
{
    const struct zc_counters *counters = zc_counters();
    uint32_t last = __atomic_load_n(&counters->next_slot, __ATOMIC_RELAXED);
    uint64_t *sum = (uint64_t *)out;
    /* struct zc_totals holds only 64-bit counts, so it is summed as an array.  Unused slots are
     * skipped: reading them would allocate their pages. */
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i <= last; i++) {
        const uint64_t *count = (const uint64_t *)&counters->slot[i];
        for (size_t j = 0; j < sizeof(*out) / sizeof(*sum); j++)
            sum[j] += __atomic_load_n(&count[j], __ATOMIC_RELAXED);
    }
}

void zc_traffic_reset(void)
{
    mine.slot = 0;
    mine.known = false;
}

const struct zc_module zc_module_traffic = {.child = zc_traffic_reset};
