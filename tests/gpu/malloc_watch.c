/* SPDX-License-Identifier: MIT */
/*
 * Writes down which blocks of 64 KiB and more a program has from malloc and its family, whatever
 * libzc sees of them: LD_PRELOAD=libmalloc_watch.so:libzc.so.
 *
 * ZC_WATCH_OUT.PID gets a line for each: "+ TIME ADDRESS SIZE" for a request, "- TIME ADDRESS" for
 * a free; TIME in nanoseconds of the wall clock, as in libzc's log.  Each line is written by
 * itself, so that the program finds no descriptor that it did not open.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SMALLEST 65536

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

static void tell(char what, const void *block, size_t size)
{
    const char *out = getenv("ZC_WATCH_OUT");
    char path[4096], line[96];
    struct timespec now;
    int saved = errno;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out && snprintf(path, sizeof(path), "%s.%d", out, (int)getpid()) < (int)sizeof(path)) {
        int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        int length =
            snprintf(line, sizeof(line), "%c %lld%09ld %llu %zu\n", what, (long long)now.tv_sec,
                     now.tv_nsec, (unsigned long long)(uintptr_t)block, size);
        if (file >= 0) {
            /* A line that is missing makes the check expect less, and there is nobody to tell. */
            ssize_t written = write(file, line, (size_t)length);
            (void)written;
            close(file);
        }
    }
    errno = saved;
}

static void *got(void *block, size_t size)
{
    if (block && size >= SMALLEST)
        tell('+', block, size);
    return block;
}

static void leaves(void *block)
{
    if (block && malloc_usable_size(block) >= SMALLEST)
        tell('-', block, 0);
}

void *malloc(size_t size)
{
    return got(__libc_malloc(size), size);
}

void *calloc(size_t count, size_t size)
{
    return got(__libc_calloc(count, size), count * size);
}

void *realloc(void *old, size_t size)
{
    leaves(old);
    return got(__libc_realloc(old, size), size);
}

void free(void *block)
{
    leaves(block);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size)
{
    return got(__libc_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

void *valloc(size_t size)
{
    return memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
        return EINVAL;
    int saved = errno;
    void *found = memalign(alignment, size);
    errno = saved;
    if (!found)
        return ENOMEM;
    *block = found;
    return 0;
}
