/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages: what the CPU may do to them, and when it gets
 * pages of its own.
 *
 * The program believes in two memories: h, the host block, and d, the device block.  Each has an
 * address of its own.  G is a page of the file that h was made of.  d always shows G, to the GPU,
 * which may only read it, and to libzc; what h shows depends on the state of the page (a unit of
 * ZC_HOST_UNIT bytes):
 *
 *   state   h shows          the CPU may
 *   ALONE   G                read and write.  Nothing was copied to d yet.
 *   SAME    G                read.  h and d are equal.
 *   APART   its own page     read and write.  h and d may differ.
 *   OUT     its own page     what the program says: it changed the mapping, and libzc never does.
 *
 * What happens to a whole page, and in brackets to a part of one where that is another thing:
 *
 *   event                      ALONE          SAME     APART                    OUT
 *   the CPU writes h           -              part     -                        -
 *   copy h to d                protect: SAME  -        copy, merge: SAME [copy] copy
 *   copy d to h                -              -        merge: SAME [copy]       copy
 *   the driver writes h        -              part     -                        -
 *   the program changes pages  part: OUT      part: OUT  OUT                    -
 *   fork                       APART          SAME     APART                    OUT
 *
 * part:  h gets a page of its own with G's content; d keeps G.
 * merge: h shows G again, and its own page goes.
 *
 * After a fork G is also the child's, so that nothing may be copied into it, and h shows private
 * mappings of the file: `frozen`.  Where the kernel has no mappings to part a page alone, all of h
 * becomes APART in that way, and nothing merges either.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum zc_page { ZC_PAGE_ALONE, ZC_PAGE_SAME, ZC_PAGE_APART, ZC_PAGE_OUT };

/* One host block and one device block.  All under the caller's lock, but the statistics, which only
 * grow. */
struct zc_coherent {
    uintptr_t host;   /* First address of h's pages; of a unit. */
    uintptr_t device; /* Where G is found: the first address of d's pages. */
    uint32_t pages;   /* Length in units. */
    uint64_t bytes;   /* Of the host block: what lies behind it in the last page is nobody's. */
    bool frozen;      /* Nothing merges: a child of fork(2) has G, too, or mappings are short. */
    uint8_t *state;   /* enum zc_page by page; the caller's memory. */
    uint32_t next, window; /* Page behind the last parted by a write of the CPU's, and how many were
                            * parted at once. */
    uint64_t elided;       /* Pages whose copy was not necessary. */
    uint64_t parted;       /* Pages parted. */
    uint64_t merged;       /* Pages that became one again. */
};

/* What a copy between h and d came to: bytes that nobody had to copy, and that the CPU copied. */
struct zc_moved {
    uint64_t elided, copied;
};

/* Ranges below are [low, high) in bytes from the first page.  All return false where the kernel
 * gives no memory or no mappings for what must be done; a page that was not reached is as it was.
 */

/* The CPU faulted at an offset: it may try again. */
bool zc_coherent_touch(struct zc_coherent *c, uint64_t offset, bool write);

/* Copies of the program's from h to d, and from d to h, at the same offset. */
bool zc_coherent_to_device(struct zc_coherent *c, uint64_t low, uint64_t high,
                           struct zc_moved *moved);
bool zc_coherent_to_host(struct zc_coherent *c, uint64_t low, uint64_t high,
                         struct zc_moved *moved);

/* Before something that does not fault writes h: the driver, or a system call. */
bool zc_coherent_write(struct zc_coherent *c, uint64_t low, uint64_t high);

/* The program is about to change the mappings of [low, high).  With `keep` it wants the content. */
bool zc_coherent_exile(struct zc_coherent *c, uint64_t low, uint64_t high, bool keep);

/* True where a copy from h to d would have to copy bytes into G. */
bool zc_coherent_differs(const struct zc_coherent *c, uint64_t low, uint64_t high);

/* The process is about to fork: h gets mappings that a child does not share. */
bool zc_coherent_freeze(struct zc_coherent *c);

/* d goes: h keeps what it shows, and the CPU may write all of it.  *private_out: h's pages are
 * mapped privately from then on, because some of them had to be. */
bool zc_coherent_end(struct zc_coherent *c, bool *private_out);

/* True when pages part more often than sharing them is worth. */
bool zc_coherent_cooling(const struct zc_coherent *c);
