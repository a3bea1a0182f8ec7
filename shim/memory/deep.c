/* SPDX-License-Identifier: MIT */
/* Compares what copies carry with what the copy before left in the same range of a device block.
 * Hashes are taken outside of the lock, by the calling thread and helpers. */
#include "memory/deep.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/stream.h"
#include "ledger/site.h"
#include "memory/workers.h"

#define PIECE ((size_t)2 << 20) /* Bytes that are hashed at a time, and worth a thread. */
#define RANGES 256              /* Most of a block that are remembered. */

/* The outcomes of comparing copied bytes. */
#define SUMS(X)                                                                                    \
    X(DUPLICATE, "duplicate")   /* The copy before had left the same bytes at the destination. */  \
    X(ROUND_TRIP, "round_trip") /* Copied back as the host had sent them. */                       \
    X(CHANGED, "changed")       /* Copied back, and not as the copy before had left them. */       \
    X(UNSEEN, "unseen")         /* Not hashed. */

enum sum {
#define ENUM(name, text) name,
    SUMS(ENUM)
#undef ENUM
        SUM_COUNT
};

/* Copies of one direction between the blocks of two sites. */
struct pair {
    struct {
        int32_t host; /* -1: memory that is no block. */
        uint32_t device, dir;
    } key;
    uint64_t copies, asked_bytes;
    struct {
        uint64_t copies, bytes;
    } sum[SUM_COUNT];
    UT_hash_handle hh;
};

/* Bytes of a block that one copy brought there, or back. */
struct range {
    struct range *next;
    uint64_t from, bytes, hash;
    uint64_t back; /* Host address that the last copy took them to; 0: that copy sent them. */
    bool hosts;    /* They are as the host sent them, as far as copies back have told. */
};

/* A device block. */
struct seen {
    uint64_t id;          /* The ledger's. */
    struct range *ranges; /* The latest first; no two overlap. */
    uint64_t unseen;      /* Writes of bytes that nobody hashed. */
    uint32_t looks;       /* Copies that are still to be looked at. */
    uint32_t site;
    bool gone; /* The block has ended. */
    UT_hash_handle hh;
};

/* A copy between a device block and host memory. */
struct look {
    struct seen *seen;
    struct pair *pair;
    const char *memory; /* The host's side. */
    uint64_t from, bytes, hash;
    uint64_t unseen; /* Of `seen` when the copy was called. */
    bool in;         /* The host sends the bytes. */
    bool hashed;     /* At its call, because the program may change pageable memory behind it. */
    bool pinned;     /* The host's side is the driver's own pinned memory. */
};

static ZC_LOCK(lock, ZC_RANK_DEEP); /* For all of these. */
static ZC_OWN struct {
    struct seen *blocks;
    struct pair *pairs;
    bool special; /* The kernel does not tell of pinned memory if it is readable. */
} deep;

/* Device memory that the program requested. */
static bool tracked(const struct zc_block *b)
{
    return b && b->asked == ZC_KIND_DEVICE && !(b->flags & ZC_BLOCK_FOREIGN);
}

/* Pinned memory of the driver's. */
static bool own_pinned(const struct zc_block *b)
{
    return b && b->asked == ZC_KIND_PINNED && !(b->flags & (ZC_BLOCK_FOREIGN | ZC_BLOCK_CONVERTED));
}

/* Takes the lock if a block is known; NULL without the lock. */
static struct seen *deep_enter(const struct zc_block *block)
{
    struct seen *s = NULL;
    if (!zc_deep() || !tracked(block) || !zc_lock_take(&lock))
        return NULL;
    HASH_FIND(hh, deep.blocks, &block->id, sizeof(block->id), s);
    if (!s)
        zc_lock_drop(&lock);
    return s;
}

static bool overlaps(const struct range *r, uint64_t from, uint64_t bytes)
{
    return r->from < from + bytes && from < r->from + r->bytes;
}

static struct range *find_range(struct range *r, uint64_t from, uint64_t bytes)
{
    while (r && !overlaps(r, from, bytes))
        r = r->next;
    return r;
}

static void clear(struct seen *s, uint64_t from, uint64_t bytes)
{
    struct range *r;
    while ((r = find_range(s->ranges, from, bytes)) != NULL) {
        LL_DELETE(s->ranges, r);
        zc_arena_put(r, sizeof(*r));
    }
}

/* By bytes that nobody hashes. */
static void overwrite(struct seen *s, uint64_t from, uint64_t bytes)
{
    s->unseen++;
    clear(s, from, bytes);
}

/* Of too many ranges the oldest is forgotten.  NULL without memory. */
static struct range *add_range(struct seen *s, uint64_t from, uint64_t bytes)
{
    struct range *r = zc_arena_get(sizeof(*r)), *oldest = s->ranges;
    for (unsigned i = 1; oldest && i < RANGES; i++)
        oldest = oldest->next;
    if (oldest)
        clear(s, oldest->from, oldest->bytes);
    if (r) {
        *r = (struct range){.from = from, .bytes = bytes};
        LL_PREPEND(s->ranges, r);
    }
    return r;
}

