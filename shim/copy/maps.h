/* SPDX-License-Identifier: MIT */
/* What the kernel knows about a range of the program's addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum zc_maps_answer {
    ZC_MAPS_YES,     /* Anonymous memory, all readable, or writable, by the CPU. */
    ZC_MAPS_NO,      /* A part is not mapped, or is protected. */
    ZC_MAPS_UNKNOWN, /* A part is a file, which may be shorter; or the kernel does not say. */
};

/*
 * Queries [memory, memory + n) without touching it, by one call for each mapping (Linux 6.11, ioctl
 * PROCMAP_QUERY of /proc/self/maps).  Populating pages that are already present would take about 50
 * ns a page.  UNKNOWN before that version and without /proc.  Keeps errno.
 */
enum zc_maps_answer zc_maps_ask(const void *memory, size_t n, bool write);
