/* SPDX-License-Identifier: MIT */
/* First-fit allocator of address or offset ranges; it owns no memory that it hands out. */
#ifndef SIM_RANGE_H
#define SIM_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One free extent. */
struct sim_extent {
    uint64_t start; /* first address or offset */
    uint64_t size;  /* bytes */
};

/* The free extents of a span, sorted, never adjacent. Guarded by sim_lock. */
struct sim_ranges {
    struct sim_extent *free; /* owned array */
    size_t count;            /* extents in use */
    size_t capacity;         /* extents allocated */
};

/* Makes [start, start+size) free; used for set-up and for giving back what sim_ranges_take gave. */
void sim_ranges_give(struct sim_ranges *r, uint64_t start, uint64_t size);

/* The lowest free range of `size` bytes at a multiple of `alignment` (a power of two), or false. */
bool sim_ranges_take(struct sim_ranges *r, uint64_t size, uint64_t alignment, uint64_t *start);

/* Takes exactly [start, start+size); false where a part of it is not free. */
bool sim_ranges_take_at(struct sim_ranges *r, uint64_t start, uint64_t size);

#endif
