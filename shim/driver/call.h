/* SPDX-License-Identifier: MIT */
/* Hand-written bodies: their first arguments, and their prototypes, made from the table. */
#pragma once

#include "driver/real.h"

/* How a wrapper was entered. */
struct zc_entry {
    enum zc_fn fn;           /* Which entry point. */
    enum zc_flavour flavour; /* Meaning of the NULL stream. */
    void *frame;             /* The wrapper's frame address, for zc_site_here(). */
    void *pc;                /* The wrapper's return address. */
};

#define ZC_UNPAREN(...) __VA_ARGS__
#define ZC_BODY(base, params)                                                                      \
    CUresult zc_do_##base(__typeof__(base) *real,                                                  \
                          const struct zc_entry *entry __attribute__((unused)), ZC_UNPAREN params)

/* Both flavours share a body, so it may be declared twice. */
#define ZC_CALL(name, base, flavour, params, args) ZC_BODY(base, params);
#include "driver.def"
