/* SPDX-License-Identifier: MIT */
/* How much memory the places may take: max_pinned, max_managed, max_device. */
#ifndef ZC_MEMORY_LIMITS_H
#define ZC_MEMORY_LIMITS_H

#include "memory/place.h"

/* Resolves the limits of a policy, at the first large request of libc's or the first CUDA call,
 * whichever comes first; later calls do nothing.  Opens files of /proc and /sys; keeps errno. */
void zc_limits_start(const struct zc_policy *policy);
void zc_limits_reset(void); /* For the child of fork(2). */

/* Bytes of freed pinned host memory that may wait for the next request: none where the process has
 * a limit on what it may write to (RLIMIT_DATA, strict overcommit). */
uint64_t zc_limits_pool(void);

/* Most mappings that the kernel gives a process (vm.max_map_count). */
uint64_t zc_limits_maps(void);

/* Why the kernel refused `bytes` of memory, or a mapping, with that errno: a string constant.  For
 * signal handlers, too. */
const char *zc_limits_reason(int error, size_t bytes);

/* Counts `bytes` against a place's limit, managed ones also against what the current `device` has
 * free.  False, and nothing counted, when they would pass it. */
bool zc_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why);
void zc_limits_give(enum zc_place_id place, int device, size_t bytes);

/* Requests for host memory take so many bytes more of `managed`, or give them back: they are not
 * the device's. */
void zc_limits_note_managed_host(int64_t bytes);
uint64_t zc_limits_managed_host(void);

/* True if a request of `bytes` left on the device would keep max_device: the bytes of all blocks on
 * devices, the program's and vmm's, together. */
bool zc_limits_device_room(int device, size_t bytes);

/*
 * False where a device cannot hold so many bytes more beside what the program has asked it for and
 * what of that lies in `managed`: there the program would have been refused without libzc, while
 * the driver sees no page of managed memory that nothing has touched.  `anywhere`: the memory may
 * be another device's.  Not for requests in a stream that is captured, which take no memory.
 */
bool zc_limits_device_holds(int device, size_t bytes, bool anywhere);

/* Bytes that the program has on devices, left there or in `vmm` and `managed`: what was promised
 * but has no memory yet counts, freed memory that is kept does not. */
uint64_t zc_limits_on_devices(void);

/* True where the owner bounds what blocks have on devices. */
bool zc_limits_device_bound(void);

/* Bytes that a place holds now. */
uint64_t zc_limits_used(enum zc_place_id place);

#endif
