/* SPDX-License-Identifier: MIT */
/* Verbs of blocks: what a hook asks of one, done as its place does it. */
#include "place/verbs.h"

#include "driver/launch.h"
#include "place/fallback.h"
#include "place/migrate.h"
#include "vmm/access.h"

enum zc_place_id zc_place_bare(enum zc_kind kind)
{
    return kind == ZC_KIND_MANAGED  ? ZC_PLACE_MANAGED
           : kind == ZC_KIND_PINNED ? ZC_PLACE_PINNED
                                    : ZC_PLACE_DEVICE;
}

int64_t zc_place_on_device(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    if (!v)
        return block->real == ZC_KIND_MANAGED                ? -1
               : zc_place_of((enum zc_place_id)block->place) ? 0
                                                             : (int64_t)block->size;
    /* Memory comes with the first use, and may be more than was asked for. */
    uint64_t held = __atomic_load_n(&v->held, __ATOMIC_RELAXED);
    uint64_t most = block->size - zc_block_spilled(block);
    return (int64_t)(held < most ? held : most);
}

void zc_place_entered(struct zc_block *block)
{
    const struct zc_place *place = zc_place_of((enum zc_place_id)block->place);
    if (place->entered)
        place->entered(block);
    if (zc_move_of(block))
        zc_migrate_watch();
}

CUresult zc_place_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps, const char *why)
{
    if (!block || !(block->flags & ZC_BLOCK_CONVERTED))
        return CUDA_SUCCESS;
    const struct zc_place *place = zc_place_of((enum zc_place_id)block->place);
    return place->retreat ? place->retreat(block, fn, keeps, why) : CUDA_SUCCESS;
}

CUresult zc_place_drain(enum zc_fn fn)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = ZC_PLACE_COUNT; i-- > 0 && result == CUDA_SUCCESS;) {
        const struct zc_place *place = zc_place_of((enum zc_place_id)i);
        result = place && place->drain ? place->drain(fn) : CUDA_SUCCESS;
    }
    return result;
}

/* Such a call may use any block from any device, by the CPU as well.  Registered memory first:
 * whether ending that may wait depends on what streams were given before. */
CUresult zc_place_expose(enum zc_fn fn)
{
    CUresult result = zc_life_closing() ? CUDA_SUCCESS : zc_pinned_forgo(fn);
    return result ?: zc_place_drain(fn) ?: zc_launch_before(fn, ZC_LEGACY, NULL) ?:
           zc_migrate_keep_all(fn) ?: zc_access_open_all();
}

void zc_place_diagnose(void)
{
    for (int i = 0; i < ZC_PLACE_COUNT; i++) {
        const struct zc_place *place = zc_place_of((enum zc_place_id)i);
        if (place && place->diagnose)
            place->diagnose();
    }
}
