/* SPDX-License-Identifier: MIT */
/* Blocks that stay with libc although a rule matched: what the rule says about copying them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* Smaller copies end before threads have started, so the rule does not matter for smaller
 * blocks. */
#define ZC_PASSTHROUGH_MIN ((size_t)6 << 20)

/*
 * A table of fixed size, searched by any address in a block.  It takes no lock: if an entry is lost
 * or stale, the wrong party copies a block, and both copy it correctly.  A block that finds no room
 * is copied as [defaults] says, and one message reports that.
 */

/* Adds the block of `bytes` at `p`, which the rule matched. */
void zc_passthrough_note(const void *p, size_t bytes, const struct zc_rule *rule);

/* Removes a block; does nothing if it is not in the table. */
void zc_passthrough_forget(const void *p);

/* The rule of the block that holds the address, or NULL. */
const struct zc_rule *zc_passthrough_rule(uint64_t address);
