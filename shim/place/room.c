/* SPDX-License-Identifier: MIT */
/* Room for blocks: on a device, and beside what it was asked for. */
#include "place/room.h"

#include "driver/real.h"
#include "ledger/block.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "vmm/lazy.h"

/* Bytes of the least block that moves, without `chunk`. */
#define ROOM_LEAST ((uint64_t)32 << 20)

/* A block that comes to the device leaves such a part of it to what kernels need themselves. */
#define ROOM_SPARE_PART 64

/* A block that is split leaves such a part of what there is to others, which come later. */
#define ROOM_OTHERS_PART 6

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
    size_t total = 0;
    uint64_t budget = counted ? zc_budget_left(rule, device) : UINT64_MAX;
    uint64_t left = room_lesser(zc_limits_left(ZC_PLACE_DEVICE, device), budget);
    if (!left || zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return left;
    uint64_t kept = zc_lazy_promised(device) + total / ROOM_SPARE_PART;
    return room_lesser(left, room_minus(zc_device_free(device), kept));
}

uint64_t zc_room_beyond(const struct zc_rule *rule, int device, bool counted, uint64_t bytes)
{
    const struct zc_vmm_facts *f = zc_vmm_facts(device);
    uint64_t most = room_lesser(f ? f->total : UINT64_MAX, zc_limits_most(device));
    most = room_lesser(most, counted ? zc_budget_most(rule, device) : UINT64_MAX);
    if (bytes <= most || rule->commit == ZC_COMMIT_LAZY)
        return 0;
    uint64_t left = room_minus(zc_room_left(rule, device, counted), most / ROOM_OTHERS_PART);
    return bytes - left / ZC_BLOCK_UNIT * ZC_BLOCK_UNIT;
}

/* Bytes requested from a device that are managed, in host memory, or have no memory yet. */
static uint64_t room_lacking(int device)
{
    return zc_limits_used(ZC_PLACE_MANAGED, device) + zc_limits_used(ZC_PLACE_MAPPED, device) +
           zc_lazy_promised(device);
}

void zc_room_report(int device, size_t *free, size_t *total)
{
    bool bound = zc_limits_device_bound();
    if (free) {
        uint64_t idle = bound ? zc_device_free(device) : *free;
        idle = room_lesser(idle, zc_limits_left(ZC_PLACE_DEVICE, device));
        *free = room_minus(idle, room_lacking(device));
    }
    if (total)
        *total = room_lesser(*total, zc_limits_most(device));
}

bool zc_room_for_bare(int device, size_t bytes, bool anywhere)
{
    if (!zc_limits_device_holds(device, bytes, anywhere))
        return false;
    zc_lazy_before_request(device, bytes);
    return true;
}
