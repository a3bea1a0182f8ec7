/* SPDX-License-Identifier: MIT */
/* The room that devices have for blocks. */
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

/* A block that is split because the device is full leaves this part of it to what kernels need
 * themselves. */
#define ROOM_SPARE_PART 64

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
    uint64_t kept = zc_lazy_promised(device) + total / ROOM_SPARE_PART;
    available += zc_modules_idle_bytes();
    return room_least(left, available > kept ? available - kept : 0);
}

struct room_others {
    int device;
    uint64_t bytes;
};

/* Counts memory requested from other devices that lies elsewhere. */
static bool room_count_other(struct zc_block *b, void *arg)
{
    struct room_others *o = arg;
    bool hosted = b->place == ZC_PLACE_MAPPED || zc_block_spilled(b);
    if ((hosted || b->place == ZC_PLACE_MANAGED) && (b->flags & ZC_BLOCK_CONVERTED) &&
        b->asked == ZC_KIND_DEVICE && b->device != o->device)
        o->bytes += zc_block_spilled(b) ? zc_block_spilled(b) : b->size;
    return true;
}

static uint64_t room_minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

uint64_t zc_room_lacking(int device)
{
    int devices = 1;
    uint64_t elsewhere = zc_limits_used(ZC_PLACE_MANAGED) +
                         room_minus(zc_limits_used(ZC_PLACE_MAPPED),
                                    __atomic_load_n(&zc_move_cached, __ATOMIC_RELAXED));
    zc_real.cuDeviceGetCount(&devices);
    struct room_others others = {.device = device};
    if (elsewhere && devices > 1)
        zc_block_each(room_count_other, &others);
    return room_minus(elsewhere, others.bytes) + zc_lazy_promised(device);
}

bool zc_room_for_bare(int device, size_t bytes, bool anywhere)
{
    if (!zc_limits_device_holds(device, bytes, anywhere))
        return false;
    zc_lazy_before_request(device, bytes);
    return true;
}
