/* SPDX-License-Identifier: MIT */
/* Host pages: 2 MiB pages by MADV_HUGEPAGE, first touched by several threads. */
#include "memory/pages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "memory/workers.h"

/* Lines are "Node N, zone NAME", and the number of free blocks of 1, 2, 4 ... pages. */
uint64_t zc_pages_huge_in(const char *buddyinfo)
{
    uint64_t bytes = 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const char *at = buddyinfo; (at = strstr(at, "zone"));) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
        at += strcspn(at, " ");
        char *end;
        for (size_t block = page;; block *= 2) {
            uint64_t count = strtoull(at, &end, 10);
            if (end == at)
                break;
            bytes += block >= ZC_HUGE_PAGE ? count * block : 0;
            at = end;
        }
    }
    return bytes;
}

uint64_t zc_pages_free_huge(void)
{
    char text[4096];
    return zc_file_text("/proc/buddyinfo", text, sizeof(text)) ? zc_pages_huge_in(text)
                                                               : UINT64_MAX;
}

void *zc_pages_make(size_t bytes, size_t margin, int node)
{
    size_t span = zc_pages_span(bytes), all = span + 2 * margin;
    if (span < bytes || all < span)
        return NULL;
    char *map = zc_memory_fresh(all + ZC_HUGE_PAGE, PROT_READ | PROT_WRITE);
    if (!map)
        return NULL;
    uintptr_t earliest = (uintptr_t)map + margin;
    char *pages = (char *)((earliest + ZC_HUGE_PAGE - 1) & ~(uintptr_t)(ZC_HUGE_PAGE - 1));
    char *first = pages - margin;
    if (first > map)
        zc_memory_unmap(map, (size_t)(first - map));
    if (first < map + ZC_HUGE_PAGE)
        zc_memory_unmap(first + all, (size_t)(map + ZC_HUGE_PAGE - first));
    /* Without huge pages everything works, only slower. */
    zc_memory_advise(first, all, MADV_HUGEPAGE);
    zc_workers_prefault(pages, span, false, node);
    return pages;
}

void zc_pages_unmake(void *pages, size_t bytes, size_t margin)
{
    zc_memory_unmap((char *)pages - margin, zc_pages_span(bytes) + 2 * margin);
}
