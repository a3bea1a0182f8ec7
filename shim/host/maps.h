/* SPDX-License-Identifier: MIT */
/* The kernel's knowledge about the program's addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#define ZC_MAPS_NAME 256

/* A mapping, which the kernel makes one of neighbours that are alike. */
struct zc_maps_mapping {
    uint64_t start, end;
    uint64_t inode;          /* Of its file; 0 for none. */
    int rights;              /* PROT_*. */
    char name[ZC_MAPS_NAME]; /* As in proc_pid_maps(5); "?" if it is longer, "" for none. */
};

/* The mapping that contains an address.  False without one, or without /proc.  Keeps errno. */
bool zc_maps_find(uint64_t address, struct zc_maps_mapping *out);

/* True if zc_maps_find() reads the text of /proc/self/maps, which takes up to some milliseconds,
 * because the kernel knows no query: once it has been called. */
bool zc_maps_slow(void);
