/* SPDX-License-Identifier: MIT */
/* One description for all copies, sets and prefetches. */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/life.h"
#include "driver/plan.h"
#include "driver/real.h"
#include "ledger/block.h"
#include "ledger/traffic.h"
#include "log/lines.h"
#include "policy/policy.h"

struct zc_extent;

/* One side of a copy, as the call describes it. */
enum zc_side {
    ZC_SIDE_NONE,   /* No such side: the source of a set. */
    ZC_SIDE_HOST,   /* A host address. */
    ZC_SIDE_DEVICE, /* A device address. */
    ZC_SIDE_ARRAY,  /* An array; it has no address. */
    ZC_SIDE_ANY,    /* Any address: unified addressing decides (CUDA Driver API, cuMemcpy). */
};

/* One side of a transfer. */
struct zc_operand {
    enum zc_side side;         /* As the call says. */
    enum zc_kind asked;        /* Kind that the program believes in. */
    enum zc_kind real;         /* Actual kind of the pages. */
    bool staged;               /* `extent` is set, and its copies stay those of pageable memory. */
    bool in_margin;            /* Memory that libzc mapped around a block. */
    CUdeviceptr address;       /* First byte accessed; 0 for arrays. */
    size_t span;               /* Bytes from the first to the last one accessed. */
    struct zc_block *block;    /* The block it begins in, or NULL. */
    struct zc_extent *extent;  /* Extent of a host heap block that libzc answers for, else NULL. */
    struct zc_extent *visited; /* `extent` during the copy; see zc_hostheap_visit(). */
    CUcontext context;         /* Context that the call names for it, or NULL. */
    size_t pitch;              /* Bytes from row to row; 2D and 3D only. */
    size_t slice;              /* Bytes from slice to slice; 3D only. */
};

/* Position of a node to be added to a graph. */
struct zc_behind {
    CUgraphNode *node; /* Receives it. */
    CUgraph graph;
    const CUgraphNode *nodes;
    const void *edges; /* NULL for plain dependencies. */
    size_t count;
    CUcontext context; /* That it names. */
};

#define ZC_BEHIND(node, graph, nodes, count, context)                                              \
    (&(const struct zc_behind){(node), (graph), (nodes), NULL, (count), (context)})

enum zc_shape {
    ZC_SHAPE_NONE,     /* Nothing is described. */
    ZC_SHAPE_LINE,     /* One line of bytes. */
    ZC_SHAPE_STRIDED,  /* Rows and slices: `extent` and the pitches count. */
    ZC_SHAPE_SET,      /* A memset, or a value that a stream writes or waits for. */
    ZC_SHAPE_PREFETCH, /* Only the requested bytes are known. */
};

/* A transfer in a wrapper; lives on the wrapper's stack. */
struct zc_copy {
    /* The call, and what stands on both sides. */
    enum zc_fn fn;           /* Entry point. */
    enum zc_flavour flavour; /* Meaning of the NULL stream. */
    void *frame, *pc;        /* As in struct zc_entry; NULL where the call has no site. */
    uint64_t start;          /* zc_ticks() at entry. */
    CUstream stream;         /* As the program gave it; NULL for calls without one. */
    uint64_t bytes;          /* Bytes that the call asks to move or set. */
    enum zc_shape shape;
    CUresult result; /* The wrapper returns it. */
    bool on;         /* libzc records this call. */
    bool async;      /* The call has a stream and need not wait. */
    bool sync;       /* The call has no stream, but a row ZC_SYNC. */
    bool word;       /* A set: a single value that a stream writes or waits for. */
    bool continues;  /* Part of a call of which another part has been counted. */
    bool answered;   /* The failure of the call has been explained. */
    bool made;       /* A node was added by libzc: the call is complete. */
    bool flat;       /* `given` is a CUDA_MEMCPY2D. */
    bool unknown;    /* The call is given a value that libzc does not know. */
    uint8_t unit; /* Sets: bytes of an element.  Strided: 1.  0: the driver refuses it, or may. */
    int order;    /* The CUmemcpySrcAccessOrder that the call gives; 0: it can't give one, -1: it
                   * gives none that there is. */
    struct zc_operand dst, src;
    const struct zc_behind *behind; /* Position of a node added to a graph, else NULL. */
    const void *given; /* Strided: the CUDA_MEMCPY2D if `flat`, else the CUDA_MEMCPY3D or its peer
                        * form; NULL where the call has another description. */
    size_t extent[3]; /* Strided: bytes of a row, rows of a slice, slices.  Sets: rows, and if there
                       * are several the bytes of one. */
    unsigned value;   /* Sets: the value of each element. */
    CUarray array;    /* Lines to or from an array: that one.  Not set by others. */
    size_t array_at;  /* And the first byte in it. */
    /* The plan. */
    enum zc_way way; /* By the facts; FORWARD if the way ended with the driver. */
    uint32_t facts;  /* Bits of enum zc_fact. */
    bool planned;    /* The sides were more than memory of the driver's and the program's own. */
    bool first;      /* THREADS: of a block that the next copy registers (copy/parallel.h). */
    bool kept;       /* The source stays ONE meanwhile (shared/transfer.h). */
    bool held;       /* Blocks stay where they are meanwhile (vmm/move.h). */
    /* The outcome. */
    uint8_t links;                   /* Devices whose links carried it, of those 1 the own. */
    uint64_t copies;                 /* Number of copies that the driver makes. */
    uint64_t part[ZC_OUTCOME_COUNT]; /* `shared`: bytes by outcome; set if `way` is PAIR. */
};

