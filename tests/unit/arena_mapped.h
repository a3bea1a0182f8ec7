/* SPDX-License-Identifier: MIT */
/* The arena, and the bytes that it has mapped. */
#pragma once

#include "../../shim/base/arena.c"

static inline size_t arena_mapped(void)
{
    size_t bytes = 0;
    for (const struct mapping *m = arena.mappings; m; m = m->next)
        bytes += m->bytes;
    return bytes;
}
