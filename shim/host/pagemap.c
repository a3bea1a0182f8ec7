/* SPDX-License-Identifier: MIT */
/* Pages that a process has of its own, read from /proc/self/pagemap. */
#include "host/pagemap.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/errno.h"
#include "base/file.h"
#include "base/memory.h"
#include "memory/thread.h"

#define RUNS 128u    /* Most that are asked for at once; on the caller's stack, */
#define ENTRIES 512u /* and so are these. */

/* Of <linux/fs.h>, for older headers: PAGEMAP_SCAN, Linux 6.7. */
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, mask, any_of, returned;
};
struct run {
    uint64_t start, end, categories;
};
#define SCAN _IOWR('f', 16, struct scan)
#define IS_FILE (UINT64_C(1) << 2)
#define IS_PRESENT (UINT64_C(1) << 3)
#define IS_SWAPPED (UINT64_C(1) << 4)

/* An entry of the file: "page is file-page or shared-anon", swapped, present. */
#define ENTRY_FILE (UINT64_C(1) << 61)
#define ENTRY_THERE (UINT64_C(3) << 62)
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_ALONE (UINT64_C(1) << 56) /* No other process maps the page; Linux 4.2. */

struct walk {
    int fd;
    uintptr_t at, end;
    void (*visit)(uintptr_t from, uintptr_t to, void *arg);
    void *arg;
};

/* False, with `at` behind what was visited, where the kernel does not do it. */
static bool walk_by_scan(struct walk *w)
{
    struct run runs[RUNS];
    while (w->at < w->end) {
        struct scan scan = {.size = sizeof(scan),
                            .start = w->at,
                            .end = w->end,
                            .vec = (uintptr_t)runs,
                            .vec_len = RUNS,
                            .inverted = IS_FILE,
                            .mask = IS_FILE,
                            .any_of = IS_PRESENT | IS_SWAPPED,
                            .returned = IS_FILE};
        int found = ioctl(w->fd, SCAN, &scan);
        if (found < 0)
            return false;
        for (int i = 0; i < found; i++)
            w->visit((uintptr_t)runs[i].start, (uintptr_t)runs[i].end, w->arg);
        if (scan.walk_end <= w->at)
            return false;
        w->at = (uintptr_t)scan.walk_end;
    }
    return true;
}

static bool is_own(uint64_t entry)
{
    return (entry & ENTRY_THERE) && !(entry & ENTRY_FILE);
}

static void visit_entries(struct walk *w, const uint64_t *entry, size_t count, size_t page)
{
    for (size_t i = 0, end; i < count; i = end) {
        bool own = is_own(entry[i]);
        for (end = i + 1; end < count && is_own(entry[end]) == own; end++)
            ;
        if (own)
            w->visit(w->at + i * page, w->at + end * page, w->arg);
    }
    w->at += count * page;
}

/* False if the kernel does not tell. */
static bool read_entries(int fd, uintptr_t at, uint64_t *entry, size_t count)
{
    size_t bytes = count * sizeof(*entry);
    off_t from = (off_t)(at / zc_page_end(1) * sizeof(*entry));
    return syscall(SYS_pread64, fd, entry, bytes, from) == (long)bytes;
}

static bool walk_by_reading(struct walk *w)
{
    uint64_t entry[ENTRIES];
    size_t page = zc_page_end(1);
    while (w->at < w->end) {
        size_t count = (w->end - w->at) / page;
        count = count < ENTRIES ? count : ENTRIES;
        if (!read_entries(w->fd, w->at, entry, count))
            return false;
        visit_entries(w, entry, count, page);
    }
    return true;
}

static struct {
    uint32_t answer; /* 0: not asked yet, 1: no, 2: yes.  Atomic. */
    bool scans;      /* The kernel scans.  Where that fails later nothing is read, because the
                      * descriptor may be another file's by then. */
} pagemap;

/* The file is opened each time: it would be its parent's in a child of fork(2), and programs close
 * files that they do not know. */
static bool pagemap_walk(struct walk *w)
{
    ZC_KEEPS_ERRNO;
    w->fd = zc_file_open("/proc/self/pagemap", 0);
    bool done = w->fd >= 0 && (pagemap.scans ? walk_by_scan(w) : walk_by_reading(w));
    zc_file_close(w->fd);
    return done;
}

void zc_pagemap_each(uintptr_t low, uintptr_t high,
                     void (*visit)(uintptr_t from, uintptr_t to, void *arg), void *arg)
{
    struct walk w = {.at = low, .end = high, .visit = visit, .arg = arg};
    if (!pagemap_walk(&w))
        visit(w.at, high, arg);
}

unsigned zc_pagemap_inherited(uintptr_t low, uintptr_t high, unsigned looks)
{
    unsigned found = 0;
    uint64_t entry;
    ZC_KEEPS_ERRNO;
    int fd = zc_file_open("/proc/self/pagemap", 0);
    for (unsigned i = 0; fd >= 0 && i < looks; i++)
        found += read_entries(fd, low + (high - low) / looks * i, &entry, 1) &&
                 (entry & ENTRY_PRESENT) && !(entry & ENTRY_ALONE);
    zc_file_close(fd);
    return found;
}

struct probe {
    uintptr_t own;
    bool found, others;
};

static void pagemap_note(uintptr_t from, uintptr_t to, void *arg)
{
    struct probe *p = arg;
    p->found |= from == p->own && to == p->own + zc_page_end(1);
    p->others |= from != p->own;
}

/* A file of three pages, mapped privately as in host/memfile.c: read, written, never touched. */
static void pagemap_probe(void *arg)
{
    size_t page = zc_page_end(1), n = 3 * page;
    struct probe *p = arg;
    int fd = memfd_create("libzc", MFD_CLOEXEC);
    char *first = MAP_FAILED, *at = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)n) == 0)
        first = zc_memory_map(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    zc_file_close(fd);
    if (first != MAP_FAILED)
        at = zc_memory_move(first, n, n, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (at != MAP_FAILED) {
        *(volatile char *)(at + page) = *(volatile char *)at;
        p->own = (uintptr_t)at + page;
        for (int how = 0; how < 2 && !p->found; how++) {
            pagemap.scans = how == 0;
            p->others = false;
            zc_pagemap_each((uintptr_t)at, (uintptr_t)at + n, pagemap_note, p);
        }
        zc_memory_unmap(at, n);
    }
    if (first != MAP_FAILED)
        zc_memory_unmap(first, n);
}

bool zc_pagemap_works(const char **why)
{
    uint32_t known = __atomic_load_n(&pagemap.answer, __ATOMIC_RELAXED);
    struct probe p = {0};
    if (!known) {
        known = zc_thread_aside(pagemap_probe, &p) && p.found && !p.others ? 2 : 1;
        __atomic_store_n(&pagemap.answer, known, __ATOMIC_RELAXED);
    }
    *why = "the kernel does not tell which pages of a private view were written";
    return known == 2;
}
