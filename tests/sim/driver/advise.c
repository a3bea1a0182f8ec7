/* SPDX-License-Identifier: MIT */
/* madvise(2) as the kernel would answer it if registered pages were still the ones that they are on
 * hardware: the CPU's page table gets fresh pages of zeroes, and the GPU's keeps the old ones. */
#define _GNU_SOURCE
#include "call.h"
#include "maps.h"
#include "memory.h"
#include "pages.h"
#include "view.h"
#include <errno.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif

static int on_private_pages(const struct sim_mapping *m, int advice)
{
    size_t bytes = m->end - m->start;
    if (advice == MADV_FREE) /* The kernel frees no page that a device holds. */
        return 0;
    if (advice == MADV_REMOVE) {
        errno = EINVAL;
        return -1;
    }
    void *p = sim_mmap((void *)m->start, bytes, m->rights,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED)
        return -1;
    return advice == MADV_GUARD_INSTALL ? sim_madvise(p, bytes, advice) : 0;
}

/* The part of a view that maps what `m` maps. */
static void keep_view(struct sim_view *view, const struct sim_mapping *m)
{
    uintptr_t alias = (uintptr_t)view->alias;
    struct sim_maps maps;
    if (!sim_maps_ask(&maps, alias, alias + view->bytes))
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct sim_mapping *a = &maps.items[i];
        uint64_t a_end = a->offset + (a->end - a->start), m_end = m->offset + (m->end - m->start);
        uint64_t low = a->offset > m->offset ? a->offset : m->offset;
        uint64_t high = a_end < m_end ? a_end : m_end;
        if (a->shared && sim_maps_same_file(a, m) && low < high)
            sim_view_keep(view, a->start - alias + (low - a->offset), high - low);
    }
    sim_maps_free(&maps);
}

/* Bytes removed from a file are gone for everybody who maps it, wherever, but the GPU, which keeps
 * the pages (measured on an H200). */
static void keep_registered(const struct sim_mapping *m)
{
    struct sim_block *b;
    sim_relock();
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++)
        if (b->kind == SIM_REGISTERED)
            keep_view(&b->view, m);
    sim_unlock();
}

static int advise_each(const struct sim_maps *maps, int advice, uintptr_t at, uintptr_t end)
{
    int result = 0;
    bool hole = false;
    for (size_t i = 0; i < maps->count && result == 0; i++) {
        const struct sim_mapping *m = &maps->items[i];
        hole = hole || m->start != at;
        at = m->end;
        if (advice == MADV_REMOVE && m->shared && !m->view)
            keep_registered(m);
        result = m->view && !m->allocated
                     ? on_private_pages(m, advice)
                     : sim_madvise((void *)m->start, m->end - m->start, advice);
    }
    if (result == 0 && (hole || at != end)) {
        errno = ENOMEM;
        return -1;
    }
    return result;
}

SIM_EXPORT int madvise(void *at, size_t bytes, int advice)
{
    uintptr_t first = (uintptr_t)at, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = (first + bytes + page - 1) & ~(page - 1);
    struct sim_maps maps;
    bool frees = advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE ||
                 advice == MADV_REMOVE;
    frees = frees || (advice == MADV_GUARD_INSTALL && sim_madvise(at, 0, advice) == 0);
    bool any = sim_view_any || advice == MADV_REMOVE; /* Shared pages become no view's. */
    if (!frees || !any || first % page || end <= first || !sim_maps_read(&maps, first, end))
        return sim_madvise(at, bytes, advice);
    int result = advise_each(&maps, advice, first, end);
    int error = errno;
    sim_maps_free(&maps);
    errno = error;
    return result;
}
