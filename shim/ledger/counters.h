/* SPDX-License-Identifier: MIT */
/*
 * The counters file: a MAP_SHARED set of pages with every counter, so that counts survive SIGKILL
 * and `zc top` can watch a running process.  Its layout is an interface: fields are only added at
 * the end, and the schema number identifies it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/flow.h"

#define ZC_COUNTERS_MAGIC "zc-count"
#define ZC_COUNTERS_SCHEMA 1u
#define ZC_COUNTERS_SLOTS 32u /* Totals; threads that have no slot share slot 0. */
#define ZC_COUNTERS_SITES 512u
#define ZC_COUNTERS_CELLS 8192u /* Cells of live blocks; more are in private memory. */
#define ZC_COUNTERS_PLACES 16u
#define ZC_COUNTERS_REFUSALS 16u /* Rules of refused calls; further rules are not named. */

#define ZC_SITE_FRAMES 8  /* Frames kept, innermost first. */
#define ZC_SITE_MODULE 40 /* Bytes of a module's basename in a frame, with the 0. */

struct zc_frame {
    char module[ZC_SITE_MODULE]; /* Basename of the object, terminated; "?" if there is none. */
    uint64_t offset;             /* Return address minus the object's load address. */
};

/* One site, in the counters file, so that it survives SIGKILL.  When the table fills up, further
 * paths share one site for each module, whose only frame has offset 0.  Index 0 means "all other
 * sites": the table is full, or the path could not be read. */
struct zc_site {
    uint32_t id;              /* FNV-1a of its path, never 0; printed as eight hex digits. */
    uint32_t nframes;         /* Frames used. */
    uint64_t requests;        /* Requests made here. */
    uint64_t requested_bytes; /* Bytes of them. */
    uint64_t frees;           /* Blocks of this site freed. */
    /* Innermost first, without leading frames of libzc, CUDA and libc. */
    struct zc_frame frame[ZC_SITE_FRAMES];
    struct zc_cell total[ZC_DIR_COUNT]; /* From freed blocks; without live ones. */
};

struct zc_block_gauge {
    uint64_t blocks;     /* Live blocks of a place. */
    uint64_t bytes;      /* Bytes of them. */
    uint64_t peak_bytes; /* Peak of `bytes`. */
};

struct zc_counters_header {
    char magic[8];                          /* ZC_COUNTERS_MAGIC, not terminated. */
    uint32_t schema;                        /* ZC_COUNTERS_SCHEMA. */
    uint32_t pid;                           /* Process id. */
    uint64_t bytes;                         /* Size of the file. */
    uint32_t slots, sites, cells, places;   /* Lengths of the arrays below. */
    uint32_t kinds, dirs, outcomes, frames; /* Lengths of the arrays inside their elements. */
    uint64_t tick_mult;                     /* ns = ticks * tick_mult >> 32. */
    uint64_t start_wall_ns;                 /* Start, Unix time in ns. */
    uint64_t closed;                        /* 1 after a clean exit. */
    char exe[64];                           /* Basename of the executable, terminated. */
};

struct zc_refusal {
    uint64_t calls; /* Calls refused because of the rule. */
    uint32_t line;  /* Line of the rule; 0 in a free entry. */
    char rule[52];  /* Its name, terminated. */
};

struct zc_refusals {
    uint64_t calls;                                  /* All refused calls. */
    struct zc_refusal by_rule[ZC_COUNTERS_REFUSALS]; /* In order of first refusals. */
};

struct zc_source_counts {
    struct zc_source_count from, to; /* Transfers from the memory, and to it. */
};

struct zc_counters {
    struct zc_counters_header header;
    uint32_t next_slot;                              /* Slots given to threads so far. */
    uint32_t next_site;                              /* Sites in use. */
    struct zc_block_gauge place[ZC_COUNTERS_PLACES]; /* By enum zc_place_id. */
    struct zc_totals slot[ZC_COUNTERS_SLOTS] __attribute__((aligned(64)));
    struct zc_site site[ZC_COUNTERS_SITES] __attribute__((aligned(64)));
    struct zc_cell cell[ZC_COUNTERS_CELLS] __attribute__((aligned(64)));
    struct zc_refusals refusals;
    struct zc_source_counts source[ZC_SOURCE_COUNT - 1]; /* By enum zc_source, without NONE. */
    uint64_t start_ticks; /* Within cuInit and calls that make a context. */
    struct zc_source_sizes from_sizes[ZC_SOURCE_COUNT - 1], to_sizes[ZC_SOURCE_COUNT - 1];
    /* By the site of the call that copied, from the level `allocs` on. */
    struct zc_cell call[ZC_COUNTERS_SITES][ZC_DIR_COUNT] __attribute__((aligned(64)));
};

/* The counters in use, never NULL: before zc_counters_open() static memory, of which only the sites
 * and the time of the driver's start are taken over. */
extern struct zc_counters *zc_counters_now; /* Atomic; only counters.c writes it. */
static inline struct zc_counters *zc_counters(void)
{
    return __atomic_load_n(&zc_counters_now, __ATOMIC_ACQUIRE);
}

/* Keeps the counters from being replaced while a site is added, or a cell taken or put; false in a
 * signal handler that interrupted that. */
bool zc_counters_lock(void);
void zc_counters_unlock(void);

/*
 * Creates the counters in the file `path` (O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600), in place of
 * those of a process that was killed.  The mapping keeps its byte 0 locked (zc_file_lock).  Its
 * blocks are allocated by posix_fallocate(3), so that a full disk is an error here and not SIGBUS
 * later.  If path is NULL, or the file can't be made
 * (one message says why), they are in private memory.  False if not even that is available: then
 * counting goes on in the static memory.
 */
bool zc_counters_open(const char *path);

/* Clean exit: marks the file as closed and unlinks it, because the log's summary has the rest.  The
 * memory stays, because other threads may still count. */
void zc_counters_close(void);

/* Has zc_counters_close() leave the file there, because the log has no summary. */
void zc_counters_keep(void);

/*
 * Before and after a call in which the driver starts: cuInit, or one that makes a context.  Calls
 * of several threads at a time count once, because they wait for each other.  begin() gives what
 * end() takes.
 */
uint64_t zc_counters_begin_start(void);
void zc_counters_end_start(uint64_t begun);

/* For the child of fork(2): fresh private counters; the parent's file is not touched. */
void zc_counters_reset(void);
