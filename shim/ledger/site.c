/* SPDX-License-Identifier: MIT */
/* The table of sites in the counters file, and their counts. */
#include "ledger/site.h"

#include <string.h>

#include "base/arena.h"
#include "base/own.h"

/* The last sites of the table stand for one module each: calls that find no other site keep the
 * module, which rules may need. */
#define MODULES 32u

static ZC_OWN struct {
    uint32_t key[ZC_COUNTERS_SITES]; /* By index: FNV-1a of all frames and Python functions.  With
                                      * zc_counters_lock(). */
    struct zc_python_path *python[ZC_COUNTERS_SITES]; /* By index.  Atomic. */
    int16_t rule[ZC_COUNTERS_SITES];                  /* By index: of the last request, + 1. */
    uint64_t met[(ZC_COUNTERS_SITES + 63) / 64];      /* Bits for zc_site_is_new().  Atomic. */
} sites;

static uint32_t fnv(uint32_t hash, const void *bytes, size_t n)
{
    const uint8_t *byte = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash;
}

/* FNV-1a over each frame's module, '+' and offset (eight bytes, lowest first); 0 means none. */
static uint32_t id_of_frames(const struct zc_frame *frames, unsigned n)
{
    uint32_t hash = 2166136261u;
    for (unsigned i = 0; i < n; i++) {
        hash = fnv(hash, frames[i].module, strlen(frames[i].module));
        hash = fnv(hash, "+", 1);
        hash = fnv(hash, &frames[i].offset, sizeof(frames[i].offset));
    }
    return hash != 0 ? hash : 1;
}

uint32_t zc_site_count(void)
{
    uint32_t count = __atomic_load_n(&zc_counters()->next_site, __ATOMIC_ACQUIRE);
    return count > 0 ? count : 1;
}

/* The id of the frames, and of the lines, functions and files before them. */
static uint32_t id_with(uint32_t id, const struct zc_python_path *path)
{
    for (uint32_t i = 0; i < path->n; i++) {
        const struct zc_python_frame *f = &path->frame[i];
        id = fnv(id, &f->line, sizeof(f->line));
        id = fnv(id, f->function, strlen(f->function) + 1);
        id = fnv(id, f->file, strlen(f->file) + 1);
    }
    return id != 0 ? id : 1;
}

/* Adds a site; 0 if there are `limit` already. */
static uint32_t site_new(uint32_t key, uint32_t id, const struct zc_frame *frames, unsigned n,
                         uint32_t limit)
{
    uint32_t index = zc_site_count();
    if (index >= limit)
        return 0;
    struct zc_site *site = &zc_counters()->site[index];
    sites.key[index] = key;
    memcpy(site->frame, frames, n * sizeof(*frames));
    site->nframes = n;
    site->id = id;
    __atomic_store_n(&zc_counters()->next_site, index + 1, __ATOMIC_RELEASE);
    return index;
}

/* A site that it makes takes `*path`, which becomes NULL. */
static uint32_t find_or_make(const struct zc_frame *frames, unsigned n, uint32_t limit,
                             struct zc_python_path **path)
{
    uint32_t id = id_of_frames(frames, n), key = id, index;
    if (*path != NULL) {
        (*path)->native = id;
        key = id_with(id, *path);
        id = id_with(id_of_frames(frames, (*path)->before), *path);
    }
    for (index = 1; index < zc_site_count(); index++)
        if (sites.key[index] == key)
            return index;
    index = site_new(key, id, frames, n, limit);
    if (index != 0) {
        __atomic_store_n(&sites.python[index], *path, __ATOMIC_RELEASE);
        *path = NULL;
    }
    return index;
}

static uint32_t rest_of_module(const struct zc_frame *first)
{
    struct zc_frame rest = *first;
    struct zc_python_path *none = NULL;
    rest.offset = 0;
    return find_or_make(&rest, 1, ZC_COUNTERS_SITES, &none);
}

uint32_t zc_site_intern(const struct zc_frame *frames, unsigned n, struct zc_python_path *path)
{
    uint32_t index = 0;
    if (n > 0 && zc_counters_lock()) {
        index = find_or_make(frames, n, ZC_COUNTERS_SITES - MODULES, &path);
        if (index == 0)
            index = rest_of_module(frames);
        zc_counters_unlock();
    }
    zc_arena_put(path, sizeof(*path));
    return index;
}

const struct zc_python_path *zc_site_python(uint32_t index)
{
    return __atomic_load_n(&sites.python[index < ZC_COUNTERS_SITES ? index : 0], __ATOMIC_ACQUIRE);
}

uint32_t zc_site_native(uint32_t index)
{
    const struct zc_python_path *path = zc_site_python(index);
    return path != NULL ? path->native : zc_site_id(index);
}

const struct zc_site *zc_site_get(uint32_t index)
{
    return &zc_counters()->site[index < zc_site_count() ? index : 0];
}

uint32_t zc_site_id(uint32_t index)
{
    return zc_site_get(index)->id;
}

const char *zc_site_module(uint32_t index)
{
    const struct zc_site *site = zc_site_get(index);
    return site->nframes > 0 ? site->frame[0].module : "?";
}

static struct zc_site *site_at(uint32_t index)
{
    return &zc_counters()->site[index < ZC_COUNTERS_SITES ? index : 0];
}

int zc_site_rule(uint32_t index)
{
    return sites.rule[index < ZC_COUNTERS_SITES ? index : 0] - 1;
}

void zc_site_note_request(uint32_t index, uint64_t bytes, int rule)
{
    sites.rule[index < ZC_COUNTERS_SITES ? index : 0] = (int16_t)(rule + 1);
    struct zc_site *site = site_at(index);
    __atomic_store_n(&site->requests, site->requests + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&site->requested_bytes, site->requested_bytes + bytes, __ATOMIC_RELAXED);
}

void zc_site_note_free(uint32_t index)
{
    __atomic_fetch_add(&site_at(index)->frees, 1, __ATOMIC_RELAXED);
}

struct zc_cell *zc_site_total(uint32_t index, enum zc_dir dir)
{
    return &site_at(index)->total[dir];
}

bool zc_site_is_new(uint32_t index)
{
    uint64_t bit = 1ull << index % 64;
    if (index == 0 || index >= ZC_COUNTERS_SITES)
        return false;
    /* Read first, because this is asked at each request. */
    if (__atomic_load_n(&sites.met[index / 64], __ATOMIC_RELAXED) & bit)
        return false;
    return !(__atomic_fetch_or(&sites.met[index / 64], bit, __ATOMIC_RELAXED) & bit);
}
