/* SPDX-License-Identifier: MIT */
/* Messages about pairs: conflicts, better rules; and a line in the log for each pair. */
#ifndef ZC_SHARED_REPORT_H
#define ZC_SHARED_REPORT_H

#include "shared/pair.h"

/* What accessed a lost page. */
enum zc_shared_culprit {
    ZC_CULPRIT_READ,  /* The CPU read the host block. */
    ZC_CULPRIT_WRITE, /* The CPU wrote the host block. */
    ZC_CULPRIT_COPY,  /* A copy needs the host block. */
};

/* Names rule, line, block and site of a conflict, and what to change.  Async-signal-safe. */
void zc_shared_conflict(struct zc_shared *pair, enum zc_shared_culprit culprit, uint64_t offset);

/* The kernel refused memory or mappings to part both sides.  Async-signal-safe. */
void zc_shared_stuck(const struct zc_shared *pair);

/* A side has gone, with this effect.  Pages that the kernel does not open would go to other blocks,
 * so the process ends. */
void zc_shared_must_be_open(const struct zc_shared *pair, enum zc_effect v);

/* The device block is freed, but the driver does not end its registration. */
void zc_shared_stays(const struct zc_shared *pair);

/* Refuses a call that can't be carried out for a pair.  Returns `code`. */
CUresult zc_shared_refused(const struct zc_shared *pair, enum zc_fn fn, CUresult code,
                           const char *why);

/* The driver failed a call that touches a pair, or a step of libzc's for it.  Reports that, unless
 * the call would give this code wherever its blocks are.  Returns `code`. */
CUresult zc_shared_failed(const struct zc_shared *pair, enum zc_fn fn, CUresult code);

/* The program asks what an address is, and gets the answer for the device block.  If the host block
 * has other content, reports once a pair that a caller who meant the host block is misled, and
 * counts a refused call.  Takes no lock; does nothing outside of pairs. */
void zc_shared_asked(enum zc_fn fn, CUdeviceptr address);

/* The device block was copied from a host block that is not its partner: reports once a rule which
 * `pair` would fit. */
void zc_shared_mismatch(const struct zc_shared *pair, CUdeviceptr source);

/* A kernel failed with an illegal address: names, once, the blocks that kernels may only read. */
void zc_shared_diagnose(void);

/* Writes the pair's line in the log. */
void zc_shared_report(const struct zc_shared *pair);

#endif
