/* SPDX-License-Identifier: MIT */
/* The driver's own functions, and the numbers of the entry points. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "driver/newer.h"

#define ZC_DEVICES 64 /* Devices that are told apart. */

/* Whether the NULL stream of a call means the legacy or the per-thread default stream. */
enum zc_flavour { ZC_LEGACY, ZC_PER_THREAD };

/* cuda.h declares only some of the twins that the driver exports, and an older one not every call.
 * The compiler compares these with what it does declare. */
#define ZC_ROW(name, base, params) CUresult CUDAAPI name params;
#define ZC_USE(name, base) extern __typeof__(base) name;
#include "driver.def"

enum zc_fn {
#define ZC_ROW(name, base, params) ZC_FN_##name,
#include "driver.def"
    ZC_FN_CAUGHT, /* Rows before this one have wrappers. */
    ZC_FN_BEFORE_USED = ZC_FN_CAUGHT - 1,
#define ZC_USE(name, base) ZC_FN_##name,
#include "driver.def"
    ZC_FN_COUNT
};

/*
 * The real functions: one correctly typed pointer for each row, in the order of enum zc_fn.  NULL
 * until the driver is found; then a function that returns CUDA_ERROR_NOT_SUPPORTED for what it
 * lacks.  Written once by zc_real_find(), and read with plain loads: the pointers never change.
 */
struct zc_real {
#define ZC_ROW(name, base, params) __typeof__(base) *name;
#include "driver.def"
#define ZC_USE(name, base) __typeof__(base) *name;
#include "driver.def"
};
extern struct zc_real zc_real;

/*
 * Finds the driver if it is loaded, and fills zc_real; true if it is there.  May run in several
 * threads at once: all store the same values, and no lock is held while the loader is called.
 */
bool zc_real_find(void);

/* The real function of a row, after looking for the driver if necessary; NULL if there is none. */
#define ZC_REAL(name)                                                                              \
    (__builtin_expect(zc_real.name != NULL, 1) || zc_real_find() ? zc_real.name : NULL)

/* The function of the pair for a flavour. */
#define ZC_FLAVOURED(flavour, name)                                                                \
    ((flavour) == ZC_PER_THREAD && zc_real.name##_ptsz ? zc_real.name##_ptsz : zc_real.name)

/* Exported name of an entry point, or of one that libzc does not know, where it has one; else the
 * name that the program asked for.  Defined in unknown.c. */
const char *zc_fn_name(enum zc_fn fn);
const char *zc_real_name(enum zc_fn fn); /* Only of a row. */

/* The wrapper for a driver address, or the address itself where libzc knows it and does not hook it
 * (passthrough.def); NULL for one that neither table names. */
void *zc_wrapper_of(void *real);

/* True if the address is one of libzc's wrappers. */
bool zc_is_wrapper(const void *address);

/* True if the driver has the function behind a wrapper. */
bool zc_driver_has(const void *wrapper);

/* True for codes that do not depend on where blocks are: about the driver, the context, a handle,
 * or a kernel that has failed, whose error all later calls return. */
bool zc_error_unrelated(CUresult code);

/* libc's functions behind libzc's hooks, found by dlvsym(3), so `dlsym` here is never the hook. */
extern void *(*zc_real_dlsym)(void *handle, const char *name);
extern void *(*zc_real_dlopen)(const char *file, int mode);
void zc_libc_find(void);
