/* SPDX-License-Identifier: MIT */
/*
 * Coherence of a host and a device block that share their pages: the state machine of the pages.
 *
 * To the program there are two memories: h, the host block, and d, the device block.  Both have the
 * same addresses.  G is the page that the GPU's page table always shows there; C is a page of the
 * CPU's own.  A page (ZC_HOST_UNIT) is in one of these states:
 *
 *   state   h is       d is       the CPU at the address may
 *   ALONE   G          undefined  read and write G.  Nothing was put into d yet.
 *   SAME    G          G          read G.  h and d are equal.
 *   APART   C          G          read and write C.  G is at the shadow.
 *   KEPT    C          G          as APART, and the page stays in this state.
 *   AHEAD   lost       G          do nothing.  Kernels may have written G.
 *   AWAY    lost       G          do nothing.  As AHEAD, and G is at the shadow.
 *
 * KEPT is for memory that a driver reads by itself, such as a kernel's arguments.  It must not meet
 * a closed page: the fault handler may need the driver, which holds its locks meanwhile.
 *
 * What happens to a whole page, and in brackets to a part of it if that differs:
 *
 *   event                  ALONE          SAME         APART             AHEAD       AWAY
 *   the CPU reads h        -              -            -                 conflict    conflict
 *   the CPU writes h       -              part         -                 conflict    conflict
 *   copy h to d            protect: SAME  -            copy, merge:      conflict    conflict
 *                                                      SAME [copy]
 *   copy d to h            -              -            merge: SAME       open: SAME  merge: SAME
 *                                                      [copy]            [note]      [note]
 *   other things read h    -              -            -                 conflict    conflict
 *   other things write h   -              part         -                 APART       APART
 *                                                                        [conflict]  [conflict]
 *   other things read d    -              -            -                 aside       -
 *   other things write d   part           part         -                 aside,      forget
 *                                                                        forget      notes
 *   a kernel may write     part           close:       -                 forget      forget
 *                                         AHEAD                          notes       notes
 *   the driver reads h     part: KEPT     part: KEPT   KEPT              conflict    conflict
 *
 * part:   the CPU gets a C with G's content, G goes to the shadow: APART.
 * aside:  G goes to the shadow, the address is left closed: AWAY.
 * Copies between h and d treat a KEPT page like a part of a page that is APART.
 * note:   the part counts as copied back; once all parts of a page are, it is SAME.
 * conflict: kernels may have overwritten h by writing d, and nobody saved it.  The caller stops the
 *         program.
 *
 * Kernels may write only if `writable`; otherwise the GPU's page table forbids it.  A page of
 * zeroes is parted without a copy.  When the program frees h, all pages become ALONE, without an h.
 * When it frees d, they belong to h alone, except lost ones until all of them is written.
 */
#ifndef ZC_SHARED_COHERENCE_H
#define ZC_SHARED_COHERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zc_page {
    ZC_PAGE_ALONE,
    ZC_PAGE_SAME,
    ZC_PAGE_APART,
    ZC_PAGE_KEPT,
    ZC_PAGE_AHEAD,
    ZC_PAGE_AWAY,
    ZC_PAGE_STATES
};

/* The result of an event. */
enum zc_effect {
    ZC_EFFECT_DONE,
    ZC_EFFECT_CONFLICT, /* See above.  The page in question is unchanged. */
    ZC_EFFECT_REFUSED,  /* The kernel refuses memory or mappings for it. */
};

/* The part of an AHEAD or AWAY page that was copied back, as offsets in the page. */
struct zc_page_back {
    uint32_t low, high; /* Equal if nothing was. */
};

/* True if G is at the shadow. */
static inline bool zc_coherent_shadowed(enum zc_page state)
{
    return state == ZC_PAGE_APART || state == ZC_PAGE_KEPT || state == ZC_PAGE_AWAY;
}

/* One host block and one device block.  Everything is under the caller's lock, except `count`,
 * which anyone may read, and the statistics, which only grow. */
