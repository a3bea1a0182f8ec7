/* SPDX-License-Identifier: MIT */
/* What copies carried, and what became of it.  Hashes are taken outside of the lock, by the calling
 * thread and helpers; under it only records change. */
#include "memory/deep.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "memory/deep_pages.h"
#include "memory/workers.h"

#define PAGE ZC_DEEP_PAGE
#define TABLE ((uint64_t)64 << 10) /* Copies up to here may be tables of addresses. */
#define WORTH ((size_t)2 << 20)    /* Bytes to be hashed that are worth a thread. */
#define BUSY 16                    /* Ranges that the GPU may still be writing. */

/* A device block. */
struct seen {
    uint64_t id; /* The ledger's. */
    struct zc_deep_block pages;
    uint64_t launches; /* Launches that were given its address, */
    uint64_t last;     /* the last of them, */
    uint64_t born;     /* and age() when it was made. */
    uint32_t site;
    bool always; /* Its address is in device memory: every launch may use it. */
    UT_hash_handle hh;
};

static ZC_LOCK(lock, ZC_RANK_DEEP); /* For all below. */
static ZC_OWN struct seen *blocks;
static ZC_OWN uint64_t low, high; /* All of these blocks lie between.  Atomic. */
static ZC_OWN uint64_t launches;  /* All launches, */
static ZC_OWN uint64_t blind;     /* and those whose arguments are not known. */
static ZC_OWN bool textures;      /* Kernels may read memory through textures. */
static ZC_OWN struct {
    uint64_t from, to;
    unsigned copies; /* On their way; all that find no free place share the first one. */
} busy[BUSY];
static ZC_OWN bool
    special; /* The kernel does not tell of pinned memory if it is readable.  Atomic. */

/* Device memory that the program requested.  Kernels use variables of modules without being given
 * their addresses. */
static bool tracked(const struct zc_block *b)
{
    return b && b->asked == ZC_KIND_DEVICE && !(b->flags & ZC_BLOCK_FOREIGN);
}

static uint64_t age(const struct seen *s)
{
    return s->launches + blind + (s->always ? launches : 0);
}

/* Under the lock; NULL if the block has ended. */
static struct seen *find(uint64_t id)
{
    struct seen *s;
    HASH_FIND(hh, blocks, &id, sizeof(id), s);
    if (s)
        s->pages.age = age(s);
    return s;
}

/* Takes the lock if a block is known; NULL without the lock. */
static struct seen *enter(const struct zc_block *block)
{
    if (!zc_deep() || !tracked(block) || !zc_lock_take(&lock))
        return NULL;
    struct seen *s = find(block->id);
    if (!s)
        zc_lock_drop(&lock);
    return s;
}

/* A range of a block that is read, or written, by bytes that nobody sees. */
static void note_unseen(const struct zc_block *block, uint64_t address, uint64_t bytes,
                        bool written, bool holes)
{
    struct seen *s = bytes ? enter(block) : NULL;
    if (!s)
        return;
    zc_deep_range(&s->pages, address - block->base, bytes, written, holes);
    zc_lock_drop(&lock);
}

/* The words of a copy may be addresses, by which kernels reach blocks that they are not given. */
static void look_for_addresses(const char *memory, uint64_t bytes)
{
    for (uint64_t at = 0, word; at + sizeof(word) <= bytes; at += sizeof(word)) {
        memcpy(&word, memory + at, sizeof(word));
        if (word < __atomic_load_n(&low, __ATOMIC_RELAXED) ||
            word >= __atomic_load_n(&high, __ATOMIC_RELAXED))
            continue;
        struct seen *s = enter(zc_block_find(word));
        if (!s)
            continue;
        s->launches += !s->always;
        s->always = true;
        zc_lock_drop(&lock);
    }
}

/* A copy between a device block and host memory that the CPU may read. */
struct look {
    uint64_t block;     /* The ledger's id, */
    uint64_t at, bytes; /* and the range in it. */
    const char *memory; /* The host's side. */
    size_t record;      /* Allocated bytes of this struct. */
    unsigned busy;      /* The place of the host range in `busy`; BUSY: none. */
    bool special;       /* The kernel does not tell if the host's side is readable. */
    struct zc_deep_carried carried;
    struct {
        uint64_t hash;
        struct zc_deep_before before; /* Where the host gets it. */
    } page[];
};

static uint64_t pages_of(uint64_t at, uint64_t bytes)
{
    return (at % PAGE + bytes + PAGE - 1) / PAGE;
}

/* NULL without memory.  The arena keeps what is freed for requests of the same size, so there are
 * few sizes. */
