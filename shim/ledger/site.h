/* SPDX-License-Identifier: MIT */
/* Sites: the call paths of requests, as module+offset frames that are the same from run to run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/counters.h"
#include "ledger/python.h"

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

/* Counts a request at a site: every block that block.c enters, under the ledger's lock.  `rule`:
 * its index, -1 for none; the site keeps the last one. */
void zc_site_note_request(uint32_t index, uint64_t bytes, int rule);
int zc_site_rule(uint32_t index);

/* Counts a free at a site.  For any thread. */
void zc_site_note_free(uint32_t index);

/* The site's total of a direction: of blocks that are gone, and of counts without a cell. */
struct zc_cell *zc_site_total(uint32_t index, enum zc_dir dir);

/* True for the first caller with this index, so that a site's frames are logged once.  Never for
 * index 0, which has none. */
bool zc_site_is_new(uint32_t index);
