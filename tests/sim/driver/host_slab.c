/* SPDX-License-Identifier: MIT */
/* Slabs of pinned host memory: as on hardware, requests of up to 1 MiB share mappings of 2 MiB. A
 * slab is filled from its start, and used again from there once it is empty. */
#define _GNU_SOURCE
#include "host_slab.h"
#include "pages.h"
#include <stdlib.h>
#include <string.h>

#define UNIT ((size_t)512)

struct sim_slab {
    struct sim_view view; /* the GPU's side */
    char *cpu;            /* the CPU's */
    size_t at;            /* bytes in use, with holes */
    unsigned blocks;      /* in it */
};

static struct sim_slab *filling; /* the one that requests come from; NULL for none */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Blocks of a page and more have pages of their own, which the program may protect or move. */
static size_t unit_of(size_t size, size_t page)
{
    return size < page ? UNIT : page;
}

static struct sim_slab *slab_new(void)
{
    struct sim_slab *s = calloc(1, sizeof *s);
    s->cpu = sim_view_alloc(&s->view, SIM_PAGE);
    if (s->cpu)
        return s;
    free(s);
    return NULL;
}

static void slab_end(struct sim_slab *s)
{
    sim_munmap(s->cpu, SIM_PAGE);
    sim_view_close(&s->view);
    free(s);
}

void *sim_slab_take(size_t size, struct sim_slab **slab, char **alias)
{
    size_t unit = unit_of(size, (size_t)sysconf(_SC_PAGESIZE));
    size_t at = filling ? round_up(filling->at, unit) : 0;
    if (!filling || SIM_PAGE - at < size) {
        struct sim_slab *fresh = slab_new();
        if (!fresh)
            return NULL;
        if (filling && filling->blocks == 0)
            slab_end(filling);
        filling = fresh;
        at = 0;
    }
    filling->at = at + round_up(size, unit);
    filling->blocks++;
    *slab = filling;
    *alias = filling->view.alias + at;
    return filling->cpu + at;
}

/* The next block finds zeroes, and the CPU's pages where the program has put others. */
static void renew(struct sim_slab *s, size_t at, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = round_up(size, unit_of(size, page));
    if (size < page) {
        memset(s->view.alias + at, 0, bytes);
        return;
    }
    sim_madvise(s->view.alias + at, bytes, MADV_REMOVE);
    if (sim_mremap(s->view.alias + at, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, s->cpu + at) ==
        MAP_FAILED)
        abort();
}

void sim_slab_give(struct sim_slab *s, void *block, size_t size)
{
    size_t at = (size_t)((char *)block - s->cpu);
    size_t bytes = round_up(size, unit_of(size, (size_t)sysconf(_SC_PAGESIZE)));
    s->blocks--;
    if (s->blocks == 0 && s != filling) {
        slab_end(s);
        return;
    }
    renew(s, at, size);
    if (s->blocks == 0)
        s->at = 0;
    else if (at + bytes == s->at)
        s->at = at;
}

CUdeviceptr sim_slab_base(const struct sim_slab *slab)
{
    return (CUdeviceptr)(uintptr_t)slab->cpu;
}
