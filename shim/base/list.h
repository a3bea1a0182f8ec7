/* SPDX-License-Identifier: MIT */
/* uthash's tables, in libzc's arena, and its doubly linked lists, from which a member is removed
 * without a walk. */
#pragma once

#ifndef NDEBUG
#define NDEBUG /* A failed assert would end the program. */
#endif
#include "base/arena.h"

/* Without memory for an entry the table is unchanged. */
#define uthash_malloc(bytes) zc_arena_get(bytes)
#define uthash_free(memory, bytes) zc_arena_put(memory, bytes)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>