struct zc_coherent {
    uintptr_t base;            /* First address; a multiple of a unit. */
    uint32_t pages;            /* Length in units. */
    uint64_t bytes;            /* Bytes of the host block; the rest of its last page is only d's. */
    bool writable;             /* Kernels may write d. */
    bool host, device;         /* h lives, d lives. */
    bool cold;                 /* Parted pages stay apart. */
    bool noted;                /* `back` has changed since the last launch.  Atomic. */
    uint8_t *state;            /* enum zc_page of each page; the caller's memory. */
    struct zc_page_back *back; /* One entry a page; the caller's memory. */
    uint32_t count[ZC_PAGE_STATES]; /* Pages in each state.  Atomic. */
    uint32_t next, window;          /* The page after the last one that a CPU write parted, and how
                                     * many pages it parted. */
    uint64_t elided;                /* Page copies that were saved. */
    uint64_t parted;                /* Pages parted. */
    uint64_t merged;                /* Pages merged again. */
};

/* Result of a copy between h and d: bytes that needed no copy, and bytes that the CPU copied. */
struct zc_moved {
    uint64_t elided, copied;
};

/* Ranges below are [low, high), in bytes from the base.  A call stops at the first page that it
 * can't handle; *at_out, if given, is the first byte of the range in that page. */

/* The CPU faulted at an offset.  DONE: it may try the access again. */
enum zc_effect zc_coherent_touch(struct zc_coherent *c, uint64_t offset, bool write);

/* cudaMemcpy from h to d and from d to h at the same offset. */
enum zc_effect zc_coherent_to_device(struct zc_coherent *c, uint64_t low, uint64_t high,
                                     struct zc_moved *moved, uint64_t *at_out);
enum zc_effect zc_coherent_to_host(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   struct zc_moved *moved, uint64_t *at_out);

/* Something else is about to read or write h at its address, or d at its alias. */
enum zc_effect zc_coherent_host(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                uint64_t *at_out);
enum zc_effect zc_coherent_device(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                  uint64_t *at_out);

/* The program discards [low, high) of h, whole CPU pages: it will read zeroes (madvise(2),
 * MADV_DONTNEED). */
enum zc_effect zc_coherent_discard(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   uint64_t *at_out);

/* The program is about to map something else at [low, high): parts these pages for good.  With
 * `keep` they keep h's content. */
enum zc_effect zc_coherent_exile(struct zc_coherent *c, uint64_t low, uint64_t high, bool keep,
                                 uint64_t *at_out);

/* The program changed its rights to pages of h (host/overlay.h). */
enum zc_effect zc_coherent_guard(struct zc_coherent *c, uint64_t low, uint64_t high);

/* The address at which the CPU reaches d, after zc_coherent_device(), and how many bytes follow in
 * one piece, at most to `high`. */
uintptr_t zc_coherent_alias(const struct zc_coherent *c, uint64_t offset, uint64_t high,
                            uint64_t *end_out);

/* True if CPU and GPU see the same pages in [low, high). */
bool zc_coherent_one_view(const struct zc_coherent *c, uint64_t low, uint64_t high);

/* A kernel is about to be launched that may write d anywhere.  zc_coherent_exposed(): false if no
 * launch matters to the pair; needs no lock. */
bool zc_coherent_exposed(const struct zc_coherent *c);
enum zc_effect zc_coherent_launch(struct zc_coherent *c);

/* The driver is about to read h by itself. */
enum zc_effect zc_coherent_keep(struct zc_coherent *c, uint64_t low, uint64_t high,
                                uint64_t *at_out);

/* Parts every page that may be parted, so that CPU accesses to h never fault again. */
enum zc_effect zc_coherent_cool(struct zc_coherent *c);

/* A host block joins a device block that had none.  `written`: d has content. */
enum zc_effect zc_coherent_join(struct zc_coherent *c, bool written);

/* The program freed h; d keeps its pages at the address.  REFUSED: some pages stay closed to the
 * CPU. */
enum zc_effect zc_coherent_host_gone(struct zc_coherent *c);

/* The program freed d.  REFUSED: some pages that are not lost stay closed to the CPU. */
enum zc_effect zc_coherent_device_gone(struct zc_coherent *c);

/* True if pages part so often that sharing does not pay. */
bool zc_coherent_cooling(const struct zc_coherent *c);

#endif
