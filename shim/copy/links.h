/* SPDX-License-Identifier: MIT */
/* links = idle | N: one large copy goes over the links of several GPUs. */
#pragma once

#include "driver/copy.h"
#include "ledger/rules.h"
#include "vmm/move.h"

/* ZC_FACT_LARGE: so many bytes, where the policy has such copies. */
static inline bool zc_links_large(const struct zc_copy *c)
{
    return c->bytes >= ZC_LINKS_LEAST && zc_rules()->links > ZC_LINKS_OWN;
}

/* ZC_FACT_LINKS, of such a copy: one line between pinned memory and a cuMemAlloc block of the
 * current context, in a stream of that.  Asks the driver. */
uint32_t zc_links_facts(const struct zc_copy *c);

/* `links = idle`: a smaller copy.  Gives the peers' contexts back after many of them in a row. */
void zc_links_small(void);

/* Carries a copy out that goes the way ZC_WAY_LINKS: the device's own link has one part, and each
 * peer's another one, in chunks by a buffer there and NVLink.  All of that is given to streams: it
 * begins behind an event of the copy's stream, which waits for its end.  False if no peer can be
 * used now, and nothing was done: then the driver makes the copy.  `va`: NULL, or a block moves, in
 * the lock of driver/lock.h; from and to the addresses in these ranges. */
bool zc_links_copy(struct zc_copy *c, struct zc_va *const *va);
