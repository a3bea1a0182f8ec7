/* SPDX-License-Identifier: MIT */
/* Sites: the call paths of requests, as module+offset frames that are the same from run to run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/python.h"
#include "ledger/traffic.h"

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

/* The index of the site with these frames and Python functions, which is added if necessary.  When
 * the table fills up: the site for the rest of the first frame's module. 0 for no frames, if the
 * table is full, and in a signal handler that interrupted the table.  Takes over the path of the
 * arena, which may be NULL.  Paths that differ in the interpreter's own frames alone have an index
 * each, but one id: the interpreter calls a function from several places of its code. */
uint32_t zc_site_intern(const struct zc_frame *frames, unsigned n, struct zc_python_path *python);

/* The Python functions of a site, NULL without any; and its id without them, which rules match. */
const struct zc_python_path *zc_site_python(uint32_t index);
uint32_t zc_site_native(uint32_t index);

/* A site by its index: public id, module (basename of the program's innermost frame), and
 * everything. */
uint32_t zc_site_id(uint32_t index);
const char *zc_site_module(uint32_t index);
const struct zc_site *zc_site_get(uint32_t index);
uint32_t zc_site_count(void); /* Sites in use, index 0 included. */

/* Counts a request at a site: every block that block.c enters, under the ledger's lock. */
void zc_site_note_request(uint32_t index, uint64_t bytes);

/* Counts a free at a site.  For any thread. */
void zc_site_note_free(uint32_t index);

/* Adds a cell's counts to the site's total, because its block goes away. */
void zc_site_fold(uint32_t index, const struct zc_cell *cell);

/* The site's total of a direction, for counts without a cell. */
struct zc_cell *zc_site_total(uint32_t index, enum zc_dir dir);

/* True for the first caller with this index, so that a site's frames are logged once.  Never for
 * index 0, which has none. */
bool zc_site_is_new(uint32_t index);

/* Keeps new sites out of the table while the counters are replaced; false in a signal handler that
 * interrupted the table. */
bool zc_site_lock(void);
void zc_site_unlock(void);
