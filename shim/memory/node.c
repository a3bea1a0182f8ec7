/* SPDX-License-Identifier: MIT */
/* Limits that the processes of a user on a host share. */
#include "memory/node.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/own.h"
#include "driver/real.h"
#include "log/budgets.h"
#include "memory/roster.h"

#define DEVICES_MAX 64

static const char *const names[] = {"max_pinned", "max_managed", "max_device"};
static const char *const over[] = {"over max_pinned beside other processes",
                                   "over max_managed beside other processes",
                                   "over max_device beside other processes"};

/* What the summary tells of a limit. */
struct tally {
    uint64_t most, own_peak, host_peak, refused;
    uint64_t held; /* Where the last request was refused: by these processes, */
    unsigned holders;
    uint64_t bound; /* under this limit. */
};

static ZC_LOCK(lock, ZC_RANK_NODE);
static ZC_OWN bool shares; /* zc_node_start() was called, and nothing failed since.  Atomic. */
static ZC_OWN const char *alone; /* Why not, if something failed. */
static ZC_OWN bool asked;        /* Some limit was. */
static struct zc_node_terms terms;
static struct zc_available available;     /* When this process took its slot. */
static ZC_OWN struct zc_roster_slot *own; /* NULL until the first bytes are counted.  Atomic. */
static pid_t owner;   /* Process that `own` is of; no fork handler sees _Fork(2). */
static time_t looked; /* Second in which the file was last looked for. */
static uint64_t bound[1 + ZC_CGROUPS]; /* max_pinned for the host, and for each group. */
static ZC_OWN unsigned processes;      /* Atomic. */
static ZC_OWN struct tally pinned_tally, gpu_tally[ZC_ROSTER_GPUS][2];

static ZC_OWN struct {
    uint64_t id[2];
    uint32_t known; /* Atomic. */
    uint32_t entry; /* Index + 1 into own->gpu; 0: none.  Atomic. */
} gpus[DEVICES_MAX];

void zc_node_start(const struct zc_node_terms *found)
{
    terms = *found;
    alone = NULL;
    if (strcmp(zc_options()->budgets, "off") == 0)
        alone = "ZC_BUDGETS is off";
    __atomic_store_n(&shares, !alone, __ATOMIC_RELEASE);
}