/* Ends the record of a block that has ended, once nothing looks at it any more. */
static void end_seen(struct seen *s)
{
    if (!s->gone || s->looks)
        return;
    clear(s, 0, UINT64_MAX);
    HASH_DELETE(hh, deep.blocks, s);
    zc_arena_put(s, sizeof(*s));
}

static void count(struct pair *p, enum sum sum, uint64_t bytes, int sign)
{
    p->sum[sum].copies += (uint64_t)sign;
    p->sum[sum].bytes += (uint64_t)sign * bytes;
}

/* Under the lock, and in the order in which copies and their streams have come. */
static void compare(const struct look *l)
{
    struct seen *s = l->seen;
    struct range *r = find_range(s->ranges, l->from, l->bytes);
    bool exact = r && r->from == l->from && r->bytes == l->bytes,
         same = exact && r->hash == l->hash;
    uint64_t back = l->in ? 0 : (uintptr_t)l->memory;
    count(l->pair, UNSEEN, l->bytes, -1);
    if (same && (l->in || r->back == back))
        count(l->pair, DUPLICATE, l->bytes, 1);
    else if (same && r->hosts)
        count(l->pair, ROUND_TRIP, l->bytes, 1);
    else if (exact && !l->in)
        count(l->pair, CHANGED, l->bytes, 1);
    if (!exact && r && !l->in)
        return; /* More is known of other bytes. */
    if (!exact) {
        clear(s, l->from, l->bytes);
        r = add_range(s, l->from, l->bytes);
    }
    if (r) {
        r->hosts = l->in || (same && r->hosts);
        r->hash = l->hash;
        r->back = back;
    }
}

struct hashed {
    const char *memory;
    uint64_t sum;
};

static void hash_part(void *task, size_t at, size_t n)
{
    struct hashed *h = task;
    uint64_t sum = 0;
    for (size_t end = at + n, part; at < end; at += part) {
        part = end - at < PIECE ? end - at : PIECE;
        sum += zc_hash(h->memory + at, part) * (2 * (at / PIECE) + 1);
    }
    __atomic_fetch_add(&h->sum, sum, __ATOMIC_RELAXED);
}

static void hash(struct look *l)
{
    struct hashed h = {.memory = l->memory};
    zc_workers_split(hash_part, &h, l->bytes, PIECE, PIECE);
    l->hash = h.sum;
    l->hashed = true;
}

/* The CPU may read the memory: the program may have protected it, and the GPU still reach it. */
static bool reachable(const void *memory, size_t bytes, bool pinned)
{
    return zc_workers_reach((void *)memory, bytes, false) ||
           (pinned && __atomic_load_n(&deep.special, __ATOMIC_RELAXED));
}

/* Looks at the bytes of a copy that has come.  Runs behind asynchronous copies in their stream. */
static void CUDA_CB look(void *data)
{
    struct look *l = data;
    if (!l->hashed && reachable(l->memory, l->bytes, l->pinned))
        hash(l);
    if (!zc_lock_take(&lock))
        return;
    if (l->hashed && l->seen->unseen == l->unseen)
        compare(l);
    else
        clear(l->seen, l->from, l->bytes);
    l->seen->looks--;
    end_seen(l->seen);
    zc_lock_drop(&lock);
    zc_arena_put(l, sizeof(*l));
}

static bool is_host(const struct zc_operand *b)
{
    return b->asked == ZC_KIND_PAGEABLE || b->asked == ZC_KIND_PINNED;
}

/* Not write-combined memory, which the CPU reads at a hundredth of its speed.  Other pageable
 * memory is read with the CPU anyway. */
static bool readable(const struct zc_operand *b, uint64_t bytes)
{
    unsigned flags = 0;
    if (!b->block && b->asked != ZC_KIND_PINNED)
        return true;
    return !(b->asked == ZC_KIND_PINNED && zc_real.cuMemHostGetFlags &&
             zc_real.cuMemHostGetFlags(&flags, (void *)b->address) == CUDA_SUCCESS &&
             (flags & CU_MEMHOSTALLOC_WRITECOMBINED)) &&
           reachable((void *)b->address, bytes, own_pinned(b->block));
}

/* The bytes of a copy lie in one piece where the CPU can read them in the end. */
static bool visible(const struct zc_copy *c, const struct zc_operand *host)
{
    return c->shape == ZC_SHAPE_LINE && c->way != ZC_WAY_PAIR &&
           strncmp(zc_fn_name(c->fn), "cuMemcpyBatch", 13) != 0 && readable(host, c->bytes);
}

static struct pair *pair_of(enum zc_dir dir, const struct zc_block *host, uint32_t device)
{
    struct pair *p = NULL, like = {.key = {host ? (int32_t)host->site : -1, device, (uint32_t)dir}};
    HASH_FIND(hh, deep.pairs, &like.key, sizeof(like.key), p);
    if (p || !(p = zc_arena_get(sizeof(*p))))
        return p;
    p->key = like.key;
    HASH_ADD(hh, deep.pairs, key, sizeof(p->key), p);
    return p;
}

