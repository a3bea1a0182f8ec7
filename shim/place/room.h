/* SPDX-License-Identifier: MIT */
/* The largest block that a rule would place, from what there is room for. */
#pragma once

#include "policy/policy.h"

/* Memory that is left. */
struct zc_room {
    uint64_t device;  /* Of the device's memory. */
    uint64_t spare;   /* Its part that a block leaves which is split because the device is full. */
    uint64_t limit;   /* Of max_device. */
    uint64_t budget;  /* Of the rule's budget. */
    uint64_t managed; /* Of max_managed. */
    uint64_t pinned;  /* Of max_pinned. */
    uint64_t whole;   /* Most bytes of a block that moves: zc_room_whole(). */
};

/* Bytes of each part of a block that may be split. */
uint64_t zc_room_part(const struct zc_rule *rule);

/* Most bytes of a block that moves: larger ones are split.  0 where no request of a rule moves. */
uint64_t zc_room_whole(const struct zc_rule *rule, int device);

/* Bytes that the limits leave for a block on a device, with the rule's budget if `counted`; and
 * with `full` no more than the device has free, beside what it leaves and what was promised. */
uint64_t zc_room_left(const struct zc_rule *rule, int device, bool counted, bool full);

/* Before the program's own request for memory of the current device: makes room for it.  False if
 * the device has none beside what libzc holds in managed memory.  `anywhere`: it may be another
 * device's. */
bool zc_room_for_bare(int device, size_t bytes, bool anywhere);

/* The room on a device that has so much free of all its memory, but for a rule's fields. */
struct zc_room zc_room_now(int device, uint64_t free, uint64_t total);

/* Bytes requested from a device that are managed or have no memory yet; and with `mapped` those in
 * host memory. */
uint64_t zc_room_lacking(int device, bool mapped);

/* Without a rule (NULL), the program's own call. */
uint64_t zc_room_largest(const struct zc_rule *rule, const struct zc_room *room);
