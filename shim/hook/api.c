/* SPDX-License-Identifier: MIT */
/* The functions of zc.h. */
#include "include/zc.h"

#include <string.h>

#include "base/life.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/ranges.h"
#include "place/verbs.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int zc_lib_push(const char *name)
{
    return zc_ranges_push(NULL, name);
}

EXPORT int zc_lib_pop(void)
{
    return zc_ranges_pop(NULL);
}

/* `bytes` is what the program's zc.h knows of the structure, whose fields are only ever added. */
EXPORT int zc_lib_query(const void *address, struct zc_memory *memory, size_t bytes)
{
    const struct zc_block *block = zc_life_on() ? zc_block_find((uintptr_t)address) : NULL;
    if (!block || (block->flags & ZC_BLOCK_QUARANTINED))
        return 0;
    const struct zc_memory known = {
        .address = block->base,
        .bytes = block->size,
        .device_bytes = zc_place_on_device(block),
        .request = zc_api_name((enum zc_api)block->api),
        .place = zc_place_name((enum zc_place_id)block->place),
        .kind = zc_kind_name((enum zc_kind)block->real),
        .rule = block->rule >= 0 ? zc_rules()->rules[block->rule].name : NULL,
        .site = zc_site_id(block->site),
        .device = block->device,
    };
    memcpy(memory, &known, bytes < sizeof(known) ? bytes : sizeof(known));
    return 1;
}