static struct look *look_at(const struct zc_operand *device, const struct zc_operand *host,
                            uint64_t bytes)
{
    uint64_t at = device->address - device->block->base, room = 1;
    if (at > device->block->size || bytes > device->block->size - at)
        return NULL;
    while (room < pages_of(at, bytes))
        room *= 4;
    size_t record = sizeof(struct look) + room * sizeof(((struct look *)NULL)->page[0]);
    struct look *l = zc_arena_get(record);
    if (l)
        *l = (struct look){.block = device->block->id,
                           .at = at,
                           .bytes = bytes,
                           .memory = (const char *)(uintptr_t)host->address,
                           .record = record,
                           .busy = BUSY};
    return l;
}

static void hash_pages(void *task, size_t first, size_t n)
{
    struct look *l = task;
    uint64_t at = l->at, end = l->at + l->bytes;
    for (size_t i = 0; at < end; i++) {
        uint32_t bytes = zc_deep_in_page(at, end);
        if (i >= first / PAGE && i < (first + n + PAGE - 1) / PAGE)
            l->page[i].hash = zc_hash(l->memory + (at - l->at), bytes);
        at += bytes;
    }
}

/* Hashes a copy page by page, and compares. */
static void carry(struct look *l, bool in)
{
    uint64_t at = l->at, end = l->at + l->bytes;
    zc_workers_split(hash_pages, l, pages_of(at, l->bytes) * PAGE, WORTH, PAGE);
    if (!zc_lock_take(&lock))
        return;
    struct seen *s = find(l->block);
    struct zc_deep_block *block = s ? &s->pages : NULL;
    uint32_t part;
    for (uint64_t i = 0; at < end; i++, at += part) {
        part = zc_deep_in_page(at, end);
        if (!in)
            zc_deep_came(block, at, part, l->page[i].hash, (uintptr_t)l->memory + (at - l->at),
                         &l->page[i].before, &l->carried);
        else if (block)
            zc_deep_sent(block, at, part, l->page[i].hash, &l->carried);
    }
    zc_lock_drop(&lock);
}

/* What is known of the pages when a copy to the host is called.  Under the lock. */
static void called(struct seen *s, struct look *l)
{
    uint64_t at = l->at, end = l->at + l->bytes;
    uint32_t part;
    for (uint64_t i = 0; at < end; i++, at += part) {
        part = zc_deep_in_page(at, end);
        l->page[i].before =
            zc_deep_called(&s->pages, at, part, (uintptr_t)l->memory + (at - l->at));
    }
}

/* Pinned memory of the driver's. */
static bool own_pinned(const struct zc_block *b)
{
    return b->asked == ZC_KIND_PINNED && !(b->flags & (ZC_BLOCK_FOREIGN | ZC_BLOCK_CONVERTED));
}

static bool is_host(const struct zc_operand *b)
{
    return b->asked == ZC_KIND_PAGEABLE || b->asked == ZC_KIND_PINNED;
}

/* The CPU may read the memory, and soon: not what it may not touch, which the GPU still can, nor
 * write-combined memory, which it reads at a hundredth of its speed. */
static bool readable(const struct zc_operand *b, uint64_t bytes)
{
    unsigned flags = 0;
    if (!b->block && b->asked != ZC_KIND_PINNED)
        return true; /* The driver reads it with the CPU. */
    if (b->asked == ZC_KIND_PINNED && zc_real.cuMemHostGetFlags &&
        zc_real.cuMemHostGetFlags(&flags, (void *)b->address) == CUDA_SUCCESS &&
        (flags & CU_MEMHOSTALLOC_WRITECOMBINED))
        return false;
    if (zc_workers_reach((void *)b->address, bytes, false))
        return true;
    return b->block && own_pinned(b->block) && __atomic_load_n(&special, __ATOMIC_RELAXED);
}

/* Whether the GPU may still be writing a host range. */
static bool is_busy(const struct zc_operand *b)
{
    bool found = false;
    if (!zc_lock_take(&lock))
        return true;
    for (unsigned i = 0; i < BUSY; i++)
        found |= busy[i].from < b->address + b->span && b->address < busy[i].to;
    zc_lock_drop(&lock);
    return found;
}

/* The GPU may be writing the range from now on, until arrived().  Returns its place; BUSY without
 * the lock. */
static unsigned make_busy(const struct zc_operand *b)
{
    uint64_t to = b->address + b->span;
    unsigned i = BUSY - 1;
    if (!zc_lock_take(&lock))
        return BUSY;
    while (i && busy[i].copies)
        i--;
    busy[i].copies++;
    busy[i].to = to > busy[i].to ? to : busy[i].to;
    if (!busy[i].from || b->address < busy[i].from)
        busy[i].from = b->address;
    zc_lock_drop(&lock);
    return i;
}

