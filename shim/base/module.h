/* SPDX-License-Identifier: MIT */
/* The registry of modules: one static row of callbacks for each. */
#pragma once

#include <stdint.h>

struct CUctx_st;
struct zc_policy;

/*
 * A module's callbacks, NULL if not needed. hook/modules.c lists the rows, from the bottom to the
 * top.  One thread calls all of them, except `reclaim`.
 */
struct zc_module {
    /* libzc starts: the policy is known, the driver initialised.  From bottom to top. */
    void (*start)(const struct zc_policy *policy);
    /* The parent is about to fork, from top to bottom; and has forked, in both processes, from
     * bottom to top.  Also called while libzc is off, because host blocks may be placed before. */
    void (*before_fork)(void), (*after_fork)(void);
    /* In the child of fork(2), which may only do what is async-signal-safe: stores, system calls,
     * mmap(2).  `inherit` still sees the parent's arena, which is cleared before `child`.  From
     * bottom to top. */
    void (*inherit)(void), (*child)(void);
    /* The driver has destroyed a context.  `context_lost` comes before the context's blocks are
     * removed, `context_gone` after that.  From top to bottom. */
    void (*context_lost)(struct CUctx_st *context), (*context_gone)(struct CUctx_st *context);
    /* Gives back unused memory that is kept for later: that of one place (enum zc_place_id), or
     * with ZC_PLACE_COUNT of all.  Returns the number of pieces.  From top to bottom.  Not during
     * captures. */
    unsigned (*reclaim)(int place);
    /* Gives up memory in use, where that has given none back. */
    unsigned (*yield)(int place);
    /* The process ends: the driver may be gone, so only memory and the log may be touched.  From
     * top to bottom. */
    void (*finish)(void);
};

/* All rows, from bottom to top, ended by NULL; see hook/modules.c. */
extern const struct zc_module *const zc_modules[];

void zc_modules_start(const struct zc_policy *policy);
void zc_modules_before_fork(void);
void zc_modules_after_fork(void);
void zc_modules_inherit(void);
void zc_modules_child(void);
void zc_modules_context_lost(struct CUctx_st *context);
void zc_modules_context_gone(struct CUctx_st *context);
unsigned zc_modules_reclaim(int place);
void zc_modules_finish(void);
