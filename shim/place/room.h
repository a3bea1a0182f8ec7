/* SPDX-License-Identifier: MIT */
/* The room that devices have for blocks. */
#pragma once

#include "policy/policy.h"

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

/* Bytes requested from a device that are managed, in host memory, or have no memory yet. */
uint64_t zc_room_lacking(int device);
