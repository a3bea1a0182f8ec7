/* SPDX-License-Identifier: MIT */
/* Calls the callbacks of all modules. */
#include "base/module.h"

#include <stddef.h>

static size_t module_count(void)
{
    size_t n = 0;
    while (zc_modules[n])
        n++;
    return n;
}

#define EACH_UPWARDS(callback, call)                                                               \
    for (size_t i = 0; zc_modules[i]; i++)                                                         \
        if (zc_modules[i]->callback)                                                               \
    call

#define EACH_DOWNWARDS(callback, call)                                                             \
    for (size_t i = module_count(); i-- > 0;)                                                      \
        if (zc_modules[i]->callback)                                                               \
    call

void zc_modules_start(const struct zc_policy *policy)
{
    EACH_UPWARDS(start, zc_modules[i]->start(policy));
}

void zc_modules_before_fork(void)
{
    EACH_DOWNWARDS(before_fork, zc_modules[i]->before_fork());
}

void zc_modules_after_fork(void)
{
    EACH_UPWARDS(after_fork, zc_modules[i]->after_fork());
}

void zc_modules_inherit(void)
{
    EACH_UPWARDS(inherit, zc_modules[i]->inherit());
}

void zc_modules_child(void)
{
    EACH_UPWARDS(child, zc_modules[i]->child());
}

void zc_modules_context_lost(struct CUctx_st *context)
{
    EACH_DOWNWARDS(context_lost, zc_modules[i]->context_lost(context));
}

void zc_modules_context_gone(struct CUctx_st *context)
{
    EACH_DOWNWARDS(context_gone, zc_modules[i]->context_gone(context));
}

unsigned zc_modules_reclaim(int place)
{
    unsigned given = 0;
    EACH_DOWNWARDS(reclaim, given += zc_modules[i]->reclaim(place));
    return given;
}

unsigned zc_modules_reclaim_waiting(void)
{
    unsigned given = 0;
    EACH_DOWNWARDS(reclaim_waiting, given += zc_modules[i]->reclaim_waiting());
    return given;
}

uint64_t zc_modules_idle_bytes(void)
{
    uint64_t bytes = 0;
    EACH_DOWNWARDS(idle_bytes, bytes += zc_modules[i]->idle_bytes());
    return bytes;
}

void zc_modules_finish(void)
{
    EACH_DOWNWARDS(finish, zc_modules[i]->finish());
}
