/* SPDX-License-Identifier: MIT */
/* The largest block that a rule would place. */
#include "place/room.h"

#include "base/module.h"
#include "driver/real.h"
#include "ledger/block.h"
#include "memory/budget.h"
#include "memory/limits.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

/* Bytes of a part without `chunk`. */
#define ROOM_PART ((uint64_t)32 << 20)

#define ROOM_SPARE_PART 64

/* A block that is split because the device is full leaves so much to what kernels need
 * themselves. */
static uint64_t room_spare(uint64_t total)
{
    return total / ROOM_SPARE_PART;
}

uint64_t zc_room_part(const struct zc_rule *rule)
{
    uint64_t chunk = rule->chunk < SIZE_MAX / 2 ? rule->chunk : SIZE_MAX / 2;
    return chunk ? (chunk + ZC_BLOCK_UNIT - 1) / ZC_BLOCK_UNIT * ZC_BLOCK_UNIT : ROOM_PART;
}

static uint64_t room_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t zc_room_whole(const struct zc_rule *rule, int device)
{
    size_t total = 0;
    if (rule->spill != ZC_SPILL_MOVE || rule->commit == ZC_COMMIT_LAZY)
        return 0;
    if (zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        total = SIZE_MAX;
    return room_least(room_least(total, zc_limits_device_most(device)), zc_budget_of(rule, device));
}

uint64_t zc_room_left(const struct zc_rule *rule, int device, bool counted, bool full)
{
    size_t available = 0, total = 0;
    uint64_t budget = counted ? zc_budget_left(rule, device) : UINT64_MAX;
    uint64_t left = room_least(zc_limits_left(ZC_PLACE_DEVICE, device), budget);
    if (!full || zc_real.cuMemGetInfo_v2(&available, &total) != CUDA_SUCCESS)
        return left;
    uint64_t kept = zc_lazy_promised(device) + room_spare(total);
    available += zc_modules_idle_bytes();
    return room_least(left, available > kept ? available - kept : 0);
}

/* Of a block whose first parts, as many as fit, are on the device (place/fallback.c). */
static uint64_t room_split(const struct zc_rule *rule, const struct zc_room *r, uint64_t budget)
{
    uint64_t part = zc_room_part(rule), placed = room_least(r->limit, budget);
    if (placed > r->device)
        placed = r->device > r->spare ? r->device - r->spare : 0;
    uint64_t bytes = placed / part * part + r->pinned;
    return bytes >= part ? bytes : 0;
}

static uint64_t room_largest_in(enum zc_place_id place, const struct zc_rule *rule,
                                const struct zc_room *r, uint64_t budget)
{
    uint64_t whole = room_least(room_least(r->device, r->limit), budget), parts = 0;
    switch (place) {
    case ZC_PLACE_VMM:
        if (rule->spill != ZC_SPILL_NONE)
            parts = room_split(rule, r, budget);
        if (r->whole && parts <= r->whole)
            parts = r->pinned < zc_room_part(rule) ? 0 : r->pinned;
        return parts > whole ? parts : whole;
    case ZC_PLACE_DEVICE:
    case ZC_PLACE_SHARED:
        return whole;
    case ZC_PLACE_MANAGED:
        return room_least(room_least(r->device, r->managed), budget);
    case ZC_PLACE_MAPPED:
        return room_least(r->pinned, budget);
    default:
        return 0;
    }
}

uint64_t zc_room_largest(const struct zc_rule *rule, const struct zc_room *r)
{
    uint64_t largest = 0;
    if (!rule)
        return room_least(r->device, r->limit);
    for (unsigned i = 0; i < rule->place.count; i++) {
        uint64_t budget = i == 0 ? r->budget : UINT64_MAX;
        uint64_t bytes = room_largest_in(rule->place.item[i], rule, r, budget);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

struct room_others {
    int device;
    bool mapped; /* Host memory counts. */
    uint64_t bytes;
};

/* Counts memory requested from other devices that lies elsewhere. */
static bool room_count_other(struct zc_block *b, void *arg)
{
    struct room_others *o = arg;
    bool hosted = o->mapped && (b->place == ZC_PLACE_MAPPED || zc_block_spilled(b));
    if ((hosted || b->place == ZC_PLACE_MANAGED) && (b->flags & ZC_BLOCK_CONVERTED) &&
        b->asked == ZC_KIND_DEVICE && b->device != o->device)
        o->bytes += zc_block_spilled(b) ? zc_block_spilled(b) : b->size;
    return true;
}

static uint64_t room_minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t zc_room_lacking(int device, bool mapped)
{
    int devices = 1;
    uint64_t elsewhere = zc_limits_used(ZC_PLACE_MANAGED);
    if (mapped)
        elsewhere += room_minus(zc_limits_used(ZC_PLACE_MAPPED),
                                __atomic_load_n(&zc_move_cached, __ATOMIC_RELAXED));
    zc_real.cuDeviceGetCount(&devices);
    struct room_others others = {.device = device, .mapped = mapped};
    if (elsewhere && devices > 1)
        zc_block_each(room_count_other, &others);
    return room_minus(elsewhere, others.bytes) + zc_lazy_promised(device);
}

struct zc_room zc_room_now(int device, uint64_t free, uint64_t total)
{
    return (struct zc_room){.device = free / ZC_BLOCK_UNIT * ZC_BLOCK_UNIT,
                            .spare = room_spare(total),
                            .limit = zc_limits_left(ZC_PLACE_DEVICE, device),
                            .managed = zc_limits_left(ZC_PLACE_MANAGED, device),
                            .pinned = zc_limits_left(ZC_PLACE_MAPPED, -1) +
                                      __atomic_load_n(&zc_move_cached, __ATOMIC_RELAXED)};
}

bool zc_room_for_bare(int device, size_t bytes, bool anywhere)
{
    if (!zc_limits_device_holds(device, bytes, anywhere))
        return false;
    zc_lazy_before_request(device, bytes);
    return true;
}
