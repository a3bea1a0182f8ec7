/* SPDX-License-Identifier: MIT */
/* How much memory the places may take, and rules in them. */
#include "memory/limits.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/file.h"
#include "base/job.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "ledger/rules.h"
#include "memory/cgroup.h"
#include "memory/device.h"
#include "memory/quota.h"

/* When fewer mappings are left, a single call may need more than that. */
#define MAPS_NEAR 8

/* At most 1/POOL_PART of max_pinned is kept as freed memory for later requests. */
#define POOL_PART 4

#define EACH_DEVICE 0 ... ZC_DEVICES - 1

static ZC_LOCK(lock, ZC_RANK_LIMITS);

/* The places' quotas.  A max_managed that is a size is that of the process, at the top of a tree;
 * max_device, percentages, and free memory are each device's own. */
static struct {
    /* Under max_pinned the places `mapped`, by the device of the request, and `pinned`. */
    struct zc_quota pinned, mapped_for[ZC_DEVICES], registered;
    struct zc_quota kept;  /* `mapped` that no block is in. */
    struct zc_quota asked; /* `pinned` for requests for such memory; without a `max_pinned` of the
                            * policy's they have no limit but the host's. */
    struct zc_quota managed, managed_for[ZC_DEVICES]; /* By the device of the request. */
    struct zc_quota devices, device[ZC_DEVICES]; /* The program's own blocks, vmm and shared. */
    uint64_t whole[ZC_DEVICES]; /* As zc_limits_whole() tells; 0: not known yet.  Atomic. */
    bool started;               /* pinned.most has been resolved.  Under the lock. */
    /* Set once, at the start. */
    uint64_t host_ranks, gpu_ranks; /* Processes of the job that share the host, and a GPU. */
    bool strict; /* Strict overcommit, proc_sys_vm(5): every writable page counts, used or not. */
} limits = {
    .mapped_for = {[EACH_DEVICE] = {.parent = &limits.pinned, .most = UINT64_MAX}},
    .kept = {.parent = &limits.pinned, .most = UINT64_MAX},
    .registered = {.parent = &limits.pinned, .most = UINT64_MAX},
    .asked = {.most = UINT64_MAX},
    .managed = {.most = UINT64_MAX},
    .managed_for = {[EACH_DEVICE] = {.parent = &limits.managed, .most = UINT64_MAX}},
    .devices = {.most = UINT64_MAX},
    .device = {[EACH_DEVICE] = {.parent = &limits.devices, .most = UINT64_MAX}},
    .host_ranks = 1,
    .gpu_ranks = 1,
};

uint64_t zc_limits_maps(void)
{
    uint64_t maps;
    return zc_file_number("/proc/sys/vm/max_map_count", "", &maps) ? maps : 65530;
}

/* Counts the lines of a kernel file. */
static uint64_t limits_count_lines(const char *path)
{
    char text[512];
    uint64_t lines = 0;
    int fd = zc_file_open(path, 0);
    for (ssize_t n; fd >= 0 && (n = zc_file_read(fd, text, sizeof(text))) > 0;)
        while (n > 0)
            lines += text[--n] == '\n';
    zc_file_close(fd);
    return lines;
}

/* True if less than `bytes` are left of a limit, given the value of a proc_pid_statm(5) field. */
static bool limits_exceeds(const struct rlimit *limit, const char *field, size_t bytes)
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
    if (limits_count_lines("/proc/self/maps") + MAPS_NEAR >= zc_limits_maps())
        return "the process has all mappings that vm.max_map_count allows";
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && limits_exceeds(&addresses, "", bytes))
        return "over RLIMIT_AS";
    /* In the file the data field follows the library field, which is always 0. */
    if (getrlimit(RLIMIT_DATA, &data) == 0 && limits_exceeds(&data, " 0 ", bytes))
        return "over RLIMIT_DATA";
    return "the kernel gives no memory";
}

/* Bytes of a limit that are this process's: the processes of its job share it. */
static uint64_t limits_share(struct zc_limit limit, uint64_t whole, uint64_t ranks)
{
    uint64_t bytes = zc_limit_bytes(limit, whole);
    return bytes == UINT64_MAX ? bytes : bytes / ranks;
}

