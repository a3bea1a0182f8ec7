/* SPDX-License-Identifier: MIT */
/* The mappings that the program made by mmap(2), which malloc never saw. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/traffic.h"

/*
 * The kernel can't tell a mapping of the program's from one that libc made for a block of malloc,
 * and joins neighbours.  So the calls are noted as the program makes them.  What libc, or a system
 * call that libzc does not see, has mapped is not known here.  All functions keep errno.
 */

/* A mapping was made: `flags` and `fd` as mmap(2) had them. */
void zc_mapping_note(const void *at, size_t n, int flags, int fd);

/* Pages in this range are about to be unmapped or replaced. */
void zc_mapping_forget(const void *at, size_t n);

/* The mapping at `at` is about to be moved or resized by mremap(2), which zc_mapping_moved() then
 * ends. */
struct zc_mapping_move {
    enum zc_source source; /* NONE: it is not known. */
};
struct zc_mapping_move zc_mapping_moving(const void *at, size_t n);
void zc_mapping_moved(const struct zc_mapping_move *move, const void *at, size_t n);

/* The program copies [address, address + bytes): returns what mapping that is of, or NONE.  *again
 * is set if it lies in part between the lowest and the highest byte that earlier ones of the
 * mapping copied: one after the other, in either order, do not. */
enum zc_source zc_mapping_use(uint64_t address, uint64_t bytes, bool *again);
