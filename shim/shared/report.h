/* SPDX-License-Identifier: MIT */
/* What libzc says of pairs: conflicts, better rules, and a line in the log for each. */
#ifndef ZC_SHARED_REPORT_H
#define ZC_SHARED_REPORT_H

#include "shared/pair.h"

/* What met what was lost. */
enum zc_shared_culprit {
    ZC_CULPRIT_READ,  /* The CPU read the host block. */
    ZC_CULPRIT_WRITE, /* The CPU wrote the host block. */
    ZC_CULPRIT_COPY,  /* A copy of the program's needs the host block. */
};

/* Says which rule, line, block and site a conflict is of, and the way out.  Async-signal-safe. */
void zc_shared_conflict(struct zc_shared *pair, enum zc_shared_culprit culprit, uint64_t offset);

/* The kernel gave no memory or mappings to keep both sides apart.  Async-signal-safe. */
void zc_shared_stuck(const struct zc_shared *pair);

/* A side has gone, with this effect.  Pages that the kernel does not open would be a stranger's
 * next, so the process ends. */
void zc_shared_must_be_open(const struct zc_shared *pair, enum zc_effect v);

/* The device block is freed, and the driver does not let its registration go. */
void zc_shared_stays(const struct zc_shared *pair);

/* A call that can't be carried out for a pair is refused; returns `code`. */
CUresult zc_shared_refused(const struct zc_shared *pair, enum zc_fn fn, CUresult code,
                           const char *why);

/* The driver failed a call that meets a pair, or a step of libzc's for it: says so, unless the code
 * is one that the call gives wherever its blocks lie.  Returns `code`. */
CUresult zc_shared_failed(const struct zc_shared *pair, enum zc_fn fn, CUresult code);

/* The program asks what an address is, for which the answer is that of the device block.  Where the
 * host block has other content, says once a pair that who meant that one is misled, and counts it
 * as a refused call.  No lock; does nothing outside of pairs. */
void zc_shared_asked(enum zc_fn fn, CUdeviceptr address);

/* The device block was copied from a host block that is not its own: says once a rule which `pair`
 * would be right. */
void zc_shared_mismatch(const struct zc_shared *pair, CUdeviceptr source);

/* A kernel failed with an address that it must not touch: names the blocks that kernels may only
 * read.  Once. */
void zc_shared_diagnose(void);

/* The pair's line in the log. */
void zc_shared_report(const struct zc_shared *pair);

#endif
