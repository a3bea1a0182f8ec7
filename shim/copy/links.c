/* SPDX-License-Identifier: MIT */
/*
 * Copies over the links of several GPUs.  A peer's link has a context of libzc's own, so that
 * nothing the program can ask of the peer's primary context changes: whether it is active, its peer
 * access, the error of a kernel that failed in it.
 *
 * A link's chunks take turns in its slots: a stream and a buffer each, so that the order of the
 * stream alone keeps a buffer from being written before it was read.  A link works for one stream
 * of the program at a time; work of another one queued behind it would have to wait for the first.
 *
 * Parts are equal: what the host's memory carries bounds all links alike (four H200).
 */
#include "copy/links.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/job.h"
#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/text.h"
#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "log/lines.h"
#include "memory/device.h"
#include "memory/place.h"
#include "vmm/access.h"

#define SLOTS 3u
#define CHUNK ((size_t)16 << 20) /* Bytes of a slot's buffer. */
#define UNIT ((size_t)2 << 20)   /* Parts are multiples of it. */
#define CHUNKS_LEAST 4u          /* Of a short part: the last one's way over NVLink counts. */

/* `links = idle`: bytes of large copies after which a context on one more peer is made: to wait for
 * them over the own link takes about as long as that. */
#define PAYS ((uint64_t)8 << 30)

/* `links = idle`: so many copies in a row without a large one, and the contexts are given back. */
#define SMALL_MOST 4096u

/* Of a GPU's memory the context and buffers here, and what its driver keeps, take less; with
 * another process on it there is more. */
#define ALONE ((size_t)1 << 30)
#define ASKED_AGAIN_NS UINT64_C(100000000)

#define MOVES UINT64_MAX /* Of moves, in place of zc_stream_id(): they wait for no program. */

/* The link of a device.  Fields belong to the thread that has claimed it. */
struct link {
    uint32_t claimed;  /* Atomic. */
    bool lost;         /* It can't be made, or the driver has refused to use it. */
    CUcontext context; /* libzc's own, on the peer; NULL: not made. */
    CUdeviceptr buffer;
    CUstream stream[SLOTS];
    CUevent passed[SLOTS]; /* Behind the work of each slot; the first behind that of all. */
    CUcontext reached;     /* The peer has access to its memory; or NULL.  Atomic. */
    uint64_t served;       /* zc_stream_id() of the last copy. */
    uint64_t port;         /* port_of(); 0: not asked yet.  Atomic. */
    uint64_t asked;        /* When it was asked whether other processes are there. */
};

static ZC_OWN struct {
    uint64_t bytes; /* Of all large copies.  Atomic. */
    unsigned made;  /* Contexts, ever.  Atomic. */
    unsigned small; /* Copies since the last large one.  Atomic. */
    struct link of[ZC_LINKS_MAX];
} links;

struct job {
    struct zc_copy *c;
    CUdeviceptr host, device;
    CUcontext context;       /* The current one, of the copy and its device block. */
    uint64_t stream;         /* zc_stream_id() */
    CUevent begin;           /* Behind what the stream had to do before the copy. */
    bool in;                 /* To the device. */
    int8_t own;              /* The device. */
    uint8_t first, step;     /* The slots that its chunks take turns in. */
    struct zc_va *const *va; /* As zc_links_copy() got it. */
    size_t part;             /* Bytes of each peer's part. */
    const char *why;         /* Why a peer is not used. */
};

static bool is_pinned(const struct zc_operand *b, uint64_t bytes)
{
    return b->block && b->asked != ZC_KIND_DEVICE && b->real == ZC_KIND_PINNED &&
           !(b->block->flags & ZC_BLOCK_READ_ONLY) && !zc_is_mapping(b->block) &&
           !zc_pinned_stuck(b->extent) && bytes <= b->block->base + b->block->size - b->address;
}

