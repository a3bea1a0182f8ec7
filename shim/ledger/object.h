/* SPDX-License-Identifier: MIT */
/* Finds the loaded object that contains an address. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A loaded object.  It stays mapped as long as one of its frames is on the caller's stack. */
struct zc_object {
    uint64_t start, end; /* Its mapping, [start, end). */
    uint64_t load;       /* Load address; addresses in the file are relative to it. */
    const char *name;    /* Path as the loader knows it; "" for the program itself. */
    const uint8_t *hdr;  /* .eh_frame_hdr, NULL where there is none. */
};

/*
 * False if the address is in no object that the loader knows.  With glibc 2.35 or later, and after
 * zc_object_init(), this is lock-free and signal-safe, by _dl_find_object (glibc manual, "Dynamic
 * Linker Introspection").  Otherwise it is zc_object_walk().  Keeps errno.
 */
bool zc_object_find(uint64_t address, struct zc_object *out);

/* Looks for what zc_object_find() needs; once, when the library is loaded. */
void zc_object_init(void);

/* True for the CUDA driver. */
bool zc_object_is_driver(const struct zc_object *object);

/* The same as zc_object_find() by dl_iterate_phdr(3), which takes the loader's lock. */
bool zc_object_walk(uint64_t address, struct zc_object *out);
