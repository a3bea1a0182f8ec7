/* SPDX-License-Identifier: MIT */
/* The loaded object that an address lies in. */
#ifndef ZC_LEDGER_OBJECT_H
#define ZC_LEDGER_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* A loaded object.  Its memory stays mapped as long as a frame of it is on the caller's stack. */
struct zc_object {
    uint64_t start, end; /* Its mapping, [start, end). */
    uint64_t load;       /* Load address: what addresses in its file are relative to. */
    const char *name;    /* Path as the loader has it; "" for the program itself. */
    const uint8_t *hdr;  /* .eh_frame_hdr, NULL where there is none. */
};

/*
 * False when the address is in no object that the loader knows.  Without a lock and signal-safe by
 * _dl_find_object (glibc manual, "Dynamic Linker Introspection") where libzc is built with glibc
 * 2.35 or later; else by dl_iterate_phdr(3), which takes the loader's lock.  Keeps errno.
 */
bool zc_object_find(uint64_t address, struct zc_object *out);

#endif
