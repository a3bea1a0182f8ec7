/* SPDX-License-Identifier: MIT */
/* The units of counting: memory kinds, directions, outcomes, and counts by them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Memory kinds, named as CUPTI's CUpti_ActivityMemoryKind names them. */
#define ZC_KINDS(X)                                                                                \
    X(PAGEABLE, "Pageable")                                                                        \
    X(PINNED, "Pinned") X(DEVICE, "Device") X(ARRAY, "Array") X(MANAGED, "Managed")

enum zc_kind {
#define ZC_KIND_ENUM(name, text) ZC_KIND_##name,
    ZC_KINDS(ZC_KIND_ENUM)
#undef ZC_KIND_ENUM
        ZC_KIND_COUNT
};

/* Directions, named as in Nsight Systems and CUPTI's CUpti_ActivityMemcpyKind, and Memset and
 * Prefetch.  A = array, P = peer (two devices). */
#define ZC_DIRS(X)                                                                                 \
    X(HTOD, "HtoD")                                                                                \
    X(DTOH, "DtoH")                                                                                \
    X(DTOD, "DtoD")                                                                                \
    X(HTOH, "HtoH")                                                                                \
    X(PTOP, "PtoP")                                                                                \
    X(HTOA, "HtoA")                                                                                \
    X(ATOH, "AtoH")                                                                                \
    X(ATOD, "AtoD") X(DTOA, "DtoA") X(ATOA, "AtoA") X(MEMSET, "Memset") X(PREFETCH, "Prefetch")

enum zc_dir {
#define ZC_DIR_ENUM(name, text) ZC_DIR_##name,
    ZC_DIRS(ZC_DIR_ENUM)
#undef ZC_DIR_ENUM
        ZC_DIR_COUNT
};

/* Sources of host memory that the program takes for pageable: malloc, a mapping of no file, of a
 * file, or of a file in memory, the calling thread's stack, or variables of a loaded object. */
#define ZC_SOURCES(X)                                                                              \
    X(HEAP, "heap")                                                                                \
    X(ANONYMOUS, "anonymous")                                                                      \
    X(FILE, "file") X(SHM, "shm") X(STACK, "stack") X(STATIC, "static")

enum zc_source {
    ZC_SOURCE_NONE, /* No such memory. */
#define ZC_SOURCE_ENUM(name, text) ZC_SOURCE_##name,
    ZC_SOURCES(ZC_SOURCE_ENUM)
#undef ZC_SOURCE_ENUM
        ZC_SOURCE_COUNT
};

const char *zc_kind_name(enum zc_kind kind);
const char *zc_source_name(enum zc_source source); /* NULL for NONE. */
const char *zc_dir_name(enum zc_dir dir);

/* A flow is a direction with the memory kinds of both sides (both equal for Memset, Prefetch). */
#define ZC_FLOWS (ZC_DIR_COUNT * ZC_KIND_COUNT * ZC_KIND_COUNT)
static inline unsigned zc_flow(enum zc_dir dir, enum zc_kind src, enum zc_kind dst)
{
    return ((unsigned)dir * ZC_KIND_COUNT + (unsigned)src) * ZC_KIND_COUNT + (unsigned)dst;
}
static inline enum zc_dir zc_flow_dir(unsigned flow)
{
    return (enum zc_dir)(flow / (ZC_KIND_COUNT * ZC_KIND_COUNT));
}
static inline enum zc_kind zc_flow_src(unsigned flow)
{
    return (enum zc_kind)(flow / ZC_KIND_COUNT % ZC_KIND_COUNT);
}
static inline enum zc_kind zc_flow_dst(unsigned flow)
{
    return (enum zc_kind)(flow % ZC_KIND_COUNT);
}

/* The direction of a copy between two memory kinds on one device.  Managed memory counts as the
 * device's side, as in CUPTI's CUpti_ActivityMemcpyKind when the pages are not known. */
