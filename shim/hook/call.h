/* The hand-written bodies: their common first arguments, and their prototypes made from the
 * table. */
#ifndef ZC_HOOK_CALL_H
#define ZC_HOOK_CALL_H

#include "driver/real.h"
#include "shared/report.h"

/* How a wrapper was entered. */
struct zc_entry {
    enum zc_fn fn;           /* Which entry point. */
    enum zc_flavour flavour; /* What the NULL stream means. */
    void *frame;             /* The wrapper's frame address, for zc_site_here(). */
    void *pc;                /* The wrapper's return address. */
};

#define ZC_UNPAREN(...) __VA_ARGS__
#define ZC_BODY(base, params)                                                                      \
    CUresult zc_do_##base(__typeof__(base) *real, const struct zc_entry *entry, ZC_UNPAREN params)

/* Both flavours share a body, so the declaration of it may come twice. */
#define ZC_CALL(name, base, flavour, params, args) ZC_BODY(base, params);
#include "driver.def"

/* True for what a call says wherever its blocks lie: of the driver, the context, a handle, or a
 * kernel that has failed, whose error all later calls give. */
bool zc_blameless(CUresult code);

/*
 * Says why the driver refused a call: when `address` lies in a block that libzc placed elsewhere,
 * one message names the rule, its line and the block.  Returns the driver's code unchanged.
 */
CUresult zc_blame(enum zc_fn fn, CUdeviceptr address, CUresult code);

/* A call of `fn` tells of a kernel that failed with an illegal address: names, once a process, the
 * rules that have placed blocks, and the blocks that kernels may only read. */
void zc_blame_kernel(enum zc_fn fn);

/* From here on launches, too, are looked at: a block was placed. */
void zc_blame_watch(void);

/* What every wrapper returns: any call may be the first to tell of a kernel that failed.  Returns
 * the code unchanged. */
static inline CUresult zc_told(enum zc_fn fn, CUresult code)
{
    if (__builtin_expect(code == CUDA_ERROR_ILLEGAL_ADDRESS, 0))
        zc_blame_kernel(fn);
    return code;
}

#endif
