/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages, as libzc makes them (docs/shared.md): h, the
 * CPU's, and d, the device's address, show one file.  What each must hold is known page by page.
 */
#pragma once

#include "tools/views/driver.h"

#define VIEW_BYTES ((size_t)4 << 20) /* Of the file; two of the units that libzc maps. */
#define VIEW_UNIT ((size_t)2 << 20)
#define VIEW_ATS ((size_t)512 << 20) /* Mapped device memory switches ATS off for as much. */

struct view_pair {
    int fd;
    char *h;
    char *d;                  /* In reserved addresses of the driver's. */
    char *window;             /* The CPU writes here what d shows. */
    size_t page;              /* Bytes of a page of the CPU's; */
    size_t pages;             /* their number. */
    unsigned char in_h[1024]; /* The byte that fills each page of h, */
    unsigned char in_d[1024]; /* and of d. */
    bool written[1024];       /* The CPU, or a kernel, has written the page of h. */
};

/* A file, h on it, and d's addresses with nothing there.  Each page of h has a content. */
void view_open(struct view_pair *p, const struct view_device *device);

/* d shows the file: registered with the flags of cuMemHostRegister, or else by the CPU's page table
 * alone, which lets nobody write there. */
CUresult view_register(struct view_pair *p, unsigned flags);
void view_show(struct view_pair *p);

/* Nothing is at d's addresses but their reservation. */
void view_hide(struct view_pair *p);

/* h becomes a private view of the file, in one step. */
void view_part(struct view_pair *p);

/* Content number `seed` for a page of h, by the CPU; or a page of h's to d, by the window. */
void view_write(struct view_pair *p, size_t page, unsigned char seed);
void view_carry(struct view_pair *p, size_t page);

/* Kernels, or each kind of copy, find at d what it must hold; the CPU finds at h, and at the
 * window, what they must hold.  Else the step is wrong; `when` ends its sentence. */
void view_kernels_find(struct view_pair *p, const char *when);
void view_copies_find(struct view_pair *p, const char *when);
void view_cpu_finds(struct view_pair *p, const char *when);

/* The kernel's page table names the pages of h that were written, by whomever; with `exactly` no
 * others. */
void view_pages_known(struct view_pair *p, bool exactly, const char *when);

/* Kernels must find the pages' content at any address. */
void view_kernels_find_at(struct view_pair *p, const char *address, const unsigned char *content,
                          const char *when);

/* A kernel fills a page with a content that view_*_find() can tell.  Returns how it ended. */
CUresult view_fill(struct view_pair *p, char *page, unsigned char seed);
