/* SPDX-License-Identifier: MIT */
/* Copies between a host block and a device block on the same pages: see the header. */
#include "shared/coherence.h"

#include "base/memory.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "memory/workers.h"

/* Several threads copy a range faster than one its pieces: 64 MiB in 16,384 single pages took 17.8
 * ms, all 256 MiB around them 7.6 (one H100, 16 threads). */
#define NEAR ((uint64_t)32 << 10)

/* A copy of [low, high), in bytes from both sides' beginnings. */
struct work {
    struct zc_extent *h;
    uintptr_t host, device;
    uint64_t low, high;
    uint64_t from, to; /* The part of the runs so far that is left to copy. */
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

/* A child that was made after the kernel was asked for the pages has them of its own; one that was
 * made before shows G. */
static void copy_left(struct work *w)
{
    void *h = (void *)(w->host + w->from), *d = (void *)(w->device + w->from);
    uint64_t bytes = w->to - w->from;
    w->stuck = w->stuck || (w->in && bytes && !zc_memfile_shareable(w->h));
    if (w->stuck)
        return;
    zc_workers_copy(w->in ? d : h, w->in ? h : d, bytes);
    w->copied += bytes;
}

/* Pages in between that both sides show become no others by a copy to the device; one to the host
 * would part them. */
static void copy_run(uintptr_t from, uintptr_t to, void *arg)
{
    struct work *w = arg;
    uint64_t low = from > w->host + w->low ? from - w->host : w->low;
    uint64_t high = to < w->host + w->high ? to - w->host : w->high;
    if (w->from == w->to || low - w->to > (w->in ? NEAR : 0)) {
        copy_left(w);
        w->from = low;
    }
    w->to = high;
}

bool zc_coherent_copy(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high, bool in,
                      struct zc_moved *moved)
{
    struct work w = {
        .h = h, .host = zc_extent_base(h), .device = d, .low = low, .high = high, .in = in};
    if (in && !zc_memfile_make_private(h, high))
        return false;
    on_apart(h, low, high, copy_run, &w);
    copy_left(&w);
    *moved = (struct zc_moved){.elided = high - low - w.copied, .copied = w.copied};
    h->elided += moved->elided;
    h->cpu_copied += moved->copied;
    return !w.stuck;
}

static void coherent_note(uintptr_t from, uintptr_t to, void *arg)
{
    *(bool *)arg = from < to;
}

bool zc_coherent_differs(const struct zc_extent *h, uint64_t low, uint64_t high)
{
    bool differs = false;
    on_apart((struct zc_extent *)h, low, high, coherent_note, &differs);
    return differs;
}

/*
 * A byte that the CPU copies takes as long as 1.6 over the link with 16 threads, and 16 with one
 * (one H200: 256 MiB in 7.6 and 80 ms, against 5); and to give the block memory of its own costs as
 * much as copying it twice, and a little.  So the change comes when about as much was lost.
 */
#define COPY_COSTS 6u
#define CHANGE_COPIES 2u
#define CHANGE_BYTES (UINT64_C(32) << 20)

bool zc_coherent_unprofitable(const struct zc_extent *h)
{
    uint64_t over_link = h->elided + h->cpu_copied;
    return h->cpu_copied * COPY_COSTS >
           over_link + CHANGE_COPIES * zc_extent_span(h) + CHANGE_BYTES;
}
