/* SPDX-License-Identifier: MIT */
/* Memory that growing arrays get beyond their requests. */
#include "vmm/headroom.h"

#include "base/module.h"

#include <string.h>

#define AHEAD ((size_t)512 << 20)
#define PART 256
#define DEVICES_MAX 64 /* As many as vmm serves. */

static size_t taken[DEVICES_MAX]; /* Headroom in use, by device. */

/* Bytes of headroom that all arrays of a device may still get. */
static size_t left(int device)
{
    size_t total = 0;
    if (zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS ||
        total / PART <= taken[device])
        return 0;
    return total / PART - taken[device];
}

static size_t wanted(const struct zc_vmm *v)
{
    if (v->span < AHEAD)
        return AHEAD - v->span;
    return v->span - v->held < v->span / 8 ? v->span / 8 : 0;
}

bool zc_headroom_take(struct zc_vmm *v)
{
    /* If the rule sets `chunk` or a limit, do not allocate more than was requested. */
    if (!v->growth->previous || v->headroom || v->chunk_size || v->bound)
        return false;
    size_t more = wanted(v), most = left(v->device), room = v->va.size - v->span;
    most = most < room ? most : room;
    v->headroom = (more < most ? more : most) / v->granularity * v->granularity;
    v->span += v->headroom;
    taken[v->device] += v->headroom;
    return v->headroom;
}

void zc_headroom_give(struct zc_vmm *v)
{
    taken[v->device] -= v->headroom;
    v->span -= v->headroom;
    v->headroom = 0;
}

void zc_headroom_move(struct zc_vmm *to, struct zc_vmm *from)
{
    size_t more = from->span > to->span ? from->span - to->span : 0;
    zc_headroom_give(from);
    to->headroom = more;
    to->span += more;
    taken[to->device] += more;
}

static void in_child(void)
{
    memset(taken, 0, sizeof(taken));
}

const struct zc_module zc_module_headroom = {.child = in_child};