/* Counts a copy between a device block and host memory, as unseen until it has been looked at.
 * Fills in *l if it is to be. */
static bool begin_look(const struct zc_copy *c, bool in, bool seen, struct look *l)
{
    const struct zc_operand *device = in ? &c->dst : &c->src, *host = in ? &c->src : &c->dst;
    struct seen *s = deep_enter(device->block);
    if (!s)
        return false;
    struct pair *p = pair_of(in ? ZC_DIR_HTOD : ZC_DIR_DTOH, host->block, s->site);
    uint64_t from = device->address - device->block->base;
    if (p) {
        p->copies++;
        p->asked_bytes += c->bytes;
        count(p, UNSEEN, c->bytes, 1);
    }
    seen &= p != NULL;
    if (seen)
        s->looks++;
    else if (in)
        overwrite(s, from, device->span);
    *l = (struct look){.seen = s,
                       .pair = p,
                       .memory = (const char *)(uintptr_t)host->address,
                       .from = from,
                       .bytes = c->bytes,
                       .unseen = s->unseen,
                       .in = in,
                       .pinned = own_pinned(host->block)};
    zc_lock_drop(&lock);
    return seen;
}

/* Pageable memory may change as soon as the call returns, so it is hashed at once.  Pinned memory
 * stays until the stream has passed the copy, and is hashed there. */
static void note_pair(const struct zc_copy *c, bool in)
{
    const struct zc_operand *host = in ? &c->src : &c->dst;
    bool later = host->real == ZC_KIND_PINNED && !host->staged, seen = visible(c, host);
    struct look *l = zc_arena_get(sizeof(*l)), none;
    if (!begin_look(c, in, l && seen, l ? l : &none)) {
        if (l)
            zc_arena_put(l, sizeof(*l));
        return;
    }
    if (!later)
        hash(l);
    if (!c->async || !(later || in) ||
        zc_stream_call(c->stream, c->flavour, look, l) != CUDA_SUCCESS)
        look(l);
}

void zc_deep_copy(const struct zc_copy *c)
{
    int saved = errno;
    if (c->shape == ZC_SHAPE_PREFETCH)
        return;
    if (tracked(c->dst.block) && c->shape != ZC_SHAPE_SET && is_host(&c->src))
        note_pair(c, true);
    else
        zc_deep_written(c->dst.block, c->dst.address, c->dst.span);
    if (tracked(c->src.block) && is_host(&c->dst))
        note_pair(c, false);
    errno = saved;
}

void zc_deep_written(const struct zc_block *block, uint64_t address, uint64_t bytes)
{
    struct seen *s = bytes ? deep_enter(block) : NULL;
    if (!s)
        return;
    overwrite(s, address - block->base, bytes);
    zc_lock_drop(&lock);
}

void zc_deep_born(const struct zc_block *block)
{
    if (!zc_deep())
        return;
    if (own_pinned(block) && !zc_workers_reach((void *)block->base, 1, false))
        __atomic_store_n(&deep.special, true, __ATOMIC_RELAXED);
    if (!tracked(block) || !zc_lock_take(&lock))
        return;
    struct seen *s = zc_arena_get(sizeof(*s));
    if (s) {
        *s = (struct seen){.id = block->id, .site = block->site};
        HASH_ADD(hh, deep.blocks, id, sizeof(s->id), s);
    }
    zc_lock_drop(&lock);
}

void zc_deep_gone(const struct zc_block *block)
{
    struct seen *s = deep_enter(block);
    if (!s)
        return;
    s->gone = true;
    end_seen(s);
    zc_lock_drop(&lock);
}

static void write_pair(const struct pair *p)
{
    static const char *const names[] = {
#define NAME(name, text) text "_copies", text "_bytes",
        SUMS(NAME)
#undef NAME
    };
    char buf[ZC_LINE_MAX];
    struct zc_line line;
    zc_line_begin(&line, buf, sizeof(buf), "content");
    zc_line_str(&line, "dir", zc_dir_name((enum zc_dir)p->key.dir));
    if (p->key.host >= 0)
        zc_line_hex(&line, "host_site", zc_site_id((uint32_t)p->key.host), 8);
    else
        zc_line_null(&line, "host_site");
    zc_line_hex(&line, "device_site", zc_site_id(p->key.device), 8);
    zc_line_u64(&line, "copies", p->copies);
    zc_line_u64(&line, "bytes", p->asked_bytes);
    for (unsigned i = 0; i < SUM_COUNT; i++) {
        zc_line_u64(&line, names[2 * i], p->sum[i].copies);
        zc_line_u64(&line, names[2 * i + 1], p->sum[i].bytes);
    }
    zc_log_write(&line);
}

static void deep_finish(void)
{
    if (!zc_deep() || !zc_lock_take(&lock))
        return;
    for (struct pair *p = deep.pairs; p; p = p->hh.next)
        write_pair(p);
    zc_lock_drop(&lock);
}

const struct zc_module zc_module_deep = {.finish = deep_finish};
