/* SPDX-License-Identifier: MIT */
/* Reads /proc/self/maps (proc(5)): "start-end rwxp offset device inode name" a line, or one mapping
 * by the ioctl PROCMAP_QUERY. */
#define _GNU_SOURCE
#include "maps.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FIRST_BYTES ((size_t)1 << 16) /* of a buffer, which then doubles */

/* Memory that grows; used for the text and for the list. */
struct buffer {
    char *bytes;     /* owned mapping */
    size_t used;     /* bytes */
    size_t capacity; /* bytes */
};

static bool buffer_grow(struct buffer *b)
{
    size_t more = b->capacity ? 2 * b->capacity : FIRST_BYTES;
    void *p = b->bytes
                  ? mremap(b->bytes, b->capacity, more, MREMAP_MAYMOVE)
                  : mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    b->bytes = p;
    b->capacity = more;
    return true;
}

static void buffer_free(struct buffer *b)
{
    if (b->bytes)
        munmap(b->bytes, b->capacity);
}

/* The whole text with an end mark, ahead of any change to what it tells. */
static bool read_text(struct buffer *text)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    while (n > 0) {
        if (text->capacity - text->used < FIRST_BYTES / 2 && !buffer_grow(text))
            break;
        n = read(fd, text->bytes + text->used, text->capacity - text->used - 1);
        text->used += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    if (n == 0)
        text->bytes[text->used] = 0;
    return n == 0;
}

static bool starts(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

static struct sim_mapping parse(char *line)
{
    struct sim_mapping m = {0};
    m.start = strtoull(line, &line, 16);
    m.end = strtoull(line + 1, &line, 16);
    m.rights = (line[1] == 'r' ? PROT_READ : 0) | (line[2] == 'w' ? PROT_WRITE : 0) |
               (line[3] == 'x' ? PROT_EXEC : 0);
    m.shared = line[4] == 's';
    m.offset = strtoull(line + 6, &line, 16);
    unsigned major = (unsigned)strtoull(line + 1, &line, 16);
    m.device = makedev(major, (unsigned)strtoull(line + 1, &line, 16));
    m.file = strtoull(line + 1, &line, 10);
    line += strspn(line, " ");
    m.allocated = starts(line, "/memfd:" SIM_ALLOCATED_NAME);
    m.view = m.allocated || starts(line, "/memfd:" SIM_VIEW_NAME);
    return m;
}

static bool list_add(struct buffer *list, struct sim_mapping m, uintptr_t from, uintptr_t to)
{
    m.offset += m.start < from ? from - m.start : 0;
    m.start = m.start < from ? from : m.start;
    m.end = m.end > to ? to : m.end;
    if (list->capacity - list->used < sizeof m && !buffer_grow(list))
        return false;
    memcpy(list->bytes + list->used, &m, sizeof m);
    list->used += sizeof m;
    return true;
}

static void hand_over(struct sim_maps *out, const struct buffer *list)
{
    out->items = (void *)list->bytes;
    out->count = list->used / sizeof(struct sim_mapping);
    out->bytes = list->capacity;
}

bool sim_maps_read(struct sim_maps *out, uintptr_t from, uintptr_t to)
{
    struct buffer text = {0}, list = {0};
    bool fine = read_text(&text);
    for (char *line = text.bytes; fine && *line;) {
        char *end = strchr(line, '\n');
        struct sim_mapping m = parse(line);
        if (m.start >= to || !end)
            break;
        if (m.end > from)
            fine = list_add(&list, m, from, to);
        line = end + 1;
    }
    buffer_free(&text);
    if (!fine)
        buffer_free(&list);
    hand_over(out, fine ? &list : &(struct buffer){0});
    return fine;
}

/* struct procmap_query of linux/fs.h, which older headers lack. */
struct query {
    uint64_t size;               /* of this struct */
    uint64_t flags;              /* QUERY_NEXT */
    uint64_t address;            /* asked for */
    uint64_t start, end;         /* answer: the mapping, */
    uint64_t rights;             /* QUERY_READ ... QUERY_SHARED, */
    uint64_t page_size;          /* its pages, */
    uint64_t offset;             /* its place in the file, */
    uint64_t file;               /* the inode */
    uint32_t major, minor;       /* and its device */
    uint32_t name_size, id_size; /* 0: not asked for */
    uint64_t name, id;           /* likewise */
};

#define QUERY _IOWR('f', 17, struct query)
#define QUERY_READ 1
#define QUERY_WRITE 2
#define QUERY_EXEC 4
#define QUERY_SHARED 8
#define QUERY_NEXT 16 /* the mapping at the address, or the first behind it */

static struct sim_mapping mapping_of(const struct query *q)
{
    struct sim_mapping m = {.start = q->start,
                            .end = q->end,
                            .file = q->file,
                            .device = makedev(q->major, q->minor),
                            .offset = q->offset};
    m.rights = (q->rights & QUERY_READ ? PROT_READ : 0) |
               (q->rights & QUERY_WRITE ? PROT_WRITE : 0) |
               (q->rights & QUERY_EXEC ? PROT_EXEC : 0);
    m.shared = (q->rights & QUERY_SHARED) != 0;
    return m;
}

bool sim_maps_ask(struct sim_maps *out, uintptr_t from, uintptr_t to)
{
    struct buffer list = {0};
    bool fine = true;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (uintptr_t at = from; fine && at < to;) {
        struct query q = {.size = sizeof q, .flags = QUERY_NEXT, .address = at};
        if (ioctl(fd, QUERY, &q) != 0) {
            fine = errno == ENOENT;
            break;
        }
        if (q.start >= to)
            break;
        fine = list_add(&list, mapping_of(&q), from, to);
        at = q.end;
    }
    if (fd >= 0)
        close(fd);
    if (fine) {
        hand_over(out, &list);
        return true;
    }
    buffer_free(&list);
    return sim_maps_read(out, from, to);
}

bool sim_maps_same_file(const struct sim_mapping *a, const struct sim_mapping *b)
{
    return a->file == b->file && a->device == b->device;
}

void sim_maps_free(struct sim_maps *maps)
{
    if (maps->items)
        munmap(maps->items, maps->bytes);
    maps->items = NULL;
    maps->count = 0;
}
