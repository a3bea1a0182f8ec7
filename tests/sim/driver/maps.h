/* SPDX-License-Identifier: MIT */
/* The process's mappings, as /proc/self/maps tells them. */
#ifndef SIM_MAPS_H
#define SIM_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping, or the part of it that lies in the range that was asked for. */
struct sim_mapping {
    uintptr_t start; /* first address */
    uintptr_t end;   /* behind the last */
    int rights;      /* PROT_* of the CPU */
    bool shared;     /* MAP_SHARED */
    uint64_t file;   /* its inode, 0 for none; shared anonymous memory has one; */
    uint64_t device; /* which is a number of this file system's (makedev) */
    uint64_t offset; /* of the first address in the file */
    bool view;       /* pages of a view (view.h), by the name of its file, */
    bool allocated;  /* which the driver made */
};

/* A list of mappings in the order of their addresses. */
struct sim_maps {
    struct sim_mapping *items; /* owned */
    size_t count;              /* how many */
    size_t bytes;              /* mapped for items */
};

/* The names that files of views have in /proc/self/maps behind "/memfd:". */
#define SIM_VIEW_NAME "sim-registered"
#define SIM_ALLOCATED_NAME "sim-allocated"

/* Lists the mappings in [from, to), cut to it. Costs as much as the process has mappings. Uses no
 * malloc, so that a forked child may call it. False where the kernel has no memory or no /proc. */
bool sim_maps_read(struct sim_maps *out, uintptr_t from, uintptr_t to);

/* The same, but for `view` and `allocated`, at the cost of the mappings in the range, where the
 * kernel can be asked for them (Linux 6.11). */
bool sim_maps_ask(struct sim_maps *out, uintptr_t from, uintptr_t to);

/* Whether two mappings are of one file. */
bool sim_maps_same_file(const struct sim_mapping *a, const struct sim_mapping *b);

void sim_maps_free(struct sim_maps *maps);

#endif