static inline enum zc_dir zc_dir_of(enum zc_kind src, enum zc_kind dst)
{
    enum { HOST, DEVICE, ARRAY };
    static const uint8_t side_of[ZC_KIND_COUNT] = {
        [ZC_KIND_PAGEABLE] = HOST, [ZC_KIND_PINNED] = HOST,    [ZC_KIND_DEVICE] = DEVICE,
        [ZC_KIND_ARRAY] = ARRAY,   [ZC_KIND_MANAGED] = DEVICE,
    };
    static const uint8_t by_sides[3][3] = {
        [HOST] = {ZC_DIR_HTOH, ZC_DIR_HTOD, ZC_DIR_HTOA},
        [DEVICE] = {ZC_DIR_DTOH, ZC_DIR_DTOD, ZC_DIR_DTOA},
        [ARRAY] = {ZC_DIR_ATOH, ZC_DIR_ATOD, ZC_DIR_ATOA},
    };
    return (enum zc_dir)by_sides[side_of[src]][side_of[dst]];
}

/* The outcome of a transfer. */
enum zc_outcome {
    ZC_MOVED,  /* The driver made it. */
    ZC_CPU,    /* libzc made it with the CPU; nothing crossed the link. */
    ZC_ELIDED, /* Nothing had to be done: both sides are the same memory. */
    ZC_OUTCOME_COUNT
};

/* Counts of one kind, which only grow.  Written with relaxed atomics. */
struct zc_count {
    uint64_t calls; /* Transfers, or the driver's copies. */
    uint64_t bytes; /* Bytes of them. */
};

/* The traffic of one block, or site, in one direction. 64 bytes: a cache line. */
struct zc_cell {
    uint32_t block;                       /* Low 32 bits of the block's id; 0 in a free cell. */
    uint16_t site;                        /* Index of the block's site. */
    uint8_t dir;                          /* enum zc_dir. */
    uint8_t writer;                       /* Slot of its only writer; 0: any thread. */
    struct zc_count by[ZC_OUTCOME_COUNT]; /* Requested = moved + CPU-copied + elided. */
    uint64_t ticks;                       /* Time that callers were blocked, in ticks. */
};
_Static_assert(sizeof(struct zc_cell) == 64, "a cell is one cache line");

/* Totals of the threads that share a slot. */
struct zc_totals {
    struct zc_count asked[ZC_FLOWS][ZC_OUTCOME_COUNT]; /* By requested flow. */
    struct zc_count moved[ZC_FLOWS];                   /* The driver's copies, by actual kinds. */
    uint64_t ticks[ZC_FLOWS]; /* Blocked time by requested flow, in ticks. */
};

/* Transfers of one source of pageable memory, all from it or all to it. */
struct zc_source_count {
    struct zc_count asked;
    uint64_t moved_bytes; /* Bytes that the driver moved as pageable memory. */
    uint64_t ticks;
};

/* Bytes of such transfers by their size: powers of two from 64 KiB on. */
#define ZC_SOURCE_SIZE_LEAST 16
#define ZC_SOURCE_SIZES 16
struct zc_source_sizes {
    uint64_t bytes[ZC_SOURCE_SIZES]; /* The last has all from 2 GiB on. */
};

struct zc_block;

struct zc_transfer {
    unsigned asked;          /* Flow as the program sees it. */
    unsigned real;           /* Flow by the actual kinds. */
    enum zc_outcome outcome; /* Its outcome. */
    uint64_t bytes;          /* Bytes copied or set. */
    uint64_t copies;         /* Copies or sets that the driver made; counted if MOVED. */
    uint64_t ticks;          /* Ticks that the call took. */
    struct zc_block *dst;    /* Destination's block, or NULL when it is not in the ledger. */
    struct zc_block *src;    /* Source's block, or NULL; NULL for sets. */
    uint8_t dst_source;      /* enum zc_source of pageable memory, */
    uint8_t src_source;      /* else NONE. */
    uint8_t links;           /* Devices whose links carried it; 0, 1: one. */
    uint16_t call;           /* Index of the call's own site; 0 if it is unknown. */
    bool continues;          /* Another part of a counted transfer: bytes, but no call. */
};

/* One that the driver makes as it was asked for, and that is only counted. */
struct zc_plain_copy {
    struct zc_block *dst, *src;
    struct zc_cell *cell[2]; /* That count it, and that the calling thread alone writes, */
    uint64_t sequence;       /* while zc_index_sequence is this. */
    uint64_t bytes;
    unsigned flow, sides; /* `sides`: of the call. */
};
