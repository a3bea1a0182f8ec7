/* SPDX-License-Identifier: MIT */
/* Counts of executed copies and sets, by kind as CUPTI's activity records name them. SIM_COPIES
 * names the file that gets, at exit, a line "copyKind srcKind dstKind count bytes" each; sets have
 * copyKind Memset and srcKind "-". */
#include "copy.h"
#include <stdio.h>
#include <stdlib.h>

/* One kind of transfer. */
struct tally {
    uint64_t count; /* operations */
    uint64_t bytes; /* bytes moved or set */
};

static const char *const names[SIM_TRAFFIC_KINDS] = {"Pageable", "Pinned", "Device", "Array",
                                                     "Managed"};
static const char letters[SIM_TRAFFIC_KINDS] = {'H', 'H', 'D', 'A', 'D'};
static struct tally copies[2][SIM_TRAFFIC_KINDS]
                          [SIM_TRAFFIC_KINDS]; /* [between devices][source][target] */
static struct tally sets[SIM_TRAFFIC_KINDS];

/* Bytes between a device and the host. */
static uint64_t link_bytes[SIM_MAX_DEVICES];

SIM_EXPORT unsigned long long sim_link_bytes(int device)
{
    sim_relock();
    unsigned long long bytes = link_bytes[device];
    sim_unlock();
    return bytes;
}

static void add(struct tally *t, uint64_t bytes)
{
    t->count++;
    t->bytes += bytes;
}

/* The device whose stream a copy is in makes it, over its own link. */
void sim_traffic_copy(const struct sim_place *src, const struct sim_place *dst, int device,
                      uint64_t bytes)
{
    /* CUPTI counts managed memory of two devices as it counts their own memory (H200). */
    bool peer =
        letters[src->kind] == 'D' && letters[dst->kind] == 'D' && src->device != dst->device;
    add(&copies[peer][src->kind][dst->kind], bytes);
    if ((letters[src->kind] == 'H') != (letters[dst->kind] == 'H') && device >= 0)
        link_bytes[device] += bytes;
}

void sim_traffic_set(const struct sim_place *dst, uint64_t bytes)
{
    add(&sets[dst->kind], bytes);
}

static void write_copies(FILE *file, int peer)
{
    for (int s = 0; s < SIM_TRAFFIC_KINDS; s++)
        for (int d = 0; d < SIM_TRAFFIC_KINDS; d++) {
            const struct tally *t = &copies[peer][s][d];
            char kind[] = {letters[s], 't', 'o', letters[d], 0};
            if (t->count)
                fprintf(file, "%s %s %s %llu %llu\n", peer ? "PtoP" : kind, names[s], names[d],
                        (unsigned long long)t->count, (unsigned long long)t->bytes);
        }
}

void sim_traffic_write(void)
{
    const char *path = getenv("SIM_COPIES");
    FILE *file = path && *path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    write_copies(file, 0);
    write_copies(file, 1);
    for (int d = 0; d < SIM_TRAFFIC_KINDS; d++)
        if (sets[d].count)
            fprintf(file, "Memset - %s %llu %llu\n", names[d], (unsigned long long)sets[d].count,
                    (unsigned long long)sets[d].bytes);
    fclose(file);
}
