/* SPDX-License-Identifier: MIT */
/* How much memory the places may take. */
#include "memory/limits.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "memory/node.h"

/* One registration of 512 GiB or more fails on driver 580. */
#define REGISTRATION_MAX ((uint64_t)512 << 30)

/* When fewer mappings are left, a single call may need more than that. */
#define MAPS_NEAR 8

/* At most 1/POOL_PART of max_pinned is kept as freed memory for later requests. */
#define POOL_PART 4

static ZC_OWN uint64_t
    managed_for_host; /* Bytes in `managed` that were requested as host memory.  Atomic. */
static struct zc_limit max_managed, max_device;
static ZC_LOCK(lock, ZC_RANK_LIMITS);
static ZC_OWN bool started;        /* The limits below have been resolved.  Under the lock. */
static struct zc_node_terms terms; /* What max_pinned means. */
static uint64_t pinned_bytes;      /* Of it, what this process may have. */
static bool
    strict; /* Strict overcommit, proc_sys_vm(5): every writable page counts, used or not. */
static ZC_OWN uint64_t used[ZC_PLACE_COUNT]; /* Bytes by place. */

#define DEVICES_MAX 64                           /* All further devices share the last entry. */
static ZC_OWN uint64_t managed_for[DEVICES_MAX]; /* Managed bytes by the device of the request. */

uint64_t zc_limits_maps(void)
{
    uint64_t maps;
    return zc_file_number("/proc/sys/vm/max_map_count", "", &maps) ? maps : 65530;
}

/* Counts the lines of a kernel file. */
static uint64_t count_lines(const char *path)
{
    char text[512];
    uint64_t lines = 0;
    int fd = zc_file_open(path, 0);
    for (ssize_t n; fd >= 0 && (n = zc_file_read(fd, text, sizeof(text))) > 0;)
        while (n > 0)
            lines += text[--n] == '\n';
    if (fd >= 0)
        zc_file_close(fd);
    return lines;
}

/* True if less than `bytes` are left of a limit, given the value of a proc_pid_statm(5) field. */
static bool exceeds(const struct rlimit *limit, const char *field, size_t bytes)
{
    uint64_t pages = 0;
    return limit->rlim_cur != RLIM_INFINITY && zc_file_number("/proc/self/statm", field, &pages) &&
           pages * (uint64_t)sysconf(_SC_PAGESIZE) + bytes > limit->rlim_cur;
}

const char *zc_limits_reason(int error, size_t bytes)
{
    if (error == EPERM || error == EACCES || error == ENOSYS)
        return "a security filter (seccomp) refuses the system call";
    if (error == EAGAIN)
        return "over RLIMIT_MEMLOCK";
    struct rlimit addresses, data;
    if (count_lines("/proc/self/maps") + MAPS_NEAR >= zc_limits_maps())
        return "the process has all mappings that vm.max_map_count allows";
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && exceeds(&addresses, "", bytes))
        return "over RLIMIT_AS";
    /* In the file the data field follows the library field, which is always 0. */
    if (getrlimit(RLIMIT_DATA, &data) == 0 && exceeds(&data, " 0 ", bytes))
        return "over RLIMIT_DATA";
    return "the kernel gives no memory";
}

static void resolve(const struct zc_policy *policy)
{
    int saved = errno;
    uint64_t mode;
    started = true;
    terms.pinned = policy->max_pinned;
    if (terms.pinned.kind == ZC_LIMIT_NONE)
        terms.pinned = (struct zc_limit){ZC_LIMIT_PERCENT, 50};
    terms.available = zc_available;
    pinned_bytes = zc_limit_bytes(terms.pinned, zc_available(&terms.at_start));
    strict = zc_file_number("/proc/sys/vm/overcommit_memory", "", &mode) && mode == 2;
    max_managed = policy->max_managed;
    max_device = policy->max_device;
    errno = saved;
}

void zc_limits_start(const struct zc_policy *policy)
{
    if (!zc_lock_take(&lock))
        return;
    if (!started)
        resolve(policy);
    zc_lock_drop(&lock);
}

