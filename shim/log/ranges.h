/* SPDX-License-Identifier: MIT */
/* The ranges that the program's threads are in, which it names by NVTX or zc.h. */
#pragma once

#include <stdint.h>

#define ZC_RANGE_NAME 128 /* Bytes of a range's name, with the 0. */

/*
 * Begins a range of the calling thread, and ends the innermost one of a domain.  Domains are told
 * apart by the address of their name; NULL is the global one.  They give the range's level, from 0,
 * within its domain, and a negative number where there is none.
 */
int zc_ranges_push(const char *domain, const char *name);
int zc_ranges_pop(const char *domain);

/* The name of the calling thread's innermost range, `DOMAIN: NAME` outside of the global domain;
 * NULL outside of ranges.  Valid until the range ends. */
const char *zc_ranges_here(void);