void zc_limits_start(const struct zc_policy *policy)
{
    ZC_KEEPS_ERRNO;
    uint64_t mode;
    ZC_LOCK_HELD(mine, &lock);
    if (mine && !limits.started) {
        struct zc_limit half = {ZC_LIMIT_PERCENT, 50};
        bool given = policy->max_pinned.kind != ZC_LIMIT_NONE;
        limits.host_ranks = zc_job()->local_world > 0 ? (uint64_t)zc_job()->local_world : 1;
        limits.strict = zc_file_number("/proc/sys/vm/overcommit_memory", "", &mode) && mode == 2;
        limits.pinned.most =
            limits_share(given ? policy->max_pinned : half, zc_available(), limits.host_ranks);
        if (policy->given & ZC_KEY_BIT(ZC_KEY_MAX_PINNED))
            limits.asked.parent = &limits.pinned;
        limits.started = true;
    }
}

/* How many ranks there are for each GPU of the host, of which this process may see only some: each
 * has a folder. */
static uint64_t limits_ranks_of_gpu(void)
{
    struct stat folder;
    int visible = 0;
    uint64_t gpus = 0;
    if (stat("/proc/driver/nvidia/gpus", &folder) == 0 && folder.st_nlink > 2)
        gpus = folder.st_nlink - 2;
    if (zc_real.cuDeviceGetCount(&visible) == CUDA_SUCCESS && (uint64_t)visible > gpus)
        gpus = (uint64_t)visible;
    return gpus ? (limits.host_ranks + gpus - 1) / gpus : 1;
}

static uint64_t limits_size(struct zc_limit limit)
{
    return limit.kind == ZC_LIMIT_BYTES ? limits_share(limit, 0, limits.gpu_ranks) : UINT64_MAX;
}

static void limits_note_device_block(int device, int64_t bytes);

static void limits_begin(const struct zc_policy *policy)
{
    zc_limits_start(policy);
    if (limits.host_ranks > 1)
        limits.gpu_ranks = limits_ranks_of_gpu();
    limits.managed.most = limits_size(policy->max_managed);
    __atomic_store_n(&zc_block_on_device, limits_note_device_block, __ATOMIC_RELEASE);
}

/* The program could not use what the pool holds. */
uint64_t zc_limits_pool(void)
{
    struct rlimit data;
    bool limited = getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur != RLIM_INFINITY;
    return limited || limits.strict ? 0 : limits.pinned.most / POOL_PART;
}

bool zc_limits_device_bound(void)
{
    return zc_rules()->max_device.kind != ZC_LIMIT_NONE;
}

/* Most bytes that may be managed by requests for the current device.  If managed memory exceeds
 * what the device has free, it can hang the GPU for everyone, so free memory is the hard limit.
 * Pages that no kernel has touched yet still count as free: so all managed bytes of the device must
 * fit into it. */
static uint64_t limits_managed_most(int device)
{
    uint64_t available = zc_device_free(device), limit = available;
    if (zc_rules()->max_managed.kind == ZC_LIMIT_PERCENT)
        limit = zc_limit_bytes(zc_rules()->max_managed, available);
    return (limit < available ? limit : available) / limits.gpu_ranks;
}

static unsigned limits_entry(int device)
{
    return device >= 0 && device < ZC_DEVICES ? (unsigned)device : ZC_DEVICES - 1;
}

static uint64_t limits_held(const struct zc_quota *quota)
{
    return __atomic_load_n(&quota->used, __ATOMIC_RELAXED);
}

/* Ranks that share a GPU do not begin at once, so what they have taken of it counts for none. */
uint64_t zc_limits_whole(int device)
{
    unsigned entry = limits_entry(device);
    uint64_t whole = __atomic_load_n(&limits.whole[entry], __ATOMIC_RELAXED);
    CUdevice current = -1;
    size_t total = 0;
    if (whole)
        return whole;
    zc_real.cuDeviceTotalMem_v2(&total, device);
    if (limits.gpu_ranks > 1 || zc_real.cuCtxGetDevice(&current) != CUDA_SUCCESS ||
        current != device)
        return total;
    whole = zc_device_free(device) + limits_held(&limits.device[entry]);
    __atomic_store_n(&limits.whole[entry], whole, __ATOMIC_RELAXED);
    return whole;
}