/* Begins a description, and starts the clock. */
static inline void zc_copy_init(struct zc_copy *c, enum zc_fn fn, enum zc_flavour flavour)
{
    bool on = zc_life_on();
    *c = (struct zc_copy){.fn = fn,
                          .flavour = flavour,
                          .start = on ? zc_ticks() : 0,
                          .on = on,
                          .links = 1,
                          .copies = 1};
}

/* The call has a stream and need not wait. */
static inline void zc_copy_on_stream(struct zc_copy *c, CUstream stream)
{
    c->async = true;
    c->stream = stream;
}

/* For sizes from the program: a result that overflows is larger than any block. */
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

/* Describe each shape by its parameters.  Null descriptors leave 0 bytes. */
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
    c->shape = ZC_SHAPE_LINE;
}

void zc_describe_peer(struct zc_copy *c, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                      CUcontext src_context, size_t n);
void zc_describe_2d(struct zc_copy *c, const CUDA_MEMCPY2D *p);
void zc_describe_3d(struct zc_copy *c, const CUDA_MEMCPY3D *p);
/* A box whose elements may be those of an array.  `as` takes its description in bytes, and has to
 * live as long as `c`.  The driver takes no flags. */
void zc_describe_op(struct zc_copy *c, CUDA_MEMCPY3D *as, const CUDA_MEMCPY3D_BATCH_OP *op,
                    unsigned long long flags);
/* When the source may be read.  Called after the shape is described. */
static inline void zc_describe_order(struct zc_copy *c, int order)
{
    c->unknown =
        order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    c->order = c->unknown ? -1 : order;
}
void zc_describe_3d_peer(struct zc_copy *c, const CUDA_MEMCPY3D_PEER *p);
/* Sets: `count` elements of `unit` bytes, and rows of `width` elements.  Of elements in one row the
 * driver takes the product as 64 bits hold it (measured on an H100). */
static inline void zc_describe_set(struct zc_copy *c, CUdeviceptr dst, unsigned value, uint8_t unit,
                                   size_t count)
{
    c->dst.side = ZC_SIDE_DEVICE;
    c->dst.address = dst;
    c->dst.span = c->bytes = count * unit;
    c->extent[1] = 1;
    c->value = value;
    c->unit = unit;
    c->shape = ZC_SHAPE_SET;
}

void zc_describe_set_2d(struct zc_copy *c, CUdeviceptr dst, size_t pitch, unsigned value,
                        uint8_t unit, size_t width, size_t height);
/*
 * Describe what graph nodes and stream operations will copy or set; nothing if `p` is NULL.  A
 * value is a set of one element, which must also be aligned; `known` are the flags that the driver
 * accepts.  Of several operations: the first that the driver refuses in any memory, else the first
 * in a block of libzc's.
 */
#define ZC_WRITE_FLAGS ((unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
#define ZC_WAIT_FLAGS ((unsigned)CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH)
void zc_describe_value(struct zc_copy *c, CUdeviceptr address, uint8_t width, unsigned flags,
                       unsigned known, CUstream stream);