/* Peer access covers what cuMemAlloc has given, not pools and mappings. */
static bool is_allocated(const struct zc_operand *b, uint64_t bytes)
{
    const unsigned other = ZC_BLOCK_CONVERTED | ZC_BLOCK_STREAM | ZC_BLOCK_FOREIGN;
    CUcontext current;
    return zc_operand_on_device(b, bytes) && !(b->block->flags & other) &&
           (b->block->api == ZC_API_cuMemAlloc || b->block->api == ZC_API_cuMemAllocPitch) &&
           b->block->device < ZC_LINKS_MAX && zc_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
           current == b->block->context;
}

uint32_t zc_links_facts(const struct zc_copy *c)
{
    bool sides = zc_links_large(c) && !c->order && !(c->facts & ZC_FACT_SHARED) &&
                 ((is_pinned(&c->src, c->bytes) && is_allocated(&c->dst, c->bytes)) ||
                  (is_pinned(&c->dst, c->bytes) && is_allocated(&c->src, c->bytes)));
    return ZC_FACT_IF(LINKS, sides && zc_stream_here(c->stream, c->flavour));
}

static void link_end(struct link *link)
{
    if (link->context)
        zc_real.cuCtxDestroy_v2(link->context);
    link->context = NULL;
    __atomic_store_n(&link->reached, NULL, __ATOMIC_RELAXED);
    link->lost = true;
}

static void link_lose(struct link *link, const char *call)
{
    if (!link->lost)
        zc_message(ZC_WARN, "links", "the link of device %d is not used any more: %s failed",
                   (int)(link - links.of), call);
    link->lost = true;
}