static uint64_t limits_device_most(int device)
{
    const struct zc_limit most = zc_rules()->max_device;
    return most.kind == ZC_LIMIT_PERCENT
               ? limits_share(most, zc_limits_whole(device), limits.gpu_ranks)
               : limits_size(most);
}

/* The quota that memory of a place on a device is taken from. */
static struct zc_quota *limits_quota(enum zc_place_id place, int device)
{
    unsigned entry = limits_entry(device);
    return place == ZC_PLACE_MAPPED
               ? device == ZC_LIMITS_KEPT ? &limits.kept : &limits.mapped_for[entry]
           : place == ZC_PLACE_PINNED
               ? device == ZC_LIMITS_ASKED ? &limits.asked : &limits.registered
           : place == ZC_PLACE_MANAGED ? &limits.managed_for[entry]
                                       : &limits.device[entry];
}

/* The same, with what may be taken of it now. */
static struct zc_quota *limits_quota_now(enum zc_place_id place, int device)
{
    struct zc_quota *quota = limits_quota(place, device);
    if (place == ZC_PLACE_MANAGED)
        __atomic_store_n(&quota->most, limits_managed_most(device), __ATOMIC_RELAXED);
    else if (quota->parent == &limits.devices)
        __atomic_store_n(&quota->most, limits_device_most(device), __ATOMIC_RELAXED);
    return quota;
}

uint64_t zc_limits_left(enum zc_place_id place, int device)
{
    return zc_quota_left(limits_quota_now(place, device));
}

uint64_t zc_limits_most(int device)
{
    const struct zc_quota *quota = limits_quota_now(ZC_PLACE_DEVICE, device);
    uint64_t left = zc_quota_left(quota);
    return left == UINT64_MAX ? left : left + limits_held(quota);
}

uint64_t zc_limits_on_devices(void)
{
    return limits_held(&limits.devices) + limits_held(&limits.managed);
}

/* A process alone has the limit that its policy names, and `why` in the log is enough. */
static void limits_tell(const struct zc_quota *quota, const char *over, size_t bytes)
{
    uint64_t ranks = quota->parent == &limits.pinned ? limits.host_ranks : limits.gpu_ranks;
    if (ranks > 1 && zc_message_first(over))
        zc_message(ZC_WARN, "budgets",
                   "no room for %B: %s. This process is one of %U that share the limit, and may "
                   "take %B more. Such blocks take the next place of their rule",
                   (uint64_t)bytes, over, ranks, zc_quota_left(quota));
}

bool zc_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    struct zc_quota *quota = limits_quota_now(place, device);
    bool pinned = quota->parent == &limits.pinned;
    if (zc_quota_take(quota, bytes))
        return true;
    *why = pinned                      ? "over max_pinned"
           : place == ZC_PLACE_MANAGED ? "over max_managed, or over what is free on the device"
                                       : "over max_device";
    limits_tell(quota, *why, bytes);
    return false;
}

void zc_limits_give(enum zc_place_id place, int device, size_t bytes)
{
    zc_quota_give(limits_quota(place, device), (int64_t)bytes);
}

void zc_limits_keep(int device, int64_t bytes)
{
    __atomic_fetch_add(&limits.kept.used, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&limits_quota(ZC_PLACE_MAPPED, device)->used, bytes, __ATOMIC_RELAXED);
}

uint64_t zc_limits_used(enum zc_place_id place, int device)
{
    return limits_held(limits_quota(place, device));
}

/* Bytes that zc_limits_device_room() has taken for the thread's next block. */
static __thread struct {
    uint64_t bytes;
    int device;
} reserved;

void zc_limits_end_room(void)
{
    if (reserved.bytes)
        zc_limits_give(ZC_PLACE_DEVICE, reserved.device, reserved.bytes);
    reserved.bytes = 0;
}

