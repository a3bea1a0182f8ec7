/* SPDX-License-Identifier: MIT */
/* Work in pieces that the calling thread shares with others.  It never waits for a thread that the
 * kernel has not run yet: on a busy machine that takes longer than the work. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZC_CREW_MAX 16u /* Threads beside the caller. */

struct zc_crew;

/* Takes the next piece and does it.  False if there is none, for now, or for good: then it also
 * calls zc_crew_over().  Called by several threads at once; `who` is 0 in the caller, and another
 * number up to ZC_CREW_MAX in each of the others. */
typedef bool zc_crew_piece(struct zc_crew *crew, unsigned who);

/* Begins the record of a job.  The caller's fields are its own; threads read the record after
 * zc_crew_put(), but no more than these. */
struct zc_crew {
    zc_crew_piece *piece;
    size_t bytes;     /* Of the record. */
    unsigned wanted;  /* Threads beside the caller; the caller's, as the next two. */
    unsigned started; /* How many of them there are. */
    unsigned due;     /* How many are to be started at once. */
    uint32_t begun;   /* How many of them have run.  Atomic. */
    uint32_t busy;    /* How many are in a piece.  Atomic. */
    uint32_t members; /* Threads that still read the record; atomic.  The last one frees it. */
    bool over;        /* No piece is to be begun.  Atomic. */
};

/* A record of so many zeroed bytes for a job that is worth so many threads beside the caller; fewer
 * where there are no more processors, or where threads came late last time.  NULL if there is no
 * memory.  zc_crew_put() must follow. */
void *zc_crew_make(size_t bytes, zc_crew_piece *piece, size_t wanted);

/* Starts the next thread, if one is due; the more, the more of them have run.  False if none is due
 * yet: the caller has time for a piece. */
bool zc_crew_grow(struct zc_crew *crew);

/* No thread begins a piece from now on. */
void zc_crew_over(struct zc_crew *crew);

/* The same; also waits for the pieces that others are in. */
void zc_crew_wait(struct zc_crew *crew);

/* Gives the record back, once no other thread is to begin a piece. */
void zc_crew_put(struct zc_crew *crew);

/* Processors that the calling thread may run on; no more than the process has time for by the CPU
 * quotas of its control groups, which are read once a second.  1 at least. */
size_t zc_crew_cpus(void);
