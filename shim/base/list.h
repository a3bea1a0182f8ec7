/* SPDX-License-Identifier: MIT */
/* uthash's tables, in libzc's arena, and its doubly linked lists, from which a member is removed
 * without a walk; and the choice of a list by size. */
#pragma once

#ifndef NDEBUG
#define NDEBUG /* A failed assert would end the program. */
#endif
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Without memory for an entry the table is unchanged. */
#define uthash_malloc(bytes) zc_arena_get(bytes)
#define uthash_free(memory, bytes) zc_arena_put(memory, bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#define ZC_LISTS 64u

/* Which of ZC_LISTS lists holds memory of a size.  Equal sizes share one, others mostly do not. */
static inline unsigned zc_list_of(size_t size)
{
    return (uint32_t)(size / 512) * 2654435769u / (UINT32_MAX / ZC_LISTS + 1);
}
