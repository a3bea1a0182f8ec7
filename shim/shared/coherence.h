/* SPDX-License-Identifier: MIT */
/*
 * Coherence of a host block and a device block that are one: the state machine of their pages.
 *
 * The program believes in two memories: h, the host block, and d, the device block.  Both have the
 * same addresses.  G is the page that the GPU's page table shows there, for good; C a page of the
 * CPU's own.  A page (ZC_HOST_UNIT) is in one of these states:
 *
 *   state   h is       d is       the CPU at the address may
 *   ALONE   G          undefined  read and write G.  Nothing was put into d yet.
 *   SAME    G          G          read G.  h and d are equal.
 *   APART   C          G          read and write C.  G is at the shadow.
 *   KEPT    C          G          as APART, and no event makes the page another one.
 *   AHEAD   lost       G          do nothing.  Kernels may have written G.
 *   AWAY    lost       G          do nothing.  As AHEAD, and G is at the shadow.
 *
 * KEPT is what a driver reads by itself, such as a kernel's arguments: it must not meet a page that
 * is closed, because who opens it may have to ask the driver, which holds its locks meanwhile.
 *
 * What happens to the whole page, and in brackets to a part of it, where that is another thing:
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
 * Copies between h and d go over a KEPT page as over a part of one that is APART.
 * note:   the part counts as copied back; when all parts of a page have come, it is SAME.
 * conflict: h was overwritten by what kernels may have written to d, and nobody saved it.  The
 *         caller stops the program.
 *
 * Kernels may write only where `writable`; elsewhere the GPU's page table forbids it.  A page of
 * zeroes is parted without a copy.  When the program frees h, all pages become ALONE without an h;
 * when it frees d, they become h's alone, but those whose h is lost until all of it is written.
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

/* What an event comes to. */
enum zc_effect {
    ZC_EFFECT_DONE,
    ZC_EFFECT_CONFLICT, /* See above; nothing was changed on the page that has it. */
    ZC_EFFECT_REFUSED,  /* The kernel gives no memory or no mappings for what must be done. */
};

/* The part of an AHEAD or AWAY page that was copied back, in bytes from the page's beginning. */
struct zc_page_back {
    uint32_t low, high; /* Equal when nothing was. */
};

/* True where G is at the shadow. */
static inline bool zc_coherent_shadowed(enum zc_page state)
{
    return state == ZC_PAGE_APART || state == ZC_PAGE_KEPT || state == ZC_PAGE_AWAY;
}

/* One host block and one device block.  All under the caller's lock, but `count`, which anybody may
 * read, and the statistics, which only grow. */
struct zc_coherent {
    uintptr_t base;    /* First address; of a unit. */
    uint32_t pages;    /* Length in units. */
    uint64_t bytes;    /* Of the host block: what lies behind it in the last page is d's alone. */
    bool writable;     /* Kernels may write to d. */
    bool host, device; /* h, d live. */
    bool cold;         /* Pages that part stay apart. */
    bool noted;        /* Something was noted in `back` since the last launch.  Atomic. */
    uint8_t *state;    /* enum zc_page by page; the caller's memory. */
    struct zc_page_back *back;      /* By page; the caller's memory. */
    uint32_t count[ZC_PAGE_STATES]; /* Pages in each state.  Atomic. */
    uint32_t next, window;          /* Page behind the last parted by a write of the CPU's, and how
                                     * many were parted at once. */
    uint64_t elided;                /* Pages whose copy was not necessary. */
    uint64_t parted;                /* Pages parted. */
    uint64_t merged;                /* Pages that became one again. */
};

/* What a copy between h and d came to: bytes that nobody had to copy, and that the CPU copied. */
struct zc_moved {
    uint64_t elided, copied;
};

/* Ranges below are [low, high) in bytes from the base.  They stop at the first page that is not
 * done; *at_out, where it is given, is the first byte of the range in it. */

/* The CPU faulted at an offset.  DONE: it may try again. */
enum zc_effect zc_coherent_touch(struct zc_coherent *c, uint64_t offset, bool write);

/* cudaMemcpy from h to d and from d to h at the same offset. */
enum zc_effect zc_coherent_to_device(struct zc_coherent *c, uint64_t low, uint64_t high,
                                     struct zc_moved *moved, uint64_t *at_out);
enum zc_effect zc_coherent_to_host(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   struct zc_moved *moved, uint64_t *at_out);

/* Before something else reads or writes h at its address, or d at its alias. */
enum zc_effect zc_coherent_host(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                uint64_t *at_out);
enum zc_effect zc_coherent_device(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                  uint64_t *at_out);

/* The program needs the content of [low, high) of h, whole pages of the CPU's, no more: it finds
 * zeroes there next (madvise(2), MADV_DONTNEED). */
enum zc_effect zc_coherent_discard(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   uint64_t *at_out);

/* The program is about to put other mappings at [low, high): pages there are apart, for good.  With
 * `keep` they have h's content. */
enum zc_effect zc_coherent_exile(struct zc_coherent *c, uint64_t low, uint64_t high, bool keep,
                                 uint64_t *at_out);

/* The program wants other rights to pages of h (host/overlay.h). */
enum zc_effect zc_coherent_guard(struct zc_coherent *c, uint64_t low, uint64_t high);

/* Where the CPU reaches d at an offset, after zc_coherent_device(); and how far from there on in
 * one piece, at most to `high`. */
uintptr_t zc_coherent_alias(const struct zc_coherent *c, uint64_t offset, uint64_t high,
                            uint64_t *end_out);

/* True when the CPU's and the GPU's views of [low, high) are one. */
bool zc_coherent_one_view(const struct zc_coherent *c, uint64_t low, uint64_t high);

/* A kernel that is launched next may write d anywhere.  False where no launch has to be told: asked
 * without the lock. */
bool zc_coherent_exposed(const struct zc_coherent *c);
enum zc_effect zc_coherent_launch(struct zc_coherent *c);

/* Before the driver reads h by itself. */
enum zc_effect zc_coherent_keep(struct zc_coherent *c, uint64_t low, uint64_t high,
                                uint64_t *at_out);

/* All pages that may be parted are, so that no access of the CPU's to h ever faults again. */
enum zc_effect zc_coherent_cool(struct zc_coherent *c);

/* A host block joins a device block that had none; `written`: something was put into d. */
enum zc_effect zc_coherent_join(struct zc_coherent *c, bool written);

/* The program freed h; d's pages are at the address.  REFUSED: some stay closed to the CPU. */
enum zc_effect zc_coherent_host_gone(struct zc_coherent *c);

/* The program freed d.  REFUSED: pages that are not lost stay closed to the CPU. */
enum zc_effect zc_coherent_device_gone(struct zc_coherent *c);

/* True when the pages part more often than sharing is worth. */
bool zc_coherent_cooling(const struct zc_coherent *c);

#endif
