/* SPDX-License-Identifier: MIT */
/* First-fit allocator of ranges. Low addresses are reused at once, as the real driver reuses them.
 */
#include "range.h"
#include <stdlib.h>
#include <string.h>

static void extent_insert(struct sim_ranges *r, size_t at, uint64_t start, uint64_t size)
{
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->free = realloc(r->free, r->capacity * sizeof *r->free);
    }
    memmove(r->free + at + 1, r->free + at, (r->count - at) * sizeof *r->free);
    r->free[at] = (struct sim_extent){start, size};
    r->count++;
}

static void extent_remove(struct sim_ranges *r, size_t at)
{
    r->count--;
    memmove(r->free + at, r->free + at + 1, (r->count - at) * sizeof *r->free);
}

/* Index of the first extent that starts after `start`. */
static size_t extent_after(const struct sim_ranges *r, uint64_t start)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (r->free[mid].start <= start)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void sim_ranges_give(struct sim_ranges *r, uint64_t start, uint64_t size)
{
    size_t at = extent_after(r, start);
    bool left = at > 0 && r->free[at - 1].start + r->free[at - 1].size == start;
    bool right = at < r->count && start + size == r->free[at].start;
    if (left && right) {
        r->free[at - 1].size += size + r->free[at].size;
        extent_remove(r, at);
    } else if (left) {
        r->free[at - 1].size += size;
    } else if (right) {
        r->free[at].start = start;
        r->free[at].size += size;
    } else {
        extent_insert(r, at, start, size);
    }
}

/* Cuts [start, start+size) out of extent `at`, which contains it. */
static void extent_cut(struct sim_ranges *r, size_t at, uint64_t start, uint64_t size)
{
    struct sim_extent e = r->free[at];
    uint64_t end = start + size, old_end = e.start + e.size;
    if (e.start == start && old_end == end) {
        extent_remove(r, at);
    } else if (e.start == start) {
        r->free[at] = (struct sim_extent){end, old_end - end};
    } else {
        r->free[at].size = start - e.start;
        if (old_end != end)
            extent_insert(r, at + 1, end, old_end - end);
    }
}

bool sim_ranges_take(struct sim_ranges *r, uint64_t size, uint64_t alignment, uint64_t *start)
{
    for (size_t i = 0; i < r->count; i++) {
        uint64_t at = (r->free[i].start + alignment - 1) & ~(alignment - 1);
        uint64_t skip = at - r->free[i].start;
        if (skip > r->free[i].size || r->free[i].size - skip < size)
            continue;
        extent_cut(r, i, at, size);
        *start = at;
        return true;
    }
    return false;
}

bool sim_ranges_take_at(struct sim_ranges *r, uint64_t start, uint64_t size)
{
    size_t at = extent_after(r, start);
    if (at == 0)
        return false;
    struct sim_extent e = r->free[at - 1];
    if (start - e.start > e.size || e.size - (start - e.start) < size)
        return false;
    extent_cut(r, at - 1, start, size);
    return true;
}
