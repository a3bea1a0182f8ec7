/* SPDX-License-Identifier: MIT */
/* What every module has to be told of, one static row each. */
#ifndef ZC_BASE_MODULE_H
#define ZC_BASE_MODULE_H

#include <stdint.h>

struct CUctx_st;
struct zc_policy;

/*
 * A module's callbacks, each NULL where it does not care.  Rows are listed in hook/modules.c, from
 * the bottom of the rooms to their top.  All but `reclaim` and `idle_bytes` are called by one
 * thread.
 */
struct zc_module {
    /* libzc goes on: the policy is known, the driver initialised.  From bottom to top. */
    void (*start)(const struct zc_policy *policy);
    /* The parent is about to fork, top to bottom; and has forked, in both processes, bottom to top.
     * Also while libzc is off, because host blocks may be placed before. */
    void (*before_fork)(void), (*after_fork)(void);
    /* In the child of fork(2), which may only do what is async-signal-safe: store, make system
     * calls and mmap(2).  `inherit` still sees what the parent has in the arena, which is cleared
     * before `child`.  From bottom to top. */
    void (*inherit)(void), (*child)(void);
    /* The driver has destroyed a context.  `context_lost` is called before the blocks of the
     * context are forgotten, `context_gone` after that.  From top to bottom. */
    void (*context_lost)(struct CUctx_st *context), (*context_gone)(struct CUctx_st *context);
    /* Gives back memory that is kept for later and that nobody uses, of a place (enum zc_place_id)
     * or with ZC_PLACE_COUNT of all; returns how many pieces.  From top to bottom.  Not during
     * captures. */
    unsigned (*reclaim)(int place);
    /* Waits for memory that was freed and is still in use, and gives it back; returns how many
     * pieces. */
    unsigned (*reclaim_waiting)(void);
    /* Bytes of the current device that the module keeps and `reclaim` would give back. */
    uint64_t (*idle_bytes)(void);
    /* The process ends: the driver may be gone, so only memory and the log are touched.  From top
     * to bottom. */
    void (*finish)(void);
};

/* All rows, bottom to top, ended by NULL; defined in hook/modules.c. */
extern const struct zc_module *const zc_modules[];

void zc_modules_start(const struct zc_policy *policy);
void zc_modules_before_fork(void);
void zc_modules_after_fork(void);
void zc_modules_inherit(void);
void zc_modules_child(void);
void zc_modules_context_lost(struct CUctx_st *context);
void zc_modules_context_gone(struct CUctx_st *context);
unsigned zc_modules_reclaim(int place);
unsigned zc_modules_reclaim_waiting(void);
uint64_t zc_modules_idle_bytes(void);
void zc_modules_finish(void);

#endif
