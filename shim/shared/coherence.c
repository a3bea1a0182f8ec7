/* SPDX-License-Identifier: MIT */
/* Copies between a host block and a device block on the same pages: see the header. */
#include "shared/coherence.h"

#include "base/memory.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "memory/workers.h"

/* A copy of [low, high), in bytes from both sides' beginnings. */
struct work {
    struct zc_extent *h;
    uintptr_t host, device;
    uint64_t low, high;
    uint64_t copied;
    bool in;    /* To the device. */
    bool stuck; /* Something may not be written. */
};

static void on_apart(struct zc_extent *h, uint64_t low, uint64_t high,
                     void (*visit)(uintptr_t from, uintptr_t to, void *arg), void *arg)
{
    uintptr_t base = zc_extent_base(h);
    zc_pagemap_each(zc_page_start(base + low), zc_page_end(base + high), visit, arg);
}

/* A child that was made after the kernel was asked for the page has it of its own.  One that was
 * made before shows G. */
static bool may_write(const struct work *w)
{
    return !w->in || zc_memfile_shareable(w->h);
}

static void copy_run(uintptr_t from, uintptr_t to, void *arg)
{
    struct work *w = arg;
    uint64_t low = from > w->host + w->low ? from - w->host : w->low;
    uint64_t high = to < w->host + w->high ? to - w->host : w->high;
    void *h = (void *)(w->host + low), *d = (void *)(w->device + low);
    w->stuck = w->stuck || !may_write(w);
    if (w->stuck)
        return;
    zc_workers_copy(w->in ? d : h, w->in ? h : d, high - low);
    w->copied += high - low;
}

static bool copy(struct work *w, struct zc_moved *moved)
{
    w->host = zc_extent_base(w->h);
    on_apart(w->h, w->low, w->high, copy_run, w);
    moved->copied += w->copied;
    moved->elided += w->high - w->low - w->copied;
    return !w->stuck;
}

bool zc_coherent_to_device(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high,
                           struct zc_moved *moved)
{
    struct work w = {.h = h, .device = d, .low = low, .high = high, .in = true};
    return zc_memfile_part(h, high) && copy(&w, moved);
}

void zc_coherent_to_host(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high,
                         struct zc_moved *moved)
{
    struct work w = {.h = h, .device = d, .low = low, .high = high};
    copy(&w, moved);
}

static void note(uintptr_t from, uintptr_t to, void *arg)
{
    *(bool *)arg = from < to;
}

bool zc_coherent_differs(const struct zc_extent *h, uint64_t low, uint64_t high)
{
    bool differs = false;
    on_apart((struct zc_extent *)h, low, high, note, &differs);
    return differs;
}

/*
 * A byte that the CPU copies takes as long as 1.6 over the link with 16 threads, and 16 with one
 * (one H200: 256 MiB in 7.6 and 80 ms, against 5); and to give the block memory of its own costs as
 * much as copying it twice, and a little.  So the change comes when about as much was lost.
 */
#define COPY_COSTS 4u
#define CHANGE_COPIES 2u
#define CHANGE_BYTES (UINT64_C(32) << 20)

bool zc_coherent_cooling(const struct zc_extent *h)
{
    uint64_t over_link = h->elided + h->parted;
    return h->parted * COPY_COSTS > over_link + CHANGE_COPIES * zc_extent_span(h) + CHANGE_BYTES;
}
