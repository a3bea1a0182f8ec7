/* Where the bytes of the two sides of a pair are: questions to the states of its pages. */
#include "host/hostheap.h"
#include "shared/coherence.h"
#include "shared/view.h"

/*
 * Parting a page and merging it again takes about as long as the CPU's threads need to copy eight:
 * each page may part once, and every further time must have been earned by copies that were not
 * necessary.
 */
#define PARTING_COSTS 8u

uintptr_t zc_coherent_alias(const struct zc_coherent *c, uint64_t offset, uint64_t high,
                            uint64_t *end_out)
{
    uint64_t page = offset >> ZC_HOST_UNIT_SHIFT, end = page + 1;
    bool there = zc_coherent_shadowed(c->state[page]);
    while (end < c->pages && end << ZC_HOST_UNIT_SHIFT < high &&
           zc_coherent_shadowed(c->state[end]) == there)
        end++;
    end <<= ZC_HOST_UNIT_SHIFT;
    *end_out = end < high ? end : high;
    return c->base + offset + (there ? zc_view_shadow : 0);
}

bool zc_coherent_one_view(const struct zc_coherent *c, uint64_t low, uint64_t high)
{
    uint64_t page = low >> ZC_HOST_UNIT_SHIFT;
    for (; page < c->pages && page << ZC_HOST_UNIT_SHIFT < high; page++)
        if (c->state[page] != ZC_PAGE_ALONE && c->state[page] != ZC_PAGE_SAME)
            return false;
    return true;
}

bool zc_coherent_cooling(const struct zc_coherent *c)
{
    return !c->cold && c->parted * PARTING_COSTS > c->elided + (uint64_t)c->pages * PARTING_COSTS;
}
