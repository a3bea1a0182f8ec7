/* SPDX-License-Identifier: MIT */
/* Ways of the CPU to use host blocks of the random program besides its own instructions:
 * host functions in the order of a stream, and system calls. */
#ifndef RANDOM_HOST_H
#define RANDOM_HOST_H

#include <sys/mman.h>

#include "random_streams.h"

/* Bytes that a host function adds to. */
struct addend {
    unsigned char *at;
    size_t bytes;
};

static inline void CUDA_CB add_one(void *data)
{
    struct addend *a = data;
    for (size_t i = 0; i < a->bytes; i++)
        a->at[i]++;
    free(a);
}

static inline bool host_free(const struct block *b)
{
    return !on_device(b) && !b->held;
}

/* A stream changes a host block with the CPU, between its copies. */
static inline void call_host(void)
{
    struct block *b = pick(host_free);
    struct stream *s = any_stream();
    if (!b || !awaits_cpu)
        return;
    size_t low = below(b->bytes), n = 1 + below(b->bytes - low);
    struct addend *a = malloc(sizeof(*a));
    *a = (struct addend){(unsigned char *)b->at + low, n};
    take(s, b);
    say("host function on %d, %zu at %zu: %d", (int)(b - blocks), n, low,
        (int)cuLaunchHostFunc(s->handle, add_one, a));
    if (pageable(b))
        settle(b); /* Copies read pageable memory when they are called. */
    if (one_in(3))
        show_content("added:", b);
}

/* The system writes a block to a file, and reads another one from it. */
static inline void through_file(void)
{
    struct block *a = pick(host_free), *b = pick(host_free);
    int fd = memfd_create("random", MFD_CLOEXEC);
    EXPECT(fd >= 0);
    if (a && b) {
        size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
        size_t low = below(n);
        settle(a);
        settle(b);
        say("write %d: %zd", (int)(a - blocks), pwrite(fd, a->at, n, 0));
        say("read %d: %zd", (int)(b - blocks), pread(fd, b->at + low, n - low, 0));
        show_content("file:", b);
    }
    close(fd);
}

#endif
