/* SPDX-License-Identifier: MIT */
/* How much memory the places may take: max_pinned, max_managed, max_device.  A process keeps to
 * them by itself, and from the first CUDA call on together with others (memory/node.h). */
#pragma once

#include "memory/place.h"

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

/* Counts `bytes` against the limit of a place; managed bytes also against the free memory of the
 * current `device`.  False, and nothing counted, if they would exceed it. */
bool zc_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why);
void zc_limits_give(enum zc_place_id place, int device, size_t bytes);

/*
 * The same for memory of the host heap, which a process may take before it uses CUDA, and may never
 * have registered.  *shared: whether other processes are to count it, and then, whether they do. If
 * not, zc_limits_share_heap() must say true before it is registered.
 */
bool zc_limits_take_heap(size_t bytes, bool *shared, const char **why);
bool zc_limits_share_heap(size_t bytes, const char **why);
void zc_limits_give_heap(size_t bytes, bool shared);

/* Counts bytes of `managed` that were requested as host memory: they do not count for the
 * device. */
void zc_limits_note_managed_host(int64_t bytes);
uint64_t zc_limits_managed_host(void);

/* True if a request of `bytes` may stay on the device under max_device: the bytes of all device
 * blocks, the program's and vmm's, together.  The bytes are reserved for the calling thread's next
 * block there, until zc_limits_end_room(). */
bool zc_limits_device_room(int device, size_t bytes, const char **why);
void zc_limits_end_room(void);

/*
 * False if a device cannot hold this many bytes besides everything that the program has requested
 * from it, including what is in `managed` instead.  Without libzc such a request would fail, but
 * the driver does not count managed pages that nothing has touched.  `anywhere`: the memory may be
 * on another device.  Not for requests in a captured stream, which take no memory.
 */
bool zc_limits_device_holds(int device, size_t bytes, bool anywhere);

/* Bytes that the program has on devices, as `device`, `vmm` or `managed`.  Promised memory counts,
 * freed memory that libzc keeps does not. */
uint64_t zc_limits_on_devices(void);

/* Bytes that the limits leave to this process, beside the others that share them: of a device, in
 * managed memory of the current `device`, and in pinned memory. */
uint64_t zc_limits_device_left(int device);
uint64_t zc_limits_managed_left(int device);
uint64_t zc_limits_pinned_left(void);

/* True if the policy limits device memory; and to how many bytes of a device, else UINT64_MAX. */
bool zc_limits_device_bound(void);
uint64_t zc_limits_device_most(int device);

/* Bytes that a place holds now. */
uint64_t zc_limits_used(enum zc_place_id place);
