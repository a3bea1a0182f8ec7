/* SPDX-License-Identifier: MIT */
/* Copies, sets and prefetches: one description for all their shapes. */
#ifndef ZC_DRIVER_COPY_H
#define ZC_DRIVER_COPY_H

#include <stdint.h>

#include "base/clock.h"
#include "base/life.h"
#include "driver/real.h"
#include "ledger/block.h"
#include "ledger/traffic.h"

struct zc_extent;
struct zc_shared;

/* What a call says about one side of a copy. */
enum zc_side {
    ZC_SIDE_NONE,   /* No such side: the source of a set. */
    ZC_SIDE_HOST,   /* A host address. */
    ZC_SIDE_DEVICE, /* A device address. */
    ZC_SIDE_ARRAY,  /* An array; it has no address. */
    ZC_SIDE_ANY,    /* Any address: unified addressing tells (CUDA Driver API, cuMemcpy). */
};

/* One side of a transfer. */
struct zc_operand {
    enum zc_side side;        /* What the call says. */
    enum zc_kind asked;       /* Kind that the program believes in. */
    enum zc_kind real;        /* Kind of the pages. */
    CUdeviceptr address;      /* First byte touched, 0 for arrays. */
    size_t span;              /* Bytes from the first to behind the last one touched. */
    size_t pitch;             /* Bytes between the beginnings of rows; for boxes only. */
    size_t slice;             /* Bytes between the beginnings of slices; for boxes only. */
    struct zc_block *block;   /* The block it begins in, or NULL. */
    struct zc_extent *extent; /* Of a block of the host heap that libzc answers for, else NULL. */
    bool staged;              /* Such a block, and copies keep their meaning for pageable memory. */
    struct zc_extent *visited; /* `extent`, while the copy is under way; see zc_hostheap_visit(). */
    struct zc_shared *pair;    /* The pair that it lies in, or NULL. */
    CUcontext context;         /* That the call names for it, or NULL. */
    bool host;                 /* Of a pair: the host side. */
    bool beside;               /* Memory of libzc's making that is no block of the program's. */
};

/* Where a node that is added to a graph shall stand. */
struct zc_behind {
    CUgraph graph;
    const CUgraphNode *nodes;
    const void *edges; /* NULL for plain ones. */
    size_t count;
};

#define ZC_BEHIND(graph, nodes, count) (&(const struct zc_behind){(graph), (nodes), NULL, (count)})

/* A transfer on its way through a wrapper; lives on the wrapper's stack. */
struct zc_copy {
    enum zc_fn fn;           /* Entry point. */
    enum zc_flavour flavour; /* What the NULL stream means. */
    bool on;                 /* libzc records this call. */
    bool async;              /* The call has a stream and need not wait. */
    bool sync;               /* It has none, and a row ZC_SYNC; if `async` as well, the other call
                              * is made, on the NULL stream. */
    bool linear;             /* One line of bytes. */
    bool strided;            /* Rows and slices: `extent` and the sides' pitches count. */
    bool set;                /* A memset. */
    bool word;               /* A set of one element that a stream writes, or waits for. */
    bool prefetch;           /* A prefetch: bytes asked for; what moves is not known. */
    bool wait;               /* Once forwarded, the call waits for its stream to come to it. */
    bool answered;           /* Of a pair: there is no more to say about the call's failure. */
    enum zc_outcome outcome; /* What became of it. */
    CUstream stream;         /* As the program gave it; NULL for calls without one. */
    struct zc_operand dst, src;
    size_t extent[3]; /* Of a box: bytes of a row, rows of a slice, slices; of a set the
                       * rows, and where it has several the bytes of one. */
    bool split;       /* What became of it differs by part: `part` counts, not `outcome`. */
    uint64_t part[ZC_OUTCOME_COUNT]; /* Bytes by what became of them. */
    const struct zc_behind *behind;  /* Of a node that is added to a graph, else NULL. */
    unsigned value;                  /* Of a set: what each element becomes. */
    uint8_t unit;                    /* Of a set: bytes of an element; 0: of no element. */
    uint64_t bytes;                  /* Bytes that the call asks to move or set. */
    uint64_t copies;                 /* Copies that the driver makes of it. */
    uint64_t start;                  /* zc_ticks() at entry. */
    CUresult result;                 /* What the wrapper returns. */
};

/* Begins a description: every field is set, and the clock starts.  Inline, as are the shapes that
 * programs use most, because a caught call may cost little; and field by field, because compilers
 * clear a struct of this size with a string instruction that takes longer than all the rest. */
static inline void zc_copy_init(struct zc_copy *c, enum zc_fn fn, enum zc_flavour flavour)
{
    c->fn = fn;
    c->flavour = flavour;
    c->on = zc_life_on();
    c->async = c->sync = c->linear = c->strided = c->set = c->prefetch = c->wait = false;
    c->word = c->split = c->answered = false;
    c->behind = NULL;
    c->outcome = ZC_MOVED;
    c->stream = NULL;
    c->dst.side = c->src.side = ZC_SIDE_NONE;
    c->dst.asked = c->src.asked = c->dst.real = c->src.real = ZC_KIND_PAGEABLE;
    c->dst.address = c->src.address = 0;
    c->dst.span = c->src.span = 0;
    c->dst.block = c->src.block = NULL;
    c->dst.extent = c->src.extent = NULL;
    c->dst.staged = c->src.staged = false;
    c->dst.visited = c->src.visited = NULL;
    c->dst.pair = c->src.pair = NULL;
    c->dst.context = c->src.context = NULL;
    c->bytes = 0;
    c->copies = 1;
    c->result = CUDA_SUCCESS;
    c->start = c->on ? zc_ticks() : 0;
}

