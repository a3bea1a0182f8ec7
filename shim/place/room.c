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

/* Bytes of the least block that moves, without `chunk`. */
#define ROOM_LEAST ((uint64_t)32 << 20)

/* A block that comes to the device leaves such a part of it to what kernels need themselves. */
#define ROOM_SPARE_PART 64

uint64_t zc_room_least(const struct zc_rule *rule)
{
    uint64_t least = rule->chunk ? rule->chunk : ROOM_LEAST;
    return rule->spill < ZC_SPILL_MOVE ? UINT64_MAX : least > ZC_BLOCK_UNIT ? least : ZC_BLOCK_UNIT;
}

static uint64_t room_lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t room_minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t zc_room_left(const struct zc_rule *rule, int device, bool counted)
{
    size_t available = 0, total = 0;
    uint64_t budget = counted ? zc_budget_left(rule, device) : UINT64_MAX;
    uint64_t left = room_lesser(zc_limits_left(ZC_PLACE_DEVICE, device), budget);
    if (!left || zc_real.cuMemGetInfo_v2(&available, &total) != CUDA_SUCCESS)
        return left;
    uint64_t kept = zc_lazy_promised(device) + total / ROOM_SPARE_PART;
    return room_lesser(left, room_minus(available + zc_modules_idle_bytes(), kept));
}

static uint64_t room_largest_in(enum zc_place_id place, const struct zc_rule *rule,
                                const struct zc_room *r, uint64_t budget)
{
    uint64_t whole = room_lesser(room_lesser(r->device, r->limit), budget);
    switch (place) {
    case ZC_PLACE_VMM:
        return r->pinned > whole && r->pinned >= zc_room_least(rule) ? r->pinned : whole;
    case ZC_PLACE_DEVICE:
    case ZC_PLACE_SHARED:
        return whole;
    case ZC_PLACE_MANAGED:
        return room_lesser(room_lesser(r->device, r->managed), budget);
    case ZC_PLACE_MAPPED:
        return room_lesser(r->pinned, budget);
    default:
        return 0;
    }
}

uint64_t zc_room_largest(const struct zc_rule *rule, const struct zc_room *r)
{
    uint64_t largest = 0;
    if (!rule)
        return room_lesser(r->device, r->limit);
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
        o->bytes += b->size;
    return true;
}

uint64_t zc_room_lacking(int device, bool mapped)
{
    int devices = 1;
    uint64_t elsewhere = zc_limits_used(ZC_PLACE_MANAGED);
    if (mapped)
        elsewhere += room_minus(zc_limits_used(ZC_PLACE_MAPPED),
                                __atomic_load_n(&zc_move_cached, __ATOMIC_RELAXED) +
                                    __atomic_load_n(&zc_vmm_counts.homes, __ATOMIC_RELAXED));
    zc_real.cuDeviceGetCount(&devices);
    struct room_others others = {.device = device, .mapped = mapped};
    if (elsewhere && devices > 1)
        zc_block_each(room_count_other, &others);
    return room_minus(elsewhere, others.bytes) + zc_lazy_promised(device);
}

struct zc_room zc_room_now(int device, uint64_t free)
{
    return (struct zc_room){.device = free / ZC_BLOCK_UNIT * ZC_BLOCK_UNIT,
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
