/* SPDX-License-Identifier: MIT */
/* How much memory the places may take: max_pinned, max_managed, max_device.  The processes of a job
 * on a host share them: each has an equal part. */
#pragma once

#include "memory/place.h"

/* One registration of so much fails on driver 580. */
#define ZC_REGISTRATION_MAX ((uint64_t)512 << 30)

/* Resolves the limits of a policy, at the first large request to libc or the first CUDA call.
 * Later calls do nothing.  Reads files of /proc and /sys; keeps errno. */
void zc_limits_start(const struct zc_policy *policy);

/* Bytes of freed pinned memory that this process may keep for later requests. 0 if the process's
 * writable memory is limited (RLIMIT_DATA, strict overcommit). */
uint64_t zc_limits_pool(void);

/* Most mappings that a process may have (vm.max_map_count). */
uint64_t zc_limits_maps(void);

/* Why the kernel refused `bytes` of memory, or a mapping, with this errno.  Returns a string
 * constant.  Safe in signal handlers. */
const char *zc_limits_reason(int error, size_t bytes);

/* Takes `bytes` of the limit of a place; managed bytes also of the free memory of the current
 * `device`.  False, and nothing taken, if they would exceed it; then *why is a string constant. For
 * `pinned` no device counts, but memory that the program itself asked the driver to pin is
 * ZC_LIMITS_ASKED's: `max_pinned` limits it only where a policy says so.  Host memory for blocks
 * that move which no block is in is ZC_LIMITS_KEPT's, of `mapped`. */
#define ZC_LIMITS_ASKED (-2)
#define ZC_LIMITS_KEPT (-3)
bool zc_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why);
void zc_limits_give(enum zc_place_id place, int device, size_t bytes);

/* Bytes that the limits leave to a place on a device; for `managed` it is the current one.
 * UINT64_MAX without a limit. */
uint64_t zc_limits_left(enum zc_place_id place, int device);

/* Most bytes that the limits let the process have of a device; UINT64_MAX without one. */
uint64_t zc_limits_most(int device);

/* Bytes that percentages of a device's memory are of: what it had free, and this process held of
 * it, when that was first asked with a context of the device; of one that several ranks of a job
 * share all that it has. */
uint64_t zc_limits_whole(int device);

/* True if a request of `bytes` may stay on the device under max_device: the bytes of all device
 * blocks, the program's and vmm's, together.  The bytes are reserved for the calling thread's next
 * block there, until zc_limits_end_room(). */
bool zc_limits_device_room(int device, size_t bytes, const char **why);
void zc_limits_end_room(void);

/* False if a device cannot hold this many bytes besides everything that the program has requested
 * from it, including what is in `managed` instead, whose untouched pages the driver does not count.
 * `anywhere`: the memory may be on another device.  Not for requests in a captured stream, which
 * take no memory. */
bool zc_limits_device_holds(int device, size_t bytes, bool anywhere);

/* Bytes that the program has on devices, as `device`, `vmm` or `managed`.  Promised memory counts,
 * freed memory that libzc keeps does not. */
uint64_t zc_limits_on_devices(void);

/* True if the policy limits device memory. */
bool zc_limits_device_bound(void);

/* So many of the bytes that `mapped` holds for a device are kept from now on; less than 0: are a
 * block's again. */
void zc_limits_keep(int device, int64_t bytes);

/* Bytes that a place holds now, as zc_limits_take() counts them. */
uint64_t zc_limits_used(enum zc_place_id place, int device);

/* Budgets: the most bytes of a rule that may be alive in its first place, on each device if that
 * has the memory. */

/* Counts a request that goes to the first place of its rule.  Returns false, and counts nothing, if
 * it would exceed the rule's budget.  Always true for rules without a budget.  A percentage is of
 * zc_limits_whole(). */
bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes);

/* Bytes of a budget, and those that it leaves; UINT64_MAX without one. */
uint64_t zc_budget_most(const struct zc_rule *rule, int device);
uint64_t zc_budget_left(const struct zc_rule *rule, int device);

/* Takes back a counted request that was not made. */
void zc_budget_give(const struct zc_rule *rule, int device, uint64_t bytes);

/* A block enters the ledger again, or leaves it (`sign` < 0); only those with ZC_BLOCK_BUDGET
 * count. */
void zc_budget_change(const struct zc_block *block, int sign);
