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
#include "driver/launch.h"
#include "memory/deep_pages.h"
#include "memory/workers.h"

#define PAGE ZC_DEEP_PAGE
#define BATCH 64                   /* Pages that are hashed at a time. */
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
static struct seen *blocks;
static uint64_t low = UINT64_MAX, high; /* All of these blocks lie between.  Atomic. */
static uint64_t launches;               /* All launches, */
static uint64_t blind;                  /* and those whose arguments are not known. */
static bool textures;                   /* Kernels may read memory through textures. */
static struct {
    uint64_t from, to;
} busy[BUSY];
static uint32_t next_busy;
static bool special; /* The kernel does not tell of pinned memory if it is readable.  Atomic. */

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

/* Takes the lock if a block is known; NULL without the lock. */
static struct seen *enter(const struct zc_block *block)
{
    struct seen *s = NULL;
    if (!zc_deep() || !tracked(block) || !zc_lock_take(&lock))
        return NULL;
    uint64_t id = block->id;
    HASH_FIND(hh, blocks, &id, sizeof(id), s);
    if (s)
        s->pages.age = age(s);
    else
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

/* Bytes to be hashed. */
struct range {
    const char *memory;
    uint64_t at; /* Of its first byte in the block. */
    uint64_t bytes;
    uint64_t *hash; /* One for each page of the block. */
};

static void hash_pages(void *task, size_t first, size_t n)
{
    const struct range *r = task;
    uint64_t at = r->at, end = r->at + r->bytes;
    for (size_t i = 0; at < end; i++) {
        uint32_t bytes = zc_deep_in_page(at, end);
        if (i >= first / PAGE && i < (first + n + PAGE - 1) / PAGE)
            r->hash[i] = zc_hash(r->memory + (at - r->at), bytes);
        at += bytes;
    }
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

/* Hashes a copy page by page, and compares. */
static void carry(const struct zc_operand *device, const struct zc_operand *host, uint64_t bytes,
                  struct zc_deep_carried *c)
{
    uint64_t begin = device->address - device->block->base, end = begin + bytes, hash[BATCH] = {0};
    for (uint64_t at = begin, n; at < end; at += n) {
        n = BATCH * PAGE - at % PAGE;
        n = end - at < n ? end - at : n;
        uint64_t from = host->address + (at - begin);
        struct range range = {(const char *)(uintptr_t)from, at, n, hash};
        uint64_t pages = (at % PAGE + n + PAGE - 1) / PAGE;
        zc_workers_split(hash_pages, &range, pages * PAGE, WORTH, PAGE);
        struct seen *s = enter(device->block);
        if (!s)
            return;
        uint32_t part;
        for (uint64_t i = 0, here = at; i < pages && end <= s->pages.bytes; i++, here += part) {
            part = zc_deep_in_page(here, at + n);
            zc_deep_carried(&s->pages, here, part, hash[i], from + (here - at), c);
        }
        zc_lock_drop(&lock);
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

/* Whether the GPU may still be writing a host range, or does from now on. */
static bool is_busy(const struct zc_operand *b, bool from_now)
{
    bool found = false;
    if (!zc_lock_take(&lock))
        return true;
    for (unsigned i = 0; i < BUSY; i++)
        found |= busy[i].from < b->address + b->span && b->address < busy[i].to;
    if (from_now) {
        /* The first one stands for all that have no place of their own. */
        unsigned i = next_busy < BUSY ? next_busy++ : 0;
        uint64_t to = b->address + b->span;
        busy[i].to = to > busy[i].to ? to : busy[i].to;
        if (!busy[i].from || b->address < busy[i].from)
            busy[i].from = b->address;
    }
    zc_lock_drop(&lock);
    return found;
}

/* Whether the host's side holds the bytes of a copy when its call returns. */
static bool visible(const struct zc_copy *c, const struct zc_operand *host, bool in)
{
    bool batch = strncmp(zc_fn_name(c->fn), "cuMemcpyBatch", 13) == 0;
    bool later = c->async && (batch || (host->real == ZC_KIND_PINNED && !host->staged));
    if (later && is_busy(host, !in))
        return false;
    return c->shape == ZC_SHAPE_LINE && c->way != ZC_WAY_PAIR && !batch && !(later && !in) &&
           readable(host, c->bytes);
}

static void add_sums(const struct zc_deep_carried *c, uint64_t bytes)
{
    c->pair->copies++;
    c->pair->asked_bytes += bytes;
    for (unsigned i = 0; i < ZC_DEEP_COUNT; i++) {
        c->pair->bytes[i] += c->bytes[i];
        c->pair->whole[i] += c->bytes[i] == bytes;
    }
}

/* A copy between a device block and host memory. */
static void note_pair(const struct zc_copy *c, bool in)
{
    const struct zc_operand *device = in ? &c->dst : &c->src, *host = in ? &c->src : &c->dst;
    struct zc_deep_carried carried = {.in = in};
    struct seen *s = enter(device->block);
    if (!s)
        return;
    carried.pair = zc_deep_pair_of(in ? ZC_DIR_HTOD : ZC_DIR_DTOH,
                                   host->block ? (int)host->block->site : -1, s->site);
    zc_lock_drop(&lock);
    if (!carried.pair)
        return;
    if (visible(c, host, in)) {
        carry(device, host, c->bytes, &carried);
        if (in && c->bytes <= TABLE)
            look_for_addresses((const char *)(uintptr_t)host->address, c->bytes);
    } else {
        carried.bytes[ZC_DEEP_UNSEEN] = c->bytes;
        note_unseen(device->block, device->address, device->span, in, device->span != c->bytes);
    }
    if (!zc_lock_take(&lock))
        return;
    add_sums(&carried, c->bytes);
    zc_lock_drop(&lock);
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
        if (block->base < low)
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
#if CUDA_VERSION >= 12030
    if ((zc_real.cuFuncGetName &&
         zc_real.cuFuncGetName(&name, (CUfunction)kernel) == CUDA_SUCCESS) ||
        (zc_real.cuKernelGetName &&
         zc_real.cuKernelGetName(&name, (CUkernel)kernel) == CUDA_SUCCESS))
        return name ? name : "";
#else
    (void)kernel, (void)name;
#endif
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

static void in_child(void)
{
    blocks = NULL;
    low = UINT64_MAX;
    high = launches = blind = next_busy = 0;
    textures = special = false;
    memset(busy, 0, sizeof(busy));
}

const struct zc_module zc_module_deep = {.start = start, .child = in_child, .finish = finish};