bool zc_limits_device_room(int device, size_t bytes, const char **why)
{
    if (!zc_limits_device_bound())
        return true;
    zc_limits_end_room();
    if (!zc_limits_take(ZC_PLACE_DEVICE, device, bytes, why))
        return false;
    reserved.device = device;
    reserved.bytes = bytes;
    return true;
}

/* A block of the program's own on a device comes or goes. */
static void limits_note_device_block(int device, int64_t bytes)
{
    if (bytes > 0 && reserved.bytes == (uint64_t)bytes && reserved.device == device)
        reserved.bytes = 0;
    else
        zc_quota_give(limits_quota(ZC_PLACE_DEVICE, device), -bytes);
}

/* The caller's own request may be reserved already. */
static bool limits_has_beside(int device, size_t bytes, size_t total)
{
    uint64_t held = limits_held(limits_quota(ZC_PLACE_DEVICE, device)) +
                    limits_held(limits_quota(ZC_PLACE_MANAGED, device)) -
                    (reserved.device == device ? reserved.bytes : 0);
    return bytes <= total && held <= total - bytes;
}

bool zc_limits_device_holds(int device, size_t bytes, bool anywhere)
{
    size_t total = 0;
    int devices = 0;
    if (!limits_held(&limits.managed) ||
        zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS ||
        zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || (anywhere && devices > 1))
        return true;
    return limits_has_beside(device, bytes, total) ||
           (zc_modules_reclaim(ZC_PLACE_MANAGED) && limits_has_beside(device, bytes, total));
}

/* Bytes of a rule alive in its first place: of the device, if that has them. */
static uint64_t *budget_alive(const struct zc_rule *rule, int device)
{
    enum zc_place_id first = rule->place.item[0];
    bool host = first == ZC_PLACE_MAPPED || first == ZC_PLACE_PINNED || first == ZC_PLACE_PAGEABLE;
    unsigned entry = host ? 0 : limits_entry(device);
    return &rule->counters->alive[entry < ZC_BUDGETS ? entry : ZC_BUDGETS - 1];
}

uint64_t zc_budget_most(const struct zc_rule *rule, int device)
{
    bool percent = rule->budget.kind == ZC_LIMIT_PERCENT;
    return zc_limit_bytes(rule->budget, percent ? zc_limits_whole(device) : 0);
}

bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    return rule->budget.kind == ZC_LIMIT_NONE ||
           zc_quota_add(budget_alive(rule, device), bytes, zc_budget_most(rule, device));
}

uint64_t zc_budget_left(const struct zc_rule *rule, int device)
{
    uint64_t most = zc_budget_most(rule, device);
    uint64_t alive = __atomic_load_n(budget_alive(rule, device), __ATOMIC_RELAXED);
    return rule->budget.kind == ZC_LIMIT_NONE ? UINT64_MAX : alive < most ? most - alive : 0;
}

void zc_budget_give(const struct zc_rule *rule, int device, uint64_t bytes)
{
    if (rule->budget.kind != ZC_LIMIT_NONE)
        __atomic_fetch_sub(budget_alive(rule, device), bytes, __ATOMIC_RELAXED);
}

void zc_budget_change(const struct zc_block *block, int sign)
{
    uint64_t bytes = block->size - zc_block_spilled(block);
    if ((block->flags & ZC_BLOCK_BUDGET) && block->rule >= 0)
        zc_budget_give(&zc_rules()->rules[block->rule], block->device, sign < 0 ? bytes : -bytes);
}

/* The child of fork(2) has none of its parent's blocks. */
static void limits_child(void)
{
    for (int d = 0; d < ZC_DEVICES; d++)
        limits.managed_for[d].used = limits.mapped_for[d].used = limits.device[d].used =
            limits.whole[d] = 0;
    limits.pinned.used = limits.kept.used = limits.registered.used = limits.asked.used = 0;
    limits.managed.used = limits.devices.used = 0;
    limits.started = false;
}

const struct zc_module zc_module_limits = {.start = limits_begin, .child = limits_child};
