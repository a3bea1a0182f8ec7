/* SPDX-License-Identifier: MIT */
/* How much kernels use device blocks that are ONE. */
#include "shared/heat.h"

#include "base/life.h"
#include "driver/capture.h"
#include "ledger/site.h"
#include "memory/regret.h"
#include "shared/backing.h"
#include "vmm/vmm.h"

#define NAMED 8    /* Most blocks of one launch that are looked after. */
#define SITES 1024 /* Most sites whose blocks are known to be hot. */

#define FIRST_MS 500u /* Most that launches wait for the time of the first kernel. */

/* A kernel with a thread for each so many bytes of a block was most likely made to read all of it,
 * once or many times: a thread loads 16 bytes at most at once, and one that goes through a row of a
 * sparse matrix or a graph reads some 16 words.  Of threads that read a single word each, the link
 * fetches 32 bytes. */
#define THREAD_BYTES 64u

/* Public ids of sites whose blocks were hot, each in one place; 0: none.  Atomic. */
static uint32_t hot[SITES];

static CUresult heat_before_launch(const struct zc_launch *launch);

void zc_heat_watch(void)
{
    zc_launch_call(ZC_LAUNCH_SHARED, heat_before_launch);
}

static void heat_remember(uint32_t site)
{
    __atomic_store_n(&hot[site % SITES], site, __ATOMIC_RELAXED);
}

void zc_heat_new(struct zc_block *block)
{
    struct zc_shared *p = zc_shared_of(block);
    p->names.device_block = block->id;
    p->names.bytes = block->size;
    p->names.device_site = zc_site_id(block->site);
    uint32_t site = p->names.device_site;
    if (site && __atomic_load_n(&hot[site % SITES], __ATOMIC_RELAXED) == site) {
        p->names.why = "an earlier block of its site got memory for its kernels";
        __atomic_store_n(&p->stays_own, true, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&p->block, block, __ATOMIC_RELEASE);
}

/* A block becomes OWN before the kernel begins, as a kernel that runs can't be helped.  True
 * if it did; where the device has no memory, that is not tried again. */
static bool heat_expected(const struct zc_launch *launch, struct zc_shared *p)
{
    if (__atomic_load_n(&p->used, __ATOMIC_RELAXED) ||
        launch->threads < p->names.bytes / THREAD_BYTES ||
        __atomic_load_n(&p->crowded, __ATOMIC_RELAXED))
        return false;
    bool done = zc_shared_demote(p, "a kernel had threads enough to read all of it");
    if (done)
        heat_remember(p->names.device_site);
    __atomic_store_n(&p->crowded, !done, __ATOMIC_RELAXED);
    return done;
}

/* The blocks that are ONE when a kernel begins, and whose addresses it is given. */
struct named {
    const struct zc_launch *launch;
    struct zc_shared *of[NAMED];
    uint64_t id[NAMED]; /* Their names.device_block: an object may be another block's by now. */
    unsigned count;
};

static void heat_add_named(uint64_t word, void *arg)
{
    struct named *found = arg;
    struct zc_shared *p = zc_shared_of(zc_block_find(word));
    for (unsigned i = 0; p && i < found->count; i++)
        if (found->of[i] == p)
            return;
    if (!p || !zc_shared_is_one(p) || found->count == NAMED || heat_expected(found->launch, p))
        return;
    found->id[found->count] = p->names.device_block;
    found->of[found->count++] = p;
}

/* A block that the device has no memory for stays ONE until it was used as long again. */
static void heat_judge(struct zc_shared *p, uint64_t microseconds)
{
    if (zc_regret_owes(&p->used, microseconds, p->names.bytes) &&
        zc_shared_demote(p, "kernels used it for long"))
        heat_remember(p->names.device_site);
}

static void heat_judge_all(const void *noted, uint64_t microseconds)
{
    const struct named *t = noted;
    for (unsigned i = 0; i < t->count; i++) {
        if (t->of[i]->names.device_block != t->id[i] || !zc_shared_is_one(t->of[i]))
            continue;
        __atomic_store_n(&t->of[i]->last, microseconds + 1, __ATOMIC_RELAXED);
        heat_judge(t->of[i], microseconds);
    }
}

static bool heat_unknown(const void *pair)
{
    return !__atomic_load_n(&((const struct zc_shared *)pair)->last, __ATOMIC_RELAXED);
}

/* While another launch is timed. */
static void heat_count_untimed(struct zc_shared *p)
{
    uint64_t last = __atomic_load_n(&p->last, __ATOMIC_RELAXED);
    if (last > 1)
        heat_judge(p, last - 1);
}

/*
 * Launches that come while another one is timed count as long as the last that was.  A program may
 * launch all its kernels before the first has ended: so the second launch with a block waits for
 * the first, but not for longer than FIRST_MS.
 */
static void heat_use(const struct zc_launch *launch)
{
    struct named found = {.launch = launch};
    zc_launch_words(launch, heat_add_named, &found);
    for (unsigned i = 0; i < found.count; i++)
        if (heat_unknown(found.of[i]))
            zc_regret_wait(heat_unknown, found.of[i], FIRST_MS);
    if (found.count && !zc_regret_time(launch, heat_judge_all, &found, sizeof(found)))
        for (unsigned i = 0; i < found.count; i++)
            heat_count_untimed(found.of[i]);
}

static bool heat_watching(void)
{
    return __atomic_load_n(&zc_shared_ones, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&zc_shared_undecided, __ATOMIC_ACQUIRE);
}

static CUresult heat_before_launch(const struct zc_launch *launch)
{
    CUresult result = zc_shared_decide_all(launch->fn, true);
    if (result != CUDA_SUCCESS || zc_life_closing() || zc_capture_any())
        return result;
    zc_regret_collect();
    heat_use(launch);
    if (!heat_watching()) {
        zc_launch_call(ZC_LAUNCH_SHARED, NULL);
        if (heat_watching())
            zc_heat_watch();
    }
    return CUDA_SUCCESS;
}
