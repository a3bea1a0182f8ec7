/* SPDX-License-Identifier: MIT */
/* uthash's doubly linked lists, from which a member is removed without a walk; and the choice of a
 * list by size. */
#ifndef ZC_BASE_LIST_H
#define ZC_BASE_LIST_H

#ifndef NDEBUG
#define NDEBUG /* A failed assert would end the program. */
#endif
#include <stddef.h>
#include <stdint.h>
#include <utlist.h>

#define ZC_LISTS 64u

/* Which of ZC_LISTS lists holds memory of a size.  Equal sizes share one, others mostly do not. */
static inline unsigned zc_list_of(size_t size)
{
    return (uint32_t)(size / 512) * 2654435769u / (UINT32_MAX / ZC_LISTS + 1);
}

#endif
