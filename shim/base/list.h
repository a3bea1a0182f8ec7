/* SPDX-License-Identifier: MIT */
/* uthash's doubly linked lists: a member is taken out without a walk.  Which of several holds
 * memory of a size. */
#ifndef ZC_BASE_LIST_H
#define ZC_BASE_LIST_H

#ifndef NDEBUG
#define NDEBUG /* Its asserts would end the program. */
#endif
#include <stddef.h>
#include <stdint.h>
#include <utlist.h>

#define ZC_LISTS 64u

/* The list of ZC_LISTS for memory of a size: equal sizes have one, others mostly another. */
static inline unsigned zc_list_of(size_t size)
{
    return (uint32_t)(size / 512) * 2654435769u / (UINT32_MAX / ZC_LISTS + 1);
}

#endif
