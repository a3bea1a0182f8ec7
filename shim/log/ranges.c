/* SPDX-License-Identifier: MIT */
/* The ranges that the program's threads are in: a list for each thread, innermost first. */
#include "log/ranges.h"

#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/module.h"
#include "base/text.h"

/* Most ranges of a thread.  Some programs never end theirs. */
#define DEPTH_MAX 1024

struct range {
    struct range *outer;
    const char *domain;
    uint32_t depth; /* From 1. */
    uint32_t bytes; /* Of all of it. */
    char name[];    /* Terminated. */
};

static __thread struct {
    struct range *innermost;
    uint32_t lost; /* Ranges that began, inside of those of the list, while there was no memory or
                    * were too many. */
} mine __attribute__((tls_model("initial-exec")));

/* PyTorch's emit_nvtx() numbers its operations, so that no two would be one range. */
static size_t without_number(const char *name)
{
    static const char *const numbers[] = {", seq = ", ", op_id = "};
    size_t length = strlen(name);
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const char *at = strstr(name, numbers[i]);
        if (at && (size_t)(at - name) < length)
            length = (size_t)(at - name);
    }
    return length;
}

static int range_level(const char *domain)
{
    int count = 0;
    for (const struct range *range = mine.innermost; range; range = range->outer)
        count += range->domain == domain;
    return count;
}

/* Puts the whole name of a range into `whole`; its length. */
static size_t put_name(char whole[ZC_RANGE_NAME], const char *domain, const char *name)
{
    struct zc_text text = zc_text_on(whole, ZC_RANGE_NAME);
    if (domain)
        zc_text_fmt(&text, "%s: ", domain);
    zc_text_fmt(&text, "%s", name && *name ? name : "?");
    return without_number(zc_text_cstr(&text));
}

int zc_ranges_push(const char *domain, const char *name)
{
    char whole[ZC_RANGE_NAME];
    size_t length = put_name(whole, domain, name), bytes = sizeof(struct range) + length + 1;
    uint32_t depth = mine.innermost ? mine.innermost->depth + 1 : 1;
    struct range *range = mine.lost || depth > DEPTH_MAX ? NULL : zc_arena_get(bytes);
    if (!range) {
        mine.lost++;
        return -1;
    }
    range->depth = depth;
    range->bytes = (uint32_t)bytes;
    range->domain = domain;
    memcpy(range->name, whole, length);
    int now = range_level(domain);
    range->outer = mine.innermost;
    mine.innermost = range;
    return now;
}

int zc_ranges_pop(const char *domain)
{
    if (mine.lost) {
        mine.lost--;
        return -1;
    }
    struct range **at = &mine.innermost, *range;
    while (*at && (*at)->domain != domain)
        at = &(*at)->outer;
    range = *at;
    if (!range)
        return -1;
    *at = range->outer;
    zc_arena_put(range, range->bytes);
    return range_level(domain);
}

const char *zc_ranges_here(void)
{
    return mine.innermost ? mine.innermost->name : NULL;
}

/* The arena has forgotten them. */
static void ranges_child(void)
{
    mine.innermost = NULL;
    mine.lost = 0;
}

const struct zc_module zc_module_ranges = {.child = ranges_child};
