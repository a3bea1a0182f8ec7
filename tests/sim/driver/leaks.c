/* SPDX-License-Identifier: MIT */
/* Live objects, by class: sim_leaks, and SIM_LEAKS, the file that gets "class count" lines at
 * exit. */
#include "../sim.h"
#include "array.h"
#include "event.h"
#include "graph.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"
#include "vmm.h"
#include <stdio.h>
#include <stdlib.h>

static size_t blocks(enum sim_kind kind)
{
    struct sim_block *b;
    size_t n = 0;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++)
        n += b->kind == kind && !b->dormant;
    return n;
}

static size_t streams(void)
{
    size_t n = 0;
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        for (struct sim_stream *s = c->streams; s; s = s->next)
            n += !s->builtin && !s->destroyed;
    return n;
}

static size_t live(enum sim_leak_class which)
{
    switch (which) {
    case SIM_LEAK_DEVICE:
        return blocks(SIM_DEVICE);
    case SIM_LEAK_POOLED:
        return blocks(SIM_POOLED);
    case SIM_LEAK_HOST:
        return blocks(SIM_HOST);
    case SIM_LEAK_REGISTERED:
        return blocks(SIM_REGISTERED);
    case SIM_LEAK_MANAGED:
        return blocks(SIM_MANAGED);
    case SIM_LEAK_MAPPING:
        return blocks(SIM_VMM);
    case SIM_LEAK_RESERVATION:
        return sim_reservations_count();
    case SIM_LEAK_HANDLE:
        return sim_handles_count();
    case SIM_LEAK_ARRAY:
        return sim_arrays_count();
    case SIM_LEAK_POOL:
        return sim_pools_count();
    case SIM_LEAK_STREAM:
        return streams();
    case SIM_LEAK_EVENT:
        return sim_events_count();
    case SIM_LEAK_GRAPH:
        return sim_graphs_count();
    case SIM_LEAK_CLASSES:
        break;
    }
    size_t n = 0;
    for (int c = 0; c < SIM_LEAK_CLASSES; c++)
        n += live((enum sim_leak_class)c);
    return n;
}

SIM_EXPORT size_t sim_leaks(enum sim_leak_class which)
{
    sim_relock();
    size_t n = live(which);
    sim_unlock();
    return n;
}

/* Called at exit, when a worker may still hold the lock: it is not waited for. */
void sim_leaks_write(void)
{
    static const char *const names[SIM_LEAK_CLASSES] = {
        "device", "pooled", "host", "registered", "managed", "reservation", "mapping",
        "handle", "array",  "pool", "stream",     "event",   "graph"};
    const char *path = getenv("SIM_LEAKS");
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (int c = 0; c < SIM_LEAK_CLASSES; c++)
        if (live((enum sim_leak_class)c))
            fprintf(file, "%s %zu\n", names[c], live((enum sim_leak_class)c));
    fclose(file);
}