/* Makes the buffer, streams and events of a link, in its context, which is current. */
static bool link_furnish(struct link *link)
{
    bool made = zc_real.cuMemAlloc_v2(&link->buffer, SLOTS * CHUNK) == CUDA_SUCCESS;
    for (unsigned i = 0; i < SLOTS && made; i++)
        made = zc_real.cuStreamCreate(&link->stream[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
               zc_real.cuEventCreate(&link->passed[i], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    return made;
}

static void link_make(struct link *link, int peer)
{
    char buffer[160];
    struct zc_text text = zc_text_on(buffer, sizeof(buffer));
    uint64_t start = zc_ticks();
    CUcontext popped;
    bool made = zc_real.cuCtxCreate_v2(&link->context, 0, peer) == CUDA_SUCCESS;
    if (!made)
        link->context = NULL;
    bool furnished = made && link_furnish(link);
    if (made)
        zc_real.cuCtxPopCurrent_v2(&popped);
    if (!furnished) {
        link_lose(link, made ? "making a buffer and streams there" : "cuCtxCreate");
        link_end(link);
        return;
    }
    __atomic_fetch_add(&links.made, 1, __ATOMIC_RELAXED);
    zc_text_fmt(&text,
                "large copies take the link of device %d, too: a context and %B there, "
                "made in %U ms",
                peer, (uint64_t)(SLOTS * CHUNK), zc_ticks_to_ns(zc_ticks() - start) / 1000000);
    zc_log_warn(ZC_NOTE, "links", zc_text_cstr(&text));
}

/* A copy between peers without NVLink would come over the device's own link after all.  A context
 * keeps other processes from a device in an exclusive mode. */
static const char *peer_refusal(int peer, int own)
{
    int reaches = 0, native = 0;
    if (zc_device_has(peer, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE))
        return "its compute mode gives a GPU to one process";
    if (zc_real.cuDeviceCanAccessPeer(&reaches, peer, own) != CUDA_SUCCESS || !reaches)
        return "it reaches no peer";
    if (zc_real.cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                                        peer, own) != CUDA_SUCCESS ||
        !native)
        return "no NVLink leads to another";
    return NULL;
}

/* The second one is not behind the first where a block leaves. */
static CUresult link_state(const struct link *link)
{
    CUresult state = zc_real.cuEventQuery(link->passed[0]);
    return state == CUDA_SUCCESS ? zc_real.cuEventQuery(link->passed[1]) : state;
}

static bool context_rests(CUcontext context, int peer)
{
    CUdevice device = -1;
    bool pushed;
    if (zc_leaving(context) || zc_context_push(context, &pushed) != CUDA_SUCCESS)
        return false;
    bool other = zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device != peer;
    bool rests = other || zc_stream_rests_in(context, 0);
    zc_context_pop(pushed);
    return rests;
}

/* True if the program has given the peer nothing to do. */
static bool peer_rests(const struct job *job, int peer)
{
    bool known = false, rests = true;
    ZC_DRIVER_HELD mine = zc_driver_lock();
    CUcontext context;
    if (!mine && !job->va)
        return false;
    for (unsigned i = 0; rests && (context = zc_context_at(i, &known)); i++)
        rests = context_rests(context, peer);
    return rests && known;
}

/* True if the link has nothing to do, or something for the same stream. */
static bool link_free(const struct job *job, struct link *link)
{
    CUresult state = link_state(link);
    if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY)
        link_lose(link, "cuEventQuery");
    return !link->lost && (state == CUDA_SUCCESS || (job->stream && link->served == job->stream));
}

/* `links = idle`: gives a link back whose GPU another process works on as well, or will.  The
 * driver tells of its memory alone, and that only where the program itself has none there. */
static bool link_alone(struct link *link, int peer)
{
    size_t left = 0, total = 0;
    unsigned flags;
    int active;
    bool pushed;
    if (zc_ticks_to_ns(zc_ticks() - link->asked) < ASKED_AGAIN_NS ||
        zc_real.cuDevicePrimaryCtxGetState(peer, &flags, &active) != CUDA_SUCCESS || active)
        return true;
    if (zc_context_push(link->context, &pushed) != CUDA_SUCCESS)
        return false;
    bool alone = zc_real.cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS && total - left <= ALONE;
    zc_context_pop(pushed);
    if (alone) {
        link->asked = zc_ticks();
        return true;
    }
    if (link_state(link) != CUDA_SUCCESS)
        return false;
    zc_message(ZC_NOTE, "links",
               "the link of device %d is not used any more: another process has memory there",
               peer);
    link_end(link);
    return false;
}

static bool link_usable(struct job *job, struct link *link, int peer)
{
    bool idle = zc_rules()->links == ZC_LINKS_IDLE;
    bool known = link->lost || link->reached == job->context;
    const char *refusal = known ? NULL : peer_refusal(peer, job->own);
    if (refusal)
        job->why = refusal;
    if (link->lost || refusal || (idle && !peer_rests(job, peer)))
        return false;
    bool pays = !idle || __atomic_load_n(&links.bytes, __ATOMIC_RELAXED) >=
                             PAYS * (1 + __atomic_load_n(&links.made, __ATOMIC_RELAXED));
    if (!link->context && pays)
        link_make(link, peer);
    return link->context && link_free(job, link) && (!idle || link_alone(link, peer)) &&
           (!job->va || (zc_access_let_copy(job->va[0], peer) == CUDA_SUCCESS &&
                         zc_access_let_copy(job->va[1], peer) == CUDA_SUCCESS));
}

/* A number that is the same for all devices below one port of the host, by where a device's link in
 * /sys/bus/pci/devices leads: `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0` is a host
 * bridge, its port, and what is below that.  Not 0. */
static uint64_t port_below(const char *path)
{
    const char *bridge = strstr(path, "/pci");
    const char *port = bridge ? strchr(bridge + 1, '/') : NULL;
    const char *end = port ? strchr(port + 1, '/') : NULL;
    return end ? zc_hash(bridge, (size_t)(end - bridge)) : zc_hash(path, strlen(path));
}

/* A device is taken for alone where sysfs does not say. */
static uint64_t port_of(int device)
{
    uint64_t *known = &links.of[device].port, port = __atomic_load_n(known, __ATOMIC_RELAXED);
    char bus[32], buffer[64], path[PATH_MAX];
    struct zc_text link = zc_text_on(buffer, sizeof(buffer));
    if (port)
        return port;
    if (zc_real.cuDeviceGetPCIBusId(bus, sizeof(bus), device) != CUDA_SUCCESS)
        return (uint64_t)device;
    for (char *c = bus; *c; c++)
        *c = (char)tolower(*c);
    zc_text_fmt(&link, "/sys/bus/pci/devices/%s", bus);
    ssize_t n = readlink(zc_text_cstr(&link), path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    __atomic_store_n(known, port = port_below(n < 0 ? bus : path), __ATOMIC_RELAXED);
    return port;
}

/* `links = idle`: two devices below one port get no more than one of them alone.  A virtual machine
 * may show ports that are not there, so a number of links takes them all the same. */
static bool port_taken(struct job *job, int peer, const uint8_t *peers, unsigned count)
{
    bool taken = port_of(peer) == port_of(job->own);
    for (unsigned i = 0; i < count; i++)
        taken = taken || port_of(peer) == port_of(peers[i]);
    if (taken)
        job->why = "the others share a PCIe port with it (links = N takes them)";
    return taken;
}

static bool link_claim(struct link *link)
{
    return !__atomic_exchange_n(&link->claimed, 1, __ATOMIC_ACQUIRE);
}

static void link_release(struct link *link)
{
    __atomic_store_n(&link->claimed, 0, __ATOMIC_RELEASE);
}

/* Claims the peers whose links can carry a part now; returns their number. */
static unsigned claim_links(struct job *job, uint8_t peers[ZC_LINKS_MAX])
{
    int devices = 0;
    unsigned count = 0, most = zc_rules()->links;
    if (most == ZC_LINKS_IDLE && zc_job()->local_world > 1) {
        job->why = "other ranks of the job use the host's GPUs";
        return 0;
    }
    if (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < 2)
        job->why = "the process sees no other GPU";
    for (int peer = 0; peer < devices && peer < ZC_LINKS_MAX && count + 1 < most; peer++) {
        struct link *link = &links.of[peer];
        if (peer == job->own || (most == ZC_LINKS_IDLE && port_taken(job, peer, peers, count)) ||
            !link_claim(link))
            continue;
        if (link_usable(job, link, peer))
            peers[count++] = (uint8_t)peer;
        else
            link_release(link);
    }
    return count;
}

/* Bytes of the copy between host memory and the device's, or a peer's buffer. */
static CUresult over_link(const struct job *job, enum zc_flavour flavour, CUdeviceptr device,
                          size_t at, size_t n, CUstream stream)
{
    void *host = (void *)(job->host + at);
    if (job->va)
        return zc_real.cuMemcpyDtoDAsync_v2(job->in ? device : job->host + at,
                                            job->in ? job->host + at : device, n, stream);
    return job->in ? ZC_FLAVOURED(flavour, cuMemcpyHtoDAsync_v2)(device, host, n, stream)
                   : ZC_FLAVOURED(flavour, cuMemcpyDtoHAsync_v2)(host, device, n, stream);
}

/* By the device's own link, in the copy's stream. */
static CUresult send_own(struct job *job, size_t at, size_t n)
{
    job->c->copies++;
    return over_link(job, job->c->flavour, job->device + at, at, n, job->c->stream);
}

/* Bytes of the copy between a peer's buffer and the device's memory. */
static CUresult over_peer(const struct job *job, const struct link *link, CUdeviceptr buffer,
                          size_t at, size_t n, CUstream stream)
{
    CUdeviceptr to = job->in ? job->device + at : buffer,
                from = job->in ? buffer : job->device + at;
    CUcontext near = job->context, far = link->context;
    return job->va ? zc_real.cuMemcpyDtoDAsync_v2(to, from, n, stream)
                   : zc_real.cuMemcpyPeerAsync(to, job->in ? near : far, from, job->in ? far : near,
                                               n, stream);
}

static bool send_chunk(struct job *job, const struct link *link, unsigned slot, size_t at, size_t n)
{
    CUdeviceptr buffer = link->buffer + slot * CHUNK;
    CUstream stream = link->stream[slot];
    CUresult result = job->in ? over_link(job, ZC_LEGACY, buffer, at, n, stream)
                              : over_peer(job, link, buffer, at, n, stream);
    if (result == CUDA_SUCCESS)
        result = job->in ? over_peer(job, link, buffer, at, n, stream)
                         : over_link(job, ZC_LEGACY, buffer, at, n, stream);
    if (result != CUDA_SUCCESS)
        return false;
    job->c->copies++;
    zc_traffic_own(zc_flow(ZC_DIR_PTOP, ZC_KIND_DEVICE, ZC_KIND_DEVICE), n);
    return true;
}

/* Lets a link begin behind the copy's stream.  Its context is current.  To ask for access again
 * would take 33 us (one H200). */
static bool link_open(const struct job *job, struct link *link)
{
    bool known = link->reached == job->context;
    CUresult result = known ? CUDA_SUCCESS : zc_real.cuCtxEnablePeerAccess(job->context, 0);
    bool open = result == CUDA_SUCCESS || result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    __atomic_store_n(&link->reached, open ? job->context : NULL, __ATOMIC_RELAXED);
    link->served = job->stream;
    for (unsigned i = job->first; i < SLOTS && open; i += job->step)
        open = zc_real.cuStreamWaitEvent(link->stream[i], job->begin, 0) == CUDA_SUCCESS;
    return open;
}

/* Puts an event behind all that a link's slots have to do.  Its context is current. */
static bool link_join(const struct job *job, struct link *link)
{
    bool joined = true;
    unsigned first = job->first;
    for (unsigned i = first + job->step; i < SLOTS && joined; i += job->step)
        joined = zc_real.cuEventRecord(link->passed[i], link->stream[i]) == CUDA_SUCCESS &&
                 zc_real.cuStreamWaitEvent(link->stream[first], link->passed[i], 0) == CUDA_SUCCESS;
    return joined &&
           zc_real.cuEventRecord(link->passed[first], link->stream[first]) == CUDA_SUCCESS;
}

/* Waits for the chunks, if no event could be put behind them.  False if they have failed. */
static bool link_drain(struct link *link)
{
    bool arrived = true;
    for (unsigned i = 0; i < SLOTS; i++)
        arrived &= zc_real.cuStreamSynchronize(link->stream[i]) == CUDA_SUCCESS;
    return arrived;
}

/* Gives a peer's link the part that begins at `at`, and lets the copy's stream wait for it. Returns
 * how many bytes of it the own link has not to carry, from its beginning on. */
static size_t links_send_part(struct job *job, struct link *link, size_t at)
{
    const struct zc_copy *c = job->c;
    size_t sent = 0, chunk = job->part / CHUNKS_LEAST;
    chunk = chunk < CHUNK ? chunk : CHUNK;
    bool pushed;
    bool right = zc_context_push(link->context, &pushed) == CUDA_SUCCESS && link_open(job, link);
    for (unsigned slot = job->first; right && sent < job->part; slot += job->step) {
        slot = slot < SLOTS ? slot : job->first;
        size_t left = job->part - sent, n = left < chunk ? left : chunk;
        right = send_chunk(job, link, slot, at + sent, n);
        sent += right ? n : 0;
    }
    bool waits = link_join(job, link);
    zc_context_pop(pushed);
    waits = waits && ZC_FLAVOURED(c->flavour, cuStreamWaitEvent)(
                         c->stream, link->passed[job->first], 0) == CUDA_SUCCESS;
    if (!right || !waits)
        link_lose(link, "a call about a part of a copy");
    return waits || link_drain(link) ? sent : 0;
}

/* The own link's part comes first: what the driver objects to in the copy it says there, before a
 * byte has moved. */
static void send_all(struct job *job, const uint8_t *peers, unsigned count)
{
    struct zc_copy *c = job->c;
    job->part = c->bytes / (count + 1) / UNIT * UNIT;
    size_t at = c->bytes - count * job->part;
    c->copies = 0;
    c->result = send_own(job, 0, at);
    for (unsigned i = 0; i < count && c->result == CUDA_SUCCESS; i++, at += job->part) {
        size_t sent = links_send_part(job, &links.of[peers[i]], at);
        if (sent < job->part)
            c->result = send_own(job, at + sent, job->part - sent);
        c->links += sent > 0;
    }
    zc_real.cuEventDestroy_v2(job->begin);
}

/* The call waits where the driver's own copy would, or one of pageable memory.  A policy whose key
 * has no effect is told why. */
bool zc_links_copy(struct zc_copy *c, struct zc_va *const *va)
{
    bool in = c->dst.asked == ZC_KIND_DEVICE;
    const struct zc_operand *host = in ? &c->src : &c->dst, *device = in ? &c->dst : &c->src;
    struct job job = {.c = c,
                      .va = va,
                      .host = host->address,
                      .device = device->address,
                      .context = va ? va[0]->context : device->block->context,
                      .own = (int8_t)(va ? va[0]->device : device->block->device),
                      .stream = va ? MOVES : zc_stream_id(c->stream, c->flavour),
                      .first = va && !in, /* One slot for what leaves, as both go at once. */
                      .step = va ? 2 : 1,
                      .in = in};
    uint8_t peers[ZC_LINKS_MAX];
    if (va && (c->bytes < ZC_LINKS_LEAST || job.own >= ZC_LINKS_MAX))
        return false;
    CUstreamCaptureMode before = zc_capture_relax();
    __atomic_fetch_add(&links.bytes, c->bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&links.small, 0, __ATOMIC_RELAXED);
    unsigned count = claim_links(&job, peers);
    job.begin = count ? zc_stream_mark_here(c->stream, c->flavour) : NULL;
    if (job.begin)
        send_all(&job, peers, count);
    for (unsigned i = 0; i < count; i++)
        link_release(&links.of[peers[i]]);
    zc_capture_restore(before);
    if (!count && job.why && zc_message_first("links"))
        zc_message(ZC_NOTE, "links", "large copies of device %d keep to its own link: %s", job.own,
                   job.why);
    if (job.begin && c->result == CUDA_SUCCESS && (!c->async || c->dst.staged || c->src.staged))
        c->result = zc_staged_wait(c);
    return job.begin;
}

/* Gives the context on a device back, if there is one and it has nothing to do. */
static bool links_give_back(int device, bool lost)
{
    struct link *link = &links.of[device];
    if (!link_claim(link))
        return false;
    bool given = link->context && link_state(link) == CUDA_SUCCESS;
    if (given)
        link_end(link);
    link->lost = given ? lost : link->lost;
    link_release(link);
    return given;
}

/* The current device is short of memory: gives the context there back, with all that it has, and
 * makes no other one. */
static unsigned links_reclaim(int place)
{
    CUdevice device;
    return (place == ZC_PLACE_COUNT || place == ZC_PLACE_DEVICE) &&
           zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device < ZC_LINKS_MAX &&
           links_give_back(device, true);
}

void zc_links_small(void)
{
    if (__atomic_add_fetch(&links.small, 1, __ATOMIC_RELAXED) != SMALL_MOST || zc_capture_any() ||
        zc_life_closing())
        return;
    for (int i = 0; i < ZC_LINKS_MAX; i++)
        if (links_give_back(i, false))
            zc_log_warn(ZC_NOTE, "links", "a context is given back, as copies are small now");
}

/* Peer access goes with a context; the next one may have the same handle. */
static void links_context_gone(CUcontext gone)
{
    for (int i = 0; i < ZC_LINKS_MAX; i++)
        if (__atomic_load_n(&links.of[i].reached, __ATOMIC_RELAXED) == gone)
            __atomic_store_n(&links.of[i].reached, NULL, __ATOMIC_RELAXED);
}

const struct zc_module zc_module_links = {.reclaim = links_reclaim,
                                          .context_gone = links_context_gone};