/* In the order of the stream, behind a copy to the host. */
static void CUDA_CB arrived(void *place)
{
    uintptr_t i = (uintptr_t)place;
    if (i == BUSY || !zc_lock_take(&lock))
        return;
    if (--busy[i].copies == 0)
        busy[i].from = busy[i].to = 0;
    zc_lock_drop(&lock);
}

/* The CPU can read the bytes of a copy where they lie in the end. */
static bool visible(const struct zc_copy *c, const struct zc_operand *host)
{
    return c->shape == ZC_SHAPE_LINE && c->way != ZC_WAY_PAIR &&
           strncmp(zc_fn_name(c->fn), "cuMemcpyBatch", 13) != 0 && readable(host, c->bytes);
}

/* Counts a copy, or with -1 no longer. */
static void add_sums(const struct zc_deep_carried *c, uint64_t bytes, int sign)
{
    if (!zc_lock_take(&lock))
        return;
    c->pair->copies += (uint64_t)sign;
    c->pair->asked_bytes += (uint64_t)sign * bytes;
    for (unsigned i = 0; i < ZC_DEEP_COUNT; i++) {
        c->pair->bytes[i] += (uint64_t)sign * c->bytes[i];
        c->pair->whole[i] += c->bytes[i] == bytes ? (uint64_t)sign : 0;
    }
    zc_lock_drop(&lock);
}

/* Counts a copy nobody looks at, or no longer. */
static void add_unseen(struct zc_deep_pair *pair, uint64_t bytes, int sign)
{
    struct zc_deep_carried unseen = {.pair = pair, .bytes[ZC_DEEP_UNSEEN] = bytes};
    add_sums(&unseen, bytes, sign);
}

/* Looks at what has come, or is sent. */
static void look(struct look *l, bool in)
{
    carry(l, in);
    add_sums(&l->carried, l->bytes, 1);
    zc_arena_put(l, l->record);
}

/* In the order of the stream, behind a copy to the host that counts as unseen until then. */
static void CUDA_CB look_behind(void *data)
{
    struct look *l = data;
    arrived((void *)(uintptr_t)l->busy);
    if (l->special || zc_workers_reach((void *)l->memory, l->bytes, false)) {
        add_unseen(l->carried.pair, l->bytes, -1);
        look(l, false);
    } else {
        zc_arena_put(l, l->record);
    }
}

/* A copy between a device block and host memory. */
static void note_pair(const struct zc_copy *c, bool in)
{
    const struct zc_operand *device = in ? &c->dst : &c->src, *host = in ? &c->src : &c->dst;
    struct seen *s = enter(device->block);
    if (!s)
        return;
    struct zc_deep_pair *pair = zc_deep_pair_of(in ? ZC_DIR_HTOD : ZC_DIR_DTOH,
                                                host->block ? (int)host->block->site : -1, s->site);
    zc_lock_drop(&lock);
    if (!pair)
        return;
    bool later = c->async && host->real == ZC_KIND_PINNED && !host->staged;
    bool seen = !(later && is_busy(host)) && visible(c, host);
    unsigned place = later && !in ? make_busy(host) : BUSY;
    struct look *l = seen ? look_at(device, host, c->bytes) : NULL;
    if (l && (in || (s = enter(device->block)) != NULL)) {
        l->carried.pair = pair;
        l->busy = place;
        if (!in) {
            called(s, l);
            zc_lock_drop(&lock);
        }
        if (in || !later) {
            look(l, in);
        } else {
            l->special = !zc_workers_reach((void *)host->address, c->bytes, false);
            add_unseen(pair, c->bytes, 1);
            if (zc_stream_call(c->stream, c->flavour, look_behind, l) != CUDA_SUCCESS)
                zc_arena_put(l, l->record);
        }
        if (in && c->bytes <= TABLE)
            look_for_addresses((const char *)(uintptr_t)host->address, c->bytes);
        return;
    }
    if (l)
        zc_arena_put(l, l->record); /* The block has ended meanwhile. */
    if (place != BUSY)
        zc_stream_call(c->stream, c->flavour, arrived, (void *)(uintptr_t)place);
    add_unseen(pair, c->bytes, 1);
    note_unseen(device->block, device->address, device->span, in, device->span != c->bytes);
}