void zc_limits_note_managed_host(int64_t bytes)
{
    __atomic_fetch_add(&managed_for_host, (uint64_t)bytes, __ATOMIC_RELAXED);
}

uint64_t zc_limits_managed_host(void)
{
    return __atomic_load_n(&managed_for_host, __ATOMIC_RELAXED);
}

/* The program could not use what the pool holds.  Other processes could not either, so all pools
 * share one part. */
uint64_t zc_limits_pool(void)
{
    struct rlimit data;
    bool limited = getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY;
    return limited || strict ? 0 : pinned_bytes / POOL_PART / zc_node_processes();
}

static uint64_t *managed_counter(int device)
{
    return &managed_for[device >= 0 && device < DEVICES_MAX ? device : DEVICES_MAX - 1];
}

/* Most bytes that may be managed by requests for the current device.  If managed memory exceeds
 * what the device has free, it can hang the GPU for everyone, so free memory is the hard limit.
 * Pages that no kernel has touched yet still count as free: so all managed bytes of the device must
 * fit into it. */
static uint64_t managed_limit(void)
{
    size_t available = 0, total = 0;
    if (zc_real.cuMemGetInfo_v2(&available, &total) != CUDA_SUCCESS)
        return 0;
    uint64_t limit = zc_limit_bytes(max_managed, available);
    return max_managed.kind == ZC_LIMIT_PERCENT && limit < available ? limit : available;
}

bool zc_limits_device_bound(void)
{
    return max_device.kind != ZC_LIMIT_NONE;
}

uint64_t zc_limits_device_most(int device)
{
    size_t total = 0;
    if (!zc_limits_device_bound())
        return UINT64_MAX;
    zc_real.cuDeviceTotalMem_v2(&total, device);
    return zc_limit_bytes(max_device, total);
}

/* Both places use pinned host memory. */
static uint64_t other_pinned(enum zc_place_id place)
{
    return zc_limits_used(place == ZC_PLACE_MAPPED ? ZC_PLACE_PINNED : ZC_PLACE_MAPPED);
}

/* Bytes of the program's own device blocks. */
static uint64_t live_on_device(void)
{
    struct zc_block_gauge gauge;
    zc_block_gauge(ZC_PLACE_DEVICE, &gauge);
    return gauge.bytes;
}

/* Bytes of the places that are device memory: a block of `shared` was promised its own. */
static uint64_t placed_on_device(void)
{
    return zc_limits_used(ZC_PLACE_VMM) + zc_limits_used(ZC_PLACE_SHARED);
}

uint64_t zc_limits_on_devices(void)
{
    return live_on_device() + placed_on_device() + zc_limits_used(ZC_PLACE_MANAGED);
}

static uint64_t left_of(uint64_t limit, uint64_t used_now, uint64_t beside_others)
{
    uint64_t own = used_now < limit ? limit - used_now : 0;
    return own < beside_others ? own : beside_others;
}

uint64_t zc_limits_device_left(int device)
{
    uint64_t limit = zc_limits_device_most(device);
    return limit == UINT64_MAX ? limit
                               : left_of(limit, live_on_device() + placed_on_device(),
                                         zc_node_left(ZC_NODE_DEVICE, device, limit));
}

uint64_t zc_limits_pinned_left(void)
{
    return left_of(pinned_bytes, zc_limits_used(ZC_PLACE_MAPPED) + zc_limits_used(ZC_PLACE_PINNED),
                   zc_node_left(ZC_NODE_PINNED, -1, 0));
}

/* What zc_limits_device_room() has reserved for the thread's next block. */
static __thread struct {
    uint64_t bytes;
    int device;
} reserved;

void zc_limits_end_room(void)
{
    if (reserved.bytes)
        zc_node_note(ZC_NODE_DEVICE, reserved.device, -(int64_t)reserved.bytes);
    reserved.bytes = 0;
}

/* A block of the program's own on a device comes or goes. */
static void note_device_block(int device, int64_t bytes)
{
    if (bytes > 0 && reserved.bytes == (uint64_t)bytes && reserved.device == device)
        reserved.bytes = 0;
    else
        zc_node_note(ZC_NODE_DEVICE, device, bytes);
}

