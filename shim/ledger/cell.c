/* SPDX-License-Identifier: MIT */
/* Cells: the per-block counters. */
#include "ledger/cell.h"

#include "base/arena.h"
#include "base/own.h"
#include "ledger/counters.h"
#include "ledger/site.h"

/* Free cells of the counters file, as indices + 1, with zc_counters_lock().  The links are not in
 * the file, whose readers see only counters. */
static uint32_t next_free[ZC_COUNTERS_CELLS];
static ZC_OWN struct {
    uint32_t first;
    uint32_t fresh; /* Cells from here on were never used. */
} list;

/* A cell's index, or ZC_COUNTERS_CELLS if all are in use, and in a signal handler that interrupted
 * the table. */
static uint32_t list_pop(void)
{
    uint32_t index = ZC_COUNTERS_CELLS;
    if (!zc_counters_lock())
        return index;
    if (list.first != 0) {
        index = list.first - 1;
        list.first = next_free[index];
    } else if (list.fresh < ZC_COUNTERS_CELLS) {
        index = list.fresh++;
    }
    zc_counters_unlock();
    return index;
}

static struct zc_cell *cell_get(uint32_t site, uint32_t id, enum zc_dir dir)
{
    uint32_t index = list_pop();
    struct zc_cell *cell =
        index < ZC_COUNTERS_CELLS ? &zc_counters()->cell[index] : zc_arena_get(sizeof(*cell));
    if (cell == NULL)
        return NULL;
    __atomic_store_n(&cell->site, (uint16_t)site, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->dir, (uint8_t)dir, __ATOMIC_RELAXED);
    /* Stored last: readers of the file take a cell with a block for one in use. */
    __atomic_store_n(&cell->block, id, __ATOMIC_RELEASE);
    return cell;
}

static void cell_put(struct zc_cell *cell)
{
    uintptr_t first = (uintptr_t)&zc_counters()->cell[0];
    uintptr_t index = ((uintptr_t)cell - first) / sizeof(*cell);
    if ((uintptr_t)cell < first || index >= ZC_COUNTERS_CELLS) {
        zc_arena_put(cell, sizeof(*cell));
        return;
    }
    __atomic_store_n(&cell->block, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < ZC_OUTCOME_COUNT; i++) {
        __atomic_store_n(&cell->by[i].calls, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&cell->by[i].bytes, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&cell->ticks, 0, __ATOMIC_RELAXED);
    if (!zc_counters_lock())
        return;
    next_free[index] = list.first;
    list.first = (uint32_t)index + 1;
    zc_counters_unlock();
}

/* The cell of a direction that a thread may write, allocated at its first transfer; NULL if there
 * is none. */
static struct zc_cell *cell_of(struct zc_cell *cells[ZC_BLOCK_CELLS], uint32_t site, uint32_t id,
                               enum zc_dir dir, uint32_t slot)
{
    struct zc_cell *taken = NULL, *cell = NULL;
    uint32_t writer = slot;
    for (size_t i = 0; i < ZC_BLOCK_CELLS; i++) {
        cell = __atomic_load_n(&cells[i], __ATOMIC_ACQUIRE);
        if (cell == NULL) {
            if (taken == NULL && (taken = cell_get(site, id, dir)) == NULL)
                return NULL;
            __atomic_store_n(&taken->writer, (uint8_t)writer, __ATOMIC_RELAXED);
            if (__atomic_compare_exchange_n(&cells[i], &cell, taken, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE))
                return taken;
        }
        if (__atomic_load_n(&cell->dir, __ATOMIC_RELAXED) == (uint8_t)dir) {
            uint32_t theirs = __atomic_load_n(&cell->writer, __ATOMIC_RELAXED);
            if (theirs == slot || theirs == 0)
                break;
            writer = 0; /* One thread has its own cell; the next one is shared by all others. */
        }
        cell = NULL;
    }
    if (taken != NULL)
        cell_put(taken);
    return cell;
}

void zc_cell_count(struct zc_cell *cells[ZC_BLOCK_CELLS], uint32_t site, uint32_t id,
                   enum zc_dir dir, const struct zc_transfer *t, uint32_t slot)
{
    struct zc_cell *cell = cell_of(cells, site, id, dir, slot);
    if (cell == NULL)
        zc_cell_add(zc_site_total(site, dir), t, zc_add_shared);
    else if (cell->writer != 0)
        zc_cell_add(cell, t, zc_add_own);
    else
        zc_cell_add(cell, t, zc_add_shared);
}

void zc_cell_sum(struct zc_cell *sum, const struct zc_cell *cell)
{
    for (int i = 0; i < ZC_OUTCOME_COUNT; i++) {
        zc_add_shared(&sum->by[i].calls, __atomic_load_n(&cell->by[i].calls, __ATOMIC_RELAXED));
        zc_add_shared(&sum->by[i].bytes, __atomic_load_n(&cell->by[i].bytes, __ATOMIC_RELAXED));
    }
    zc_add_shared(&sum->ticks, __atomic_load_n(&cell->ticks, __ATOMIC_RELAXED));
}

void zc_cell_sum_all(struct zc_cell sum[ZC_DIR_COUNT], struct zc_cell *const cells[ZC_BLOCK_CELLS])
{
    for (size_t i = 0; i < ZC_BLOCK_CELLS; i++) {
        const struct zc_cell *cell = __atomic_load_n(&cells[i], __ATOMIC_ACQUIRE);
        if (cell != NULL)
            zc_cell_sum(&sum[cell->dir], cell);
    }
}

void zc_cell_fold_all(struct zc_cell *cells[ZC_BLOCK_CELLS], uint32_t site)
{
    for (size_t i = 0; i < ZC_BLOCK_CELLS; i++) {
        struct zc_cell *cell = __atomic_load_n(&cells[i], __ATOMIC_ACQUIRE);
        if (cell == NULL)
            break;
        __atomic_store_n(&cells[i], NULL, __ATOMIC_RELAXED);
        zc_cell_sum(zc_site_total(site, (enum zc_dir)cell->dir), cell);
        cell_put(cell);
    }
}