void zc_deep_copy(const struct zc_copy *c)
{
    int saved = errno;
    if (c->shape == ZC_SHAPE_PREFETCH)
        return;
    if (tracked(c->dst.block) && c->shape != ZC_SHAPE_SET && is_host(&c->src))
        note_pair(c, true);
    else
        note_unseen(c->dst.block, c->dst.address, c->dst.span, true, c->dst.span != c->bytes);
    if (tracked(c->src.block) && is_host(&c->dst))
        note_pair(c, false);
    else
        note_unseen(c->src.block, c->src.address, c->src.span, false, false);
    errno = saved;
}

void zc_deep_hidden(const struct zc_block *dst, uint64_t to, const struct zc_block *src,
                    uint64_t from, uint64_t bytes)
{
    note_unseen(dst, to, bytes, true, true);
    note_unseen(src, from, bytes, false, false);
}

void zc_deep_born(const struct zc_block *block)
{
    if (zc_deep() && own_pinned(block) && !zc_workers_reach((void *)block->base, 1, false))
        __atomic_store_n(&special, true, __ATOMIC_RELAXED);
    if (!zc_deep() || !tracked(block) || !zc_lock_take(&lock))
        return;
    struct seen *s = zc_arena_get(sizeof(*s));
    if (s) {
        *s = (struct seen){.id = block->id, .pages.bytes = block->size, .site = block->site};
        s->born = age(s);
        HASH_ADD(hh, blocks, id, sizeof(s->id), s);
        if (!high || block->base < low)
            __atomic_store_n(&low, block->base, __ATOMIC_RELAXED);
        if (block->base + block->size > high)
            __atomic_store_n(&high, block->base + block->size, __ATOMIC_RELAXED);
        zc_deep_site_of(s->site)->blocks++;
        zc_deep_site_of(s->site)->bytes += block->size;
    }
    zc_lock_drop(&lock);
}

/* The end of a block. */
static void end(struct seen *s)
{
    s->pages.age = age(s);
    zc_deep_site_of(s->site)->untouched_bytes += zc_deep_end(&s->pages, age(s) != s->born);
    HASH_DELETE(hh, blocks, s);
    zc_arena_put(s, sizeof(*s));
}

void zc_deep_gone(const struct zc_block *block)
{
    struct seen *s = enter(block);
    if (!s)
        return;
    end(s);
    zc_lock_drop(&lock);
}

/* A launch whose arguments are looked at. */
struct named {
    const void *kernel;
    uint64_t number;
};

static const char *name_of(const void *kernel)
{
    const char *name = NULL;
    if ((zc_real.cuFuncGetName &&
         zc_real.cuFuncGetName(&name, (CUfunction)kernel) == CUDA_SUCCESS) ||
        (zc_real.cuKernelGetName &&
         zc_real.cuKernelGetName(&name, (CUkernel)kernel) == CUDA_SUCCESS))
        return name ? name : "";
    return "";
}

static void note_word(uint64_t word, void *arg)
{
    const struct named *launch = arg;
    const struct zc_block *block = zc_block_find(word);
    struct seen *s = enter(block);
    if (!s)
        return;
    bool first = s->last != launch->number, known = true;
    uint32_t site = s->site;
    if (first) {
        s->launches += !s->always;
        s->last = launch->number;
        zc_deep_site_of(site)->launches++;
        known = zc_deep_note_kernel(site, launch->kernel, NULL);
    }
    zc_lock_drop(&lock);
    if (known)
        return;
    const char *name = name_of(launch->kernel); /* Not under the lock. */
    if (!zc_lock_take(&lock))
        return;
    zc_deep_note_kernel(site, launch->kernel, name);
    zc_lock_drop(&lock);
}

/* Calls that make the GPU access memory in other ways count as launches of anything. */
static CUresult before_launch(const struct zc_launch *launch)
{
    if (!zc_deep() || !zc_lock_take(&lock))
        return CUDA_SUCCESS;
    struct named named = {launch->function, ++launches};
    textures |= strncmp(zc_fn_name(launch->fn), "cuTex", 5) == 0;
    bool unknown = textures;
    zc_lock_drop(&lock);
    if (!zc_launch_words(launch, note_word, &named))
        unknown = true;
    if (unknown && zc_lock_take(&lock)) {
        blind++;
        zc_lock_drop(&lock);
    }
    return CUDA_SUCCESS;
}

static void start(const struct zc_policy *policy)
{
    (void)policy;
    if (zc_deep())
        zc_launch_call(ZC_LAUNCH_DEEP, before_launch);
}

static void finish(void)
{
    if (!zc_deep() || !zc_lock_take(&lock))
        return;
    while (blocks)
        end(blocks);
    zc_deep_write();
    zc_lock_drop(&lock);
}

const struct zc_module zc_module_deep = {.start = start, .finish = finish};