bool zc_limits_device_room(int device, size_t bytes, const char **why)
{
    uint64_t limit = zc_limits_device_most(device);
    *why = "over max_device";
    if (limit == UINT64_MAX)
        return true;
    if (bytes > limit || live_on_device() + placed_on_device() > limit - bytes)
        return false;
    zc_limits_end_room();
    enum zc_node_answer answer = zc_node_take(ZC_NODE_DEVICE, device, bytes, limit, why);
    if (answer == ZC_NODE_COUNTED) {
        reserved.device = device;
        reserved.bytes = bytes;
    }
    return answer != ZC_NODE_REFUSED;
}

/* From libzc's start on, before there are blocks. */
static void watch_devices(void)
{
    const char *why;
    int devices = 0;
    if (!zc_limits_device_bound() || zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
        return;
    for (int d = 0; d < devices; d++)
        zc_node_take(ZC_NODE_DEVICE, d, 0, UINT64_MAX, &why);
    zc_block_watch(ZC_PLACE_DEVICE, note_device_block);
}

struct tally {
    int device;
    bool alone;     /* It is the only device, so stream-ordered blocks are on it. */
    uint64_t bytes; /* Bytes that would be missing on the device without libzc. */
};

/* Counts blocks that are on the device, or would be without libzc. */
static bool count_block(struct zc_block *b, void *arg)
{
    struct tally *t = arg;
    bool there = b->place == ZC_PLACE_DEVICE || b->place == ZC_PLACE_VMM ||
                 b->place == ZC_PLACE_SHARED ||
                 (b->place == ZC_PLACE_MANAGED && (b->flags & ZC_BLOCK_CONVERTED));
    bool sure = t->alone || !(b->flags & ZC_BLOCK_STREAM);
    if (there && sure && b->asked == ZC_KIND_DEVICE && b->device == t->device &&
        !(b->flags & (ZC_BLOCK_QUARANTINED | ZC_BLOCK_FOREIGN | ZC_BLOCK_PAUSED)))
        t->bytes += b->size - zc_block_spilled(b);
    return true;
}

bool zc_limits_device_holds(int device, size_t bytes, bool anywhere)
{
    struct tally t = {.device = device};
    size_t total = 0;
    int devices = 0;
    if (zc_limits_used(ZC_PLACE_MANAGED) <= zc_limits_managed_host() ||
        zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS ||
        zc_limits_on_devices() <= total - (bytes < total ? bytes : total) ||
        zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
        return true;
    t.alone = devices == 1;
    zc_block_each(count_block, &t);
    return (anywhere && !t.alone) || (bytes <= total && t.bytes <= total - bytes);
}

/* Adds to a counter, unless the counter and `beside` would then exceed the limit. */
static bool add(uint64_t *counter, size_t bytes, uint64_t beside, uint64_t limit)
{
    uint64_t before = __atomic_load_n(counter, __ATOMIC_RELAXED);
    do {
        if (bytes > limit || before + beside > limit - bytes)
            return false;
    } while (!__atomic_compare_exchange_n(counter, &before, before + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

/* Bytes of managed memory that the node's processes may have on a device: `available` at most. */
static uint64_t managed_most(uint64_t available)
{
    bool fixed = max_managed.kind == ZC_LIMIT_BYTES && max_managed.value < available;
    return fixed ? max_managed.value : available;
}

uint64_t zc_limits_managed_left(int device)
{
    uint64_t available = managed_limit(), most = managed_most(available);
    uint64_t own = left_of(available, __atomic_load_n(managed_counter(device), __ATOMIC_RELAXED),
                           zc_node_left(ZC_NODE_MANAGED, device, most));
    return max_managed.kind == ZC_LIMIT_BYTES
               ? left_of(max_managed.value, zc_limits_used(ZC_PLACE_MANAGED), own)
               : own;
}

static bool take_pinned(enum zc_place_id place, size_t bytes, const char **why)
{
    *why = "the driver pins less than 512 GiB in one piece";
    if (bytes >= REGISTRATION_MAX)
        return false;
    *why = "over max_pinned";
    return add(&used[place], bytes, other_pinned(place), pinned_bytes);
}

static bool take_managed(int device, size_t bytes, uint64_t available, const char **why)
{
    uint64_t limit = max_managed.kind == ZC_LIMIT_BYTES ? max_managed.value : UINT64_MAX;
    *why = "over max_managed, or over what is free on the device";
    if (!add(managed_counter(device), bytes, 0, available))
        return false;
    if (add(&used[ZC_PLACE_MANAGED], bytes, 0, limit))
        return true;
    __atomic_fetch_sub(managed_counter(device), bytes, __ATOMIC_RELAXED);
    return false;
}

/* Undoes what this process has counted by itself. */
static void give_own(enum zc_place_id place, int device, size_t bytes)
{
    __atomic_fetch_sub(&used[place], bytes, __ATOMIC_RELAXED);
    if (place == ZC_PLACE_MANAGED)
        __atomic_fetch_sub(managed_counter(device), bytes, __ATOMIC_RELAXED);
}

bool zc_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    enum zc_node_answer answer = ZC_NODE_OWN;
    uint64_t most;
    switch (place) {
    case ZC_PLACE_MAPPED:
    case ZC_PLACE_PINNED:
        if (!take_pinned(place, bytes, why))
            return false;
        answer = zc_node_take(ZC_NODE_PINNED, -1, bytes, 0, why);
        break;
    case ZC_PLACE_MANAGED:
        most = managed_limit();
        if (!take_managed(device, bytes, most, why))
            return false;
        answer = zc_node_take(ZC_NODE_MANAGED, device, bytes, managed_most(most), why);
        break;
    case ZC_PLACE_VMM:
    case ZC_PLACE_SHARED:
        most = zc_limits_device_most(device);
        *why = "over max_device";
        if (!add(&used[place], bytes, live_on_device() + placed_on_device() - zc_limits_used(place),
                 most))
            return false;
        if (most != UINT64_MAX)
            answer = zc_node_take(ZC_NODE_DEVICE, device, bytes, most, why);
        break;
    default:
        return add(&used[place], bytes, 0, UINT64_MAX);
    }
    if (answer == ZC_NODE_REFUSED)
        give_own(place, device, bytes);
    return answer != ZC_NODE_REFUSED;
}

void zc_limits_give(enum zc_place_id place, int device, size_t bytes)
{
    give_own(place, device, bytes);
    if (place == ZC_PLACE_MAPPED || place == ZC_PLACE_PINNED)
        zc_node_note(ZC_NODE_PINNED, -1, -(int64_t)bytes);
    else if (place == ZC_PLACE_MANAGED)
        zc_node_note(ZC_NODE_MANAGED, device, -(int64_t)bytes);
    else if (zc_limits_device_bound())
        zc_node_note(ZC_NODE_DEVICE, device, -(int64_t)bytes);
}

bool zc_limits_take_heap(size_t bytes, bool *shared, const char **why)
{
    if (!take_pinned(ZC_PLACE_PINNED, bytes, why))
        return false;
    enum zc_node_answer answer =
        *shared ? zc_node_take(ZC_NODE_PINNED, -1, bytes, 0, why) : ZC_NODE_OWN;
    *shared = answer == ZC_NODE_COUNTED;
    if (answer == ZC_NODE_REFUSED)
        give_own(ZC_PLACE_PINNED, -1, bytes);
    return answer != ZC_NODE_REFUSED;
}

bool zc_limits_share_heap(size_t bytes, const char **why)
{
    return zc_node_take(ZC_NODE_PINNED, -1, bytes, 0, why) != ZC_NODE_REFUSED;
}

void zc_limits_give_heap(size_t bytes, bool shared)
{
    give_own(ZC_PLACE_PINNED, -1, bytes);
    if (shared)
        zc_node_note(ZC_NODE_PINNED, -1, -(int64_t)bytes);
}

uint64_t zc_limits_used(enum zc_place_id place)
{
    return __atomic_load_n(&used[place], __ATOMIC_RELAXED);
}

static void start(const struct zc_policy *policy)
{
    zc_limits_start(policy);
    zc_node_start(&terms);
    watch_devices();
}

const struct zc_module zc_module_limits = {.start = start};