/* Asks the driver for the UUID of a device, or takes its ordinal for one. */
static bool ask_id(int device)
{
    CUuuid uuid;
    if (device < 0 || device >= DEVICES_MAX)
        return false;
    if (__atomic_load_n(&gpus[device].known, __ATOMIC_ACQUIRE))
        return true;
    uint64_t id[2] = {0, (uint64_t)device};
    if (zc_real.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
        memcpy(id, uuid.bytes, sizeof(id));
    memcpy(gpus[device].id, id, sizeof(id));
    __atomic_store_n(&gpus[device].known, 1, __ATOMIC_RELEASE);
    return true;
}

static uint64_t *counter_at(struct zc_roster_slot *slot, enum zc_node_limit limit, unsigned entry)
{
    if (limit == ZC_NODE_PINNED)
        return &slot->pinned;
    return limit == ZC_NODE_MANAGED ? &slot->gpu[entry].managed : &slot->gpu[entry].device;
}

/* The entry of a device in this process's slot, made if necessary; -1 if all are in use. */
static int entry_of(int device)
{
    uint32_t known = __atomic_load_n(&gpus[device].entry, __ATOMIC_ACQUIRE), i;
    if (known)
        return (int)known - 1;
    for (i = 0; i < own->gpus; i++)
        if (memcmp(own->gpu[i].id, gpus[device].id, sizeof(own->gpu[i].id)) == 0)
            break;
    if (i == ZC_ROSTER_GPUS)
        return -1;
    if (i == own->gpus) {
        memcpy(own->gpu[i].id, gpus[device].id, sizeof(own->gpu[i].id));
        __atomic_store_n(&own->gpus, i + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&gpus[device].entry, i + 1, __ATOMIC_RELEASE);
    return (int)i;
}

static bool is_in(const struct zc_roster_slot *slot, uint64_t group)
{
    bool in = !group;
    for (unsigned i = 0; i < ZC_CGROUPS; i++)
        in = in || slot->group[i] == group;
    return in;
}

static uint64_t held_by(const struct zc_roster_slot *slot, enum zc_node_limit limit,
                        const uint64_t *id)
{
    if (limit == ZC_NODE_PINNED)
        return __atomic_load_n(&slot->pinned, __ATOMIC_SEQ_CST);
    unsigned n = __atomic_load_n(&slot->gpus, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < n && i < ZC_ROSTER_GPUS; i++)
        if (slot->gpu[i].id[0] == id[0] && slot->gpu[i].id[1] == id[1])
            return __atomic_load_n(limit == ZC_NODE_MANAGED ? &slot->gpu[i].managed
                                                            : &slot->gpu[i].device,
                                   __ATOMIC_SEQ_CST);
    return 0;
}

/* Bytes of all processes, or of those in a control group, and the number of those that hold
 * any. */
static uint64_t held_by_all(enum zc_node_limit limit, const uint64_t *id, uint64_t group,
                            unsigned *holders)
{
    unsigned n;
    uint64_t sum = 0;
    const struct zc_roster_slot *slot = zc_roster_slots(&n);
    for (*holders = 0; n--; slot++)
        if (__atomic_load_n(&slot->used, __ATOMIC_ACQUIRE) && is_in(slot, group)) {
            uint64_t bytes = held_by(slot, limit, id);
            *holders += bytes > 0 || slot == own;
            sum += bytes;
        }
    return sum;
}

/* What max_pinned means: a percentage is of what is available now, and of what others hold.  Memory
 * that this process took meanwhile does not lower it. */
static void settle_bounds(void)
{
    unsigned holders;
    const struct zc_available *before = &terms.at_start;
    for (unsigned i = 0; i <= available.groups; i++) {
        uint64_t left = i ? available.group[i - 1].left : available.host, first = before->host;
        uint64_t group = i ? available.group[i - 1].id : 0;
        left += held_by_all(ZC_NODE_PINNED, NULL, group, &holders);
        if (i)
            first = i <= before->groups && before->group[i - 1].id == group
                        ? before->group[i - 1].left
                        : 0;
        bound[i] = zc_limit_bytes(terms.pinned, left > first ? left : first);
        if (i && terms.pinned.kind == ZC_LIMIT_BYTES)
            bound[i] = UINT64_MAX; /* The limit is the host's. */
    }
}

static uint64_t least_bound(void)
{
    uint64_t least = bound[0];
    for (unsigned i = 1; i <= available.groups; i++)
        least = bound[i] < least ? bound[i] : least;
    return least;
}

/* Takes a slot in the file, or in the one that has replaced it. */
static void join(void)
{
    const char *why;
    struct zc_roster_slot *had = own, *slot = zc_roster_join(zc_options()->budgets, &why);
    if (!slot) {
        alone = had ? NULL : why;
        __atomic_store_n(&shares, had != NULL, __ATOMIC_RELEASE);
        return;
    }
    if (!had)
        terms.available(&available);
    for (unsigned i = 0; i < available.groups; i++)
        slot->group[i] = available.group[i].id;
    if (had) {
        slot->pinned = __atomic_load_n(&had->pinned, __ATOMIC_SEQ_CST);
        memcpy(slot->gpu, had->gpu, sizeof(slot->gpu));
        __atomic_store_n(&slot->gpus, had->gpus, __ATOMIC_RELEASE);
    } else {
        settle_bounds();
    }
    owner = getpid();
    __atomic_store_n(&own, slot, __ATOMIC_RELEASE);
}

/* False if this process shares nothing.  Under the lock. */
static bool ready(void)
{
    struct timespec now;
    if (own && owner != getpid())
        return false;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!own || (now.tv_sec != looked && zc_roster_replaced()))
        join();
    looked = now.tv_sec;
    return own != NULL;
}

static bool fits(enum zc_node_limit limit, const uint64_t *id, uint64_t bytes, struct tally *tally)
{
    uint64_t all = 0;
    unsigned groups = limit == ZC_NODE_PINNED ? available.groups : 0;
    bool within = true;
    for (unsigned i = 0; i <= groups && within; i++) {
        tally->held = held_by_all(limit, id, i ? available.group[i - 1].id : 0, &tally->holders);
        tally->bound = limit == ZC_NODE_PINNED ? bound[i] : tally->most;
        within = bytes <= tally->bound && tally->held <= tally->bound - bytes;
        if (i == 0)
            all = tally->held;
        if (limit == ZC_NODE_PINNED) /* Of the innermost group, last. */
            __atomic_store_n(&processes, tally->holders, __ATOMIC_RELAXED);
    }
    uint64_t peak = within ? all + bytes : all;
    tally->host_peak = peak > tally->host_peak ? peak : tally->host_peak;
    return within;
}

static struct tally *tally_of(enum zc_node_limit limit, unsigned entry)
{
    return limit == ZC_NODE_PINNED ? &pinned_tally : &gpu_tally[entry][limit == ZC_NODE_DEVICE];
}

static void describe(enum zc_node_limit limit, int device, unsigned entry,
                     struct zc_log_budget *out)
{
    const struct tally *t = tally_of(limit, entry);
    *out = (struct zc_log_budget){.limit = names[limit],
                                  .device = device,
                                  .limit_bytes = t->most,
                                  .peak_bytes = t->own_peak,
                                  .host_peak_bytes = t->host_peak,
                                  .refused = t->refused};
    out->bytes = __atomic_load_n(counter_at(own, limit, entry), __ATOMIC_RELAXED);
    out->host_bytes = held_by_all(limit, device < 0 ? NULL : gpus[device].id, 0, &out->processes);
}

static void tell(enum zc_node_limit limit, int device, uint64_t bytes)
{
    static const char *const keys[] = {"node pinned", "node managed", "node device"};
    unsigned entry = limit == ZC_NODE_PINNED ? 0 : gpus[device].entry - 1;
    const struct tally *t = tally_of(limit, entry);
    if (!zc_message_first(keys[limit]))
        return;
    zc_message(ZC_WARN, "budgets",
               "%s: no room for %B: this process has %B, all that share the limit (%u) have %B of "
               "%B. Such blocks take the next place of their rule",
               names[limit], bytes,
               __atomic_load_n(counter_at(own, limit, entry), __ATOMIC_RELAXED), t->holders,
               t->held, t->bound);
}

/* Under the lock. */
static enum zc_node_answer take(enum zc_node_limit limit, int device, uint64_t bytes, uint64_t most,
                                const char **why)
{
    if (!ready())
        return ZC_NODE_OWN;
    int entry = limit == ZC_NODE_PINNED ? 0 : entry_of(device);
    if (entry < 0)
        return ZC_NODE_OWN;
    const uint64_t *id = limit == ZC_NODE_PINNED ? NULL : gpus[device].id;
    struct tally *tally = tally_of(limit, (unsigned)entry);
    uint64_t *counter = counter_at(own, limit, (unsigned)entry);
    tally->most = limit == ZC_NODE_PINNED ? least_bound() : most;
    *why = "another process stopped while it used the file of budgets";
    if (!zc_roster_lock())
        return ZC_NODE_REFUSED;
    bool within =
        fits(limit, id, bytes, tally) || (zc_roster_reclaim() && fits(limit, id, bytes, tally));
    if (within) {
        uint64_t now = __atomic_add_fetch(counter, bytes, __ATOMIC_SEQ_CST);
        tally->own_peak = now > tally->own_peak ? now : tally->own_peak;
    }
    zc_roster_unlock();
    tally->refused += !within;
    *why = over[limit];
    return within ? ZC_NODE_COUNTED : ZC_NODE_REFUSED;
}

enum zc_node_answer zc_node_take(enum zc_node_limit limit, int device, uint64_t bytes,
                                 uint64_t most, const char **why)
{
    __atomic_store_n(&asked, true, __ATOMIC_RELAXED);
    if (!__atomic_load_n(&shares, __ATOMIC_ACQUIRE) || (limit != ZC_NODE_PINNED && !ask_id(device)))
        return ZC_NODE_OWN;
    *why = "libzc was interrupted by a signal handler";
    if (!zc_lock_take(&lock))
        return ZC_NODE_REFUSED;
    enum zc_node_answer answer = take(limit, device, bytes, most, why);
    zc_lock_drop(&lock);
    if (answer == ZC_NODE_REFUSED && *why == over[limit])
        tell(limit, device, bytes);
    return answer;
}

/* Without what processes that have ended still seem to hold.  Under the lock. */
static uint64_t left_of(enum zc_node_limit limit, int device, uint64_t most)
{
    uint64_t left = UINT64_MAX;
    unsigned holders, groups = limit == ZC_NODE_PINNED ? available.groups : 0;
    if (zc_roster_lock()) {
        zc_roster_reclaim();
        zc_roster_unlock();
    }
    for (unsigned i = 0; i <= groups; i++) {
        uint64_t held = held_by_all(limit, limit == ZC_NODE_PINNED ? NULL : gpus[device].id,
                                    i ? available.group[i - 1].id : 0, &holders);
        uint64_t within = limit == ZC_NODE_PINNED ? bound[i] : most;
        within = within > held ? within - held : 0;
        left = within < left ? within : left;
    }
    return left;
}

uint64_t zc_node_left(enum zc_node_limit limit, int device, uint64_t most)
{
    if (!__atomic_load_n(&shares, __ATOMIC_ACQUIRE) ||
        (limit != ZC_NODE_PINNED && !ask_id(device)) || !zc_lock_take(&lock))
        return UINT64_MAX;
    uint64_t left = ready() ? left_of(limit, device, most) : UINT64_MAX;
    zc_lock_drop(&lock);
    return left;
}

void zc_node_note(enum zc_node_limit limit, int device, int64_t bytes)
{
    struct zc_roster_slot *slot = __atomic_load_n(&own, __ATOMIC_ACQUIRE);
    uint32_t entry = 0;
    if (limit != ZC_NODE_PINNED && device >= 0 && device < DEVICES_MAX)
        entry = __atomic_load_n(&gpus[device].entry, __ATOMIC_ACQUIRE);
    if (slot && (limit == ZC_NODE_PINNED || entry) && owner == getpid())
        __atomic_fetch_add(counter_at(slot, limit, entry - 1), (uint64_t)bytes, __ATOMIC_SEQ_CST);
}

unsigned zc_node_processes(void)
{
    unsigned n = __atomic_load_n(&processes, __ATOMIC_RELAXED);
    return n ? n : 1;
}

/* Leaves the summary its rows. */
static void finish(void)
{
    struct zc_log_budgets *out = &zc_log_budgets;
    out->alone = asked ? alone : NULL;
    out->rows = 0;
    if (!own || owner != getpid())
        return;
    if (pinned_tally.own_peak || pinned_tally.refused)
        describe(ZC_NODE_PINNED, -1, 0, &out->row[out->rows++]);
    for (int d = 0; d < DEVICES_MAX; d++)
        for (unsigned kind = 0; kind < 2 && gpus[d].entry; kind++) {
            const struct tally *t = &gpu_tally[gpus[d].entry - 1][kind];
            if ((t->own_peak || t->refused) && out->rows < ZC_LOG_BUDGETS)
                describe(kind ? ZC_NODE_DEVICE : ZC_NODE_MANAGED, d, gpus[d].entry - 1,
                         &out->row[out->rows++]);
        }
}

const struct zc_module zc_module_node = {.finish = finish};