void zc_describe_set_node(struct zc_copy *c, const CUDA_MEMSET_NODE_PARAMS *p);
/* True if a node has this type.  Calls that change a node of another type fail in any memory. */
bool zc_describe_of_type(CUgraphNode node, CUgraphNodeType type);
/* Not of nodes that neither copy nor set. */
void zc_describe_node(struct zc_copy *c, const CUgraphNodeParams *params);
/* Nodes that copy batches (CUDA 13.5) are not known. */
static inline bool zc_known_node(CUgraphNodeType type)
{
    return (unsigned)type <= CU_GRAPH_NODE_TYPE_CONDITIONAL;
}
/* The parameters, if they have the type of the node that they are for; else NULL. */
const CUgraphNodeParams *zc_describe_if(CUgraphNode node, const CUgraphNodeParams *params);

/* True for a shape that the driver accepts.  It refuses others in any memory, or may, with codes of
 * its own: CUDA Driver API, cuMemcpy2D ("the pitches must be greater than or equal to
 * WidthInBytes"), cuMemsetD2D32 ("must be four-byte aligned"). */
bool zc_copy_well_formed(const struct zc_copy *c);

void zc_describe_prefetch(struct zc_copy *c, CUdeviceptr ptr, size_t n);

/* The driver's kind of an address, a CU_MEMORYTYPE_*; 0 for memory that it does not know. */
unsigned zc_memory_type(CUdeviceptr address);

/* True if the driver knows the address as managed memory. */
bool zc_memory_managed(CUdeviceptr address);

/* True for a side in a block whose memory libzc made, or had registered before the program did. */
static inline bool zc_operand_converted(const struct zc_operand *b)
{
    return b->block && (b->block->flags & ZC_BLOCK_KNOWN);
}

/* True for a mapping of the program's own, which says who may touch it (cuMemSetAccess). */
static inline bool zc_is_mapping(const struct zc_block *b)
{
    return b && (b->flags & ZC_BLOCK_FOREIGN) && b->api == ZC_API_cuMemCreate;
}

/* True for device memory, with all `bytes` inside one block; otherwise the driver would refuse. */
static inline bool zc_operand_on_device(const struct zc_operand *b, uint64_t bytes)
{
    return b->block && b->asked == ZC_KIND_DEVICE && b->real == ZC_KIND_DEVICE &&
           bytes <= b->block->base + b->block->size - b->address;
}

/* The direction of a copy.  Those between blocks of two devices are peer copies, whatever function
 * is called; CUPTI counts them so. */
static inline enum zc_dir zc_copy_dir(enum zc_kind src, enum zc_kind dst,
                                      const struct zc_block *from, const struct zc_block *to)
{
    enum zc_dir dir = zc_dir_of(src, dst);
    return dir == ZC_DIR_DTOD && from && to && from->device != to->device ? ZC_DIR_PTOP : dir;
}

/* The flow of a transfer, if its sides were of these kinds. */
static inline unsigned zc_copy_flow(const struct zc_copy *c, enum zc_kind src, enum zc_kind dst)
{
    if (c->shape == ZC_SHAPE_SET || c->shape == ZC_SHAPE_PREFETCH)
        return zc_flow(c->shape == ZC_SHAPE_SET ? ZC_DIR_MEMSET : ZC_DIR_PREFETCH, dst, dst);
    return zc_flow(zc_copy_dir(src, dst, c->src.block, c->dst.block), src, dst);
}

/* By requested kinds, and by actual kinds. */
static inline unsigned zc_copy_asked(const struct zc_copy *c)
{
    return zc_copy_flow(c, c->src.asked, c->dst.asked);
}
static inline unsigned zc_copy_real(const struct zc_copy *c)
{
    return zc_copy_flow(c, c->src.real, c->dst.real);
}

/* A copy or set as the counters know it, made until now; and as the log names its call, with a site
 * from the level `events` on. */
struct zc_transfer zc_copy_transfer(const struct zc_copy *c);
struct zc_log_call zc_copy_call(const struct zc_copy *c);

/* True if the call names two contexts. */
static inline bool zc_copy_peers(const struct zc_copy *c)
{
    return c->dst.context != c->src.context;
}
