/* SPDX-License-Identifier: MIT */
/* Queries /proc/self/maps by ioctl(2), so no text has to be written and parsed. */
#include "copy/maps.h"

#include <errno.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "base/file.h"

/* <linux/fs.h> of Linux 6.11: struct procmap_query. */
struct query {
    uint64_t size;                     /* Bytes of this struct. */
    uint64_t flags;                    /* The query; 0: the mapping that contains the address. */
    uint64_t address;                  /* The address. */
    uint64_t start, end;               /* The answer from here on: the mapping, */
    uint64_t rights;                   /* its RIGHT_*, */
    uint64_t page_size;                /* bytes of its pages, */
    uint64_t offset;                   /* offset of its beginning in the file, */
    uint64_t inode;                    /* inode of the file, 0 for none, */
    uint32_t major, minor;             /* device of the file. */
    uint32_t name_size, build_id_size; /* Not used. */
    uint64_t name_address, build_id_address; /* Not used. */
};
_Static_assert(sizeof(struct query) == 104, "the kernel's layout");
#define QUERY _IOWR('f', 17, struct query)
#define RIGHT_READ 1u
#define RIGHT_WRITE 2u

/* The mapping at *at; moves *at to its end. */
static enum zc_maps_answer ask(int fd, uint64_t *at, uint64_t right)
{
    struct query q = {.size = sizeof(q), .address = *at};
    if (ioctl(fd, QUERY, &q) != 0)
        return errno == ENOENT ? ZC_MAPS_NO : ZC_MAPS_UNKNOWN;
    *at = q.end;
    if (!(q.rights & right))
        return ZC_MAPS_NO;
    return q.inode || q.major || q.minor ? ZC_MAPS_UNKNOWN : ZC_MAPS_YES;
}

enum zc_maps_answer zc_maps_ask(const void *memory, size_t n, bool write)
{
    enum zc_maps_answer answer = ZC_MAPS_YES;
    uint64_t at = (uintptr_t)memory, end = at + n;
    int saved = errno, fd = zc_file_open("/proc/self/maps", 0);
    if (fd < 0)
        answer = ZC_MAPS_UNKNOWN;
    while (answer == ZC_MAPS_YES && at < end)
        answer = ask(fd, &at, write ? RIGHT_WRITE : RIGHT_READ);
    if (fd >= 0)
        zc_file_close(fd);
    errno = saved;
    return answer;
}
