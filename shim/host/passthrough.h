/* SPDX-License-Identifier: MIT */
/* Blocks that stay with libc although a rule took their request: what the rule says of copies. */
#ifndef ZC_HOST_PASSTHROUGH_H
#define ZC_HOST_PASSTHROUGH_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* Smaller copies are over before threads have started, so smaller blocks have none that it matters
 * for. */
#define ZC_PASSTHROUGH_MIN ((size_t)6 << 20)

/*
 * The blocks are kept in a table of fixed size, for a look-up by any address in them.  No lock is
 * taken: what is lost or stale decides who copies a block, which is right either way.  A block that
 * finds no room is copied as [defaults] says, and a message tells so once.
 */

/* Keeps the block of `bytes` at `p` whose request the rule took. */
void zc_passthrough_note(const void *p, size_t bytes, const struct zc_rule *rule);

/* Forgets it; nothing to do for blocks that are not kept. */
void zc_passthrough_forget(const void *p);

/* The rule of the block that holds the address, or NULL. */
const struct zc_rule *zc_passthrough_rule(uint64_t address);

#endif
