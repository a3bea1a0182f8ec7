/* SPDX-License-Identifier: MIT */
/* What the kernel says of a range of the program's addresses. */
#ifndef ZC_COPY_MAPS_H
#define ZC_COPY_MAPS_H

#include <stdbool.h>
#include <stddef.h>

enum zc_maps_answer {
    ZC_MAPS_YES,     /* Memory of nobody's file, that the CPU may read, or write, throughout. */
    ZC_MAPS_NO,      /* A part is not mapped, or protected. */
    ZC_MAPS_UNKNOWN, /* A part is a file, which may end before it; or the kernel does not tell. */
};

/*
 * Asks about [memory, memory + n), without touching it: one call a mapping (Linux 6.11, ioctl
 * PROCMAP_QUERY of /proc/self/maps), where bringing in pages that are present already takes about
 * 50 ns a page.  UNKNOWN before that version and without /proc.  Keeps errno.
 */
enum zc_maps_answer zc_maps_ask(const void *memory, size_t n, bool write);

#endif
