/* SPDX-License-Identifier: MIT */
/* The largest block that a rule would place, from what there is room for. */
#pragma once

#include "policy/policy.h"

/* Memory that is left. */
struct zc_room {
    uint64_t device;  /* Of the device's memory. */
    uint64_t limit;   /* Of max_device. */
    uint64_t budget;  /* Of the rule's budget. */
    uint64_t managed; /* Of max_managed. */
    uint64_t pinned;  /* Of max_pinned. */
};

/* Bytes of the least block that may be in host memory at its addresses; UINT64_MAX where none
 * may. */
uint64_t zc_room_least(const struct zc_rule *rule);

/* Bytes that limits and the device leave for a block that comes to it, beside what was promised and
 * what kernels need themselves; with the rule's budget if `counted`. */
uint64_t zc_room_left(const struct zc_rule *rule, int device, bool counted);

/* Before the program's own request for memory of the current device: makes room for it.  False if
 * the device has none beside what libzc holds in managed memory.  `anywhere`: it may be another
 * device's. */
bool zc_room_for_bare(int device, size_t bytes, bool anywhere);

/* The room on a device that has so much free, but for the rule's budget. */
struct zc_room zc_room_now(int device, uint64_t free);

/* Bytes requested from a device that are managed or have no memory yet; and with `mapped` those in
 * host memory. */
uint64_t zc_room_lacking(int device, bool mapped);

/* Without a rule (NULL), the program's own call. */
uint64_t zc_room_largest(const struct zc_rule *rule, const struct zc_room *room);
