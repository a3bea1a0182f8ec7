/* SPDX-License-Identifier: MIT */
/* A hash of memory, about as fast as memory is read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Equal bytes give equal numbers; different ones give equal numbers about once in 2^64.  Not for
 * bytes that somebody chose to deceive it. */
uint64_t zc_hash(const void *memory, size_t bytes);