/* Of numbers that a program gives: what no number can tell is more than any block has. */
static inline size_t zc_product(size_t a, size_t b)
{
    size_t n;
    return __builtin_mul_overflow(a, b, &n) ? SIZE_MAX : n;
}

static inline size_t zc_sum(size_t a, size_t b)
{
    size_t n;
    return __builtin_add_overflow(a, b, &n) ? SIZE_MAX : n;
}

/* Fill a description from the parameters of each shape.  Null descriptors leave 0 bytes. */
static inline void zc_describe_line(struct zc_copy *c, enum zc_side ds, CUdeviceptr dst,
                                    enum zc_side ss, CUdeviceptr src, size_t n)
{
    c->dst.side = ds;
    c->dst.address = dst;
    c->dst.span = n;
    c->src.side = ss;
    c->src.address = src;
    c->src.span = n;
    c->bytes = n;
    c->linear = true;
}

static inline void zc_describe_line_async(struct zc_copy *c, enum zc_side ds, CUdeviceptr dst,
                                          enum zc_side ss, CUdeviceptr src, size_t n,
                                          CUstream stream)
{
    zc_describe_line(c, ds, dst, ss, src, n);
    c->async = true;
    c->stream = stream;
}

void zc_describe_peer(struct zc_copy *c, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t n);
void zc_describe_peer_async(struct zc_copy *c, CUdeviceptr dst, CUcontext dst_context,
                            CUdeviceptr src, CUcontext src_context, size_t n, CUstream stream);
void zc_describe_2d(struct zc_copy *c, const CUDA_MEMCPY2D *p);
void zc_describe_2d_async(struct zc_copy *c, const CUDA_MEMCPY2D *p, CUstream stream);
void zc_describe_2d_v1(struct zc_copy *c, const CUDA_MEMCPY2D_v1 *p);
void zc_describe_2d_v1_async(struct zc_copy *c, const CUDA_MEMCPY2D_v1 *p, CUstream stream);
void zc_describe_3d_v1(struct zc_copy *c, const CUDA_MEMCPY3D_v1 *p);
void zc_describe_3d_v1_async(struct zc_copy *c, const CUDA_MEMCPY3D_v1 *p, CUstream stream);
void zc_describe_3d(struct zc_copy *c, const CUDA_MEMCPY3D *p);
void zc_describe_3d_async(struct zc_copy *c, const CUDA_MEMCPY3D *p, CUstream stream);
void zc_describe_3d_peer(struct zc_copy *c, const CUDA_MEMCPY3D_PEER *p);
void zc_describe_3d_peer_async(struct zc_copy *c, const CUDA_MEMCPY3D_PEER *p, CUstream stream);
/* Sets: `count` elements of `unit` bytes, and rows of `width` elements. */
static inline void zc_describe_set(struct zc_copy *c, CUdeviceptr dst, unsigned value, uint8_t unit,
                                   size_t count)
{
    c->dst.side = ZC_SIDE_DEVICE;
    c->dst.address = dst;
    c->dst.span = c->bytes = zc_product(count, unit);
    c->extent[1] = 1;
    c->value = value;
    c->unit = unit;
    c->set = true;
}

static inline void zc_describe_set_async(struct zc_copy *c, CUdeviceptr dst, unsigned value,
                                         uint8_t unit, size_t count, CUstream stream)
{
    zc_describe_set(c, dst, value, unit, count);
    c->async = true;
    c->stream = stream;
}

void zc_describe_set_2d(struct zc_copy *c, CUdeviceptr dst, size_t pitch, unsigned value,
                        uint8_t unit, size_t width, size_t height);
void zc_describe_set_2d_async(struct zc_copy *c, CUdeviceptr dst, size_t pitch, unsigned value,
                              uint8_t unit, size_t width, size_t height, CUstream stream);
/*
 * What nodes of graphs and operations of streams will copy or set; nothing where `p` is NULL.  A
 * value is a set of one element, which the driver wants to be aligned as well; `known` are the
 * flags that it takes.  Of several the first that the driver refuses in any memory, or else the
 * first in a block of libzc's.
 */
#define ZC_WRITE_FLAGS ((unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
#define ZC_WAIT_FLAGS ((unsigned)CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH)
void zc_describe_value(struct zc_copy *c, CUdeviceptr address, uint8_t width, unsigned flags,
                       unsigned known, CUstream stream);
void zc_describe_set_node(struct zc_copy *c, const CUDA_MEMSET_NODE_PARAMS *p);
/* True for a node of a type: calls that change one of another type fail in any memory. */
bool zc_describe_of_type(CUgraphNode node, CUgraphNodeType type);
#if CUDA_VERSION >= 12030
void zc_describe_node(struct zc_copy *c, const CUgraphNodeParams *p);
#endif

/* True for a shape that the driver takes; the others it refuses in any memory, with codes of its
 * own: CUDA Driver API, cuMemcpy2D ("the pitches must be greater than or equal to WidthInBytes"),
 * cuMemsetD2D32 ("must be four-byte aligned"). */
bool zc_copy_well_formed(const struct zc_copy *c);

void zc_describe_prefetch(struct zc_copy *c, CUdeviceptr ptr, size_t n, CUstream stream);

/* True for a side in a block of which libzc made the memory. */
static inline bool zc_operand_converted(const struct zc_operand *b)
{
    return b->block && (b->block->flags & ZC_BLOCK_CONVERTED);
}

/* The transfer's flow by what the program asked for and by the real kinds. */
void zc_copy_flows(const struct zc_copy *c, unsigned *asked, unsigned *real);

/* True where the call names two contexts. */
static inline bool zc_copy_peers(const struct zc_copy *c)
{
    return c->dst.context != c->src.context;
}

#endif
