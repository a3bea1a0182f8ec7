/* SPDX-License-Identifier: MIT */
/* Sites: the call paths of requests, as module+offset frames that are the same from run to run. */
#ifndef ZC_LEDGER_SITE_H
#define ZC_LEDGER_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/traffic.h"

#define ZC_SITE_FRAMES 8  /* Frames kept, innermost first. */
#define ZC_SITE_MODULE 40 /* Bytes of a module's basename kept in a frame, with the 0. */

struct zc_frame {
    char module[ZC_SITE_MODULE]; /* Basename of the object, terminated; "?" where there is none. */
    uint64_t offset;             /* Return address minus the object's load address. */
};

/* One site, in the counters file, so that it survives SIGKILL.  When the table fills up, further
 * paths have one site a module, whose only frame has offset 0.  Index 0 is "all other sites" for
 * when it is full or the path could not be read. */
struct zc_site {
    uint32_t id;              /* FNV-1a of all frames, never 0; printed as eight hex digits. */
    uint32_t nframes;         /* Frames used. */
    uint64_t requests;        /* Allocations made here. */
    uint64_t requested_bytes; /* Bytes of them. */
    uint64_t frees;           /* Blocks of this site freed. */
    /* Innermost first; leading frames of libzc, CUDA and libc are left out. */
    struct zc_frame frame[ZC_SITE_FRAMES];
    struct zc_cell total[ZC_DIR_COUNT]; /* From freed blocks; live blocks' cells come on top. */
};

/*
 * The index of the site of the current call: walks the caller's stack by call-frame information,
 * leaving out the leading frames of libzc, CUDA, libc and libstdc++, up to ZC_SITE_FRAMES frames, a
 * signal trampoline, code of no object (module "?", offset 0) or anything strange.  A per-thread
 * cache, keyed by both arguments and verified against the return addresses still on the stack,
 * makes a repeated path cost some 10 ns.  Called directly in the exported wrapper: `frame` is
 * __builtin_frame_address(0) there, and `pc` its return address.  0 in a signal handler that
 * interrupted the ledger.  No malloc, no lock on the cached path, no loader call that takes the
 * loader's lock where glibc offers _dl_find_object.  Keeps errno.
 */
uint32_t zc_site_here(void *frame, void *pc);

/* Walks the caller's stack for no site, so that the first requests' walks find what they read in
 * memory.  For cuInit. */
void zc_site_rehearse(void);

/* The site's public id, its module (basename of the innermost frame that is the program's), all of
 * it, by index. */
uint32_t zc_site_id(uint32_t index);
const char *zc_site_module(uint32_t index);
const struct zc_site *zc_site_get(uint32_t index);
uint32_t zc_site_count(void); /* Sites in use, index 0 included. */

/* Counts a request at a site.  The caller holds the ledger's lock: block.c counts every block that
 * it enters, and zc_block_note_request() what is no block. */
void zc_site_note_request(uint32_t index, uint64_t bytes);

/* Counts a free at a site; any thread. */
void zc_site_note_free(uint32_t index);

/* Adds a cell's counts to the site's total (a block of the site goes away). */
void zc_site_fold(uint32_t index, const struct zc_cell *cell);

/* The site's total of a direction, for counts that no cell takes. */
struct zc_cell *zc_site_total(uint32_t index, enum zc_dir dir);

/* True for the first caller that asks for this index, so that a site's frames are logged once.
 * Never for index 0, which has none. */
bool zc_site_is_new(uint32_t index);

/* Keeps new sites out of the table, while the counters that hold it become others; false in a
 * signal handler that interrupted the table. */
bool zc_site_lock(void);
void zc_site_unlock(void);

void zc_site_reset(void); /* For the child of fork(2). */

#endif
