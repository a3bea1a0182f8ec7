/* SPDX-License-Identifier: MIT */
/* Queries /proc/self/maps by ioctl(2), so that no text has to be written and parsed, and reads that
 * text where the kernel knows no query. */
#include "host/maps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/errno.h"
#include "base/file.h"

/* <linux/fs.h> of Linux 6.11: struct procmap_query. */
struct query {
    uint64_t size;          /* Bytes of this struct. */
    uint64_t flags;         /* The query; 0: the mapping that contains the address. */
    uint64_t address;       /* The address. */
    uint64_t start, end;    /* The answer from here on: the mapping, */
    uint64_t rights;        /* its RIGHT_*, */
    uint64_t page_size;     /* bytes of its pages, */
    uint64_t offset;        /* offset of its beginning in the file, */
    uint64_t inode;         /* inode of the file, 0 for none, */
    uint32_t major, minor;  /* device of the file. */
    uint32_t name_size;     /* Bytes at name_address; 0: not asked, or no name. */
    uint32_t build_id_size; /* Not used. */
    uint64_t name_address;
    uint64_t build_id_address; /* Not used. */
};
_Static_assert(sizeof(struct query) == 104, "the kernel's layout");
#define QUERY _IOWR('f', 17, struct query)
#define RIGHT_READ 1u
#define RIGHT_WRITE 2u
#define RIGHT_EXEC 4u

static bool slow; /* The kernel has no query.  Atomic. */

bool zc_maps_slow(void)
{
    return __atomic_load_n(&slow, __ATOMIC_RELAXED);
}

/* False if there is no such mapping, or no such query. */
static bool maps_query(int fd, uint64_t address, struct zc_maps_mapping *out)
{
    struct query q = {.size = sizeof(q),
                      .address = address,
                      .name_size = sizeof(out->name),
                      .name_address = (uintptr_t)out->name};
    strcpy(out->name, "?");
    int error = ioctl(fd, QUERY, &q) == 0 ? 0 : errno;
    if (error == ENAMETOOLONG) {
        q.name_size = 0;
        q.name_address = 0;
        error = ioctl(fd, QUERY, &q) == 0 ? 0 : errno;
    } else if (q.name_size == 0) {
        out->name[0] = 0;
    }
    if (error != 0 && error != ENOENT)
        __atomic_store_n(&slow, true, __ATOMIC_RELAXED);
    out->start = q.start;
    out->end = q.end;
    out->inode = q.inode;
    out->rights = (q.rights & RIGHT_READ ? PROT_READ : 0) |
                  (q.rights & RIGHT_WRITE ? PROT_WRITE : 0) |
                  (q.rights & RIGHT_EXEC ? PROT_EXEC : 0);
    return error == 0;
}

enum zc_maps_answer zc_maps_ask(const void *memory, size_t n, bool write)
{
    enum zc_maps_answer answer = ZC_MAPS_YES;
    uint64_t at = (uintptr_t)memory, end = at + n;
    struct zc_maps_mapping m;
    ZC_KEEPS_ERRNO;
    int fd = zc_file_open("/proc/self/maps", 0);
    if (fd < 0)
        answer = ZC_MAPS_UNKNOWN;
    for (; answer == ZC_MAPS_YES && at < end; at = m.end)
        if (!maps_query(fd, at, &m))
            answer = zc_maps_slow() ? ZC_MAPS_UNKNOWN : ZC_MAPS_NO;
        else if (!(m.rights & (write ? PROT_WRITE : PROT_READ)))
            answer = ZC_MAPS_NO;
        else if (m.inode)
            answer = ZC_MAPS_UNKNOWN;
    zc_file_close(fd);
    return answer;
}

/* A line of proc_pid_maps(5): start-end, rights, offset, device, inode, name. */
static void maps_parse(char *line, struct zc_maps_mapping *out)
{
    out->start = strtoull(line, &line, 16);
    out->end = strtoull(line + (*line == '-'), &line, 16);
    line += strspn(line, " ");
    out->rights = 0;
    for (; *line && *line != ' '; line++)
        out->rights |= *line == 'r'   ? PROT_READ
                       : *line == 'w' ? PROT_WRITE
                       : *line == 'x' ? PROT_EXEC
                                      : 0;
    for (int field = 0; field < 2; field++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    out->inode = strtoull(line, &line, 10);
    line += strspn(line, " ");
    strcpy(out->name, strlen(line) < sizeof(out->name) ? line : "?");
}

/* Lines are in the order of their addresses. */
static bool read_text(int fd, uint64_t address, struct zc_maps_mapping *out)
{
    char text[2048];
    size_t held = 0;
    ssize_t got;
    while ((got = zc_file_read(fd, text + held, sizeof(text) - 1 - held)) > 0) {
        char *line = text, *end;
        text[held += (size_t)got] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            maps_parse(line, out);
            if (address < out->end)
                return address >= out->start;
        }
        held = (size_t)(text + held - line);
        if (held == sizeof(text) - 1)
            return false; /* No name of a file is that long. */
        memmove(text, line, held);
    }
    return false;
}

bool zc_maps_find(uint64_t address, struct zc_maps_mapping *out)
{
    ZC_KEEPS_ERRNO;
    int fd = zc_file_open("/proc/self/maps", 0);
    bool found = fd >= 0 && ((!zc_maps_slow() && maps_query(fd, address, out)) ||
                             (zc_maps_slow() && read_text(fd, address, out)));
    zc_file_close(fd);
    return found;
}
