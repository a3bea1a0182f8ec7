/* SPDX-License-Identifier: MIT */
/* Room for blocks: on a device, and beside what it was asked for. */
#pragma once

#include "policy/policy.h"

/* Bytes of the least block that may be in host memory at its addresses; UINT64_MAX where none
 * may. */
uint64_t zc_room_least(const struct zc_rule *rule);

/* Bytes that limits and the device leave for a block that comes to it, beside what was promised and
 * what kernels need themselves; with the rule's budget if `counted`. */
uint64_t zc_room_left(const struct zc_rule *rule, int device, bool counted);

/* Bytes at the end of a block for which the device never has room: 0 where it may be whole there
 * one day, or gets its memory lazily, else what is behind that which there is room for now. */
uint64_t zc_room_beyond(const struct zc_rule *rule, int device, bool counted, uint64_t bytes);

/* Before the program's own request for memory of the current device: makes room for it.  False if
 * the device has none beside what libzc holds in managed memory.  `anywhere`: it may be another
 * device's. */
bool zc_room_for_bare(int device, size_t bytes, bool anywhere);

/* Makes of what the driver says of the current device, of which one may be NULL, what a program may
 * be told: as if converted blocks were on the device.  vmm's memory is missing already; what it has
 * promised is subtracted.  Managed pages are missing only once they have moved to the device, so
 * they may be counted twice.  Then *free is too small, never too large.  With max_device it is no
 * more than that leaves, of no more than that. */
void zc_room_report(int device, size_t *free, size_t *total);
