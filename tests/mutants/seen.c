/* SPDX-License-Identifier: MIT */
/* Notes which code of the library runs, for tests/mutants: every branch calls this file first
 * (-fsanitize-coverage=trace-pc), which notes it in a file that all processes of a test share, so
 * that what a process ran that is killed is noted, too. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_BYTES 4 /* Two calls of this file end at least so many bytes apart. */
#define FILE_BYTES ((size_t)1 << 21)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

void __sanitizer_cov_trace_pc(void);

static uint8_t *seen; /* By the address behind the call; a page of the heap's never. */
static int off;

/* Straight to the kernel, because the library stands for some of libc's functions. */
static void map_seen(void)
{
    if (!environ || !*environ)
        return;
    off = 1; /* A test's own syscall() would call this again. */
    const char *path = getenv("ZC_SEEN");
    long fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    long at = -1;
    if (fd >= 0) {
        at = syscall(SYS_mmap, NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
    }
    if (at != -1)
        seen = (uint8_t *)at;
}

void __sanitizer_cov_trace_pc(void)
{
    size_t at = (size_t)((const char *)__builtin_return_address(0) - __ehdr_start) / CALL_BYTES;
    if (!seen && !off)
        map_seen();
    if (seen && at < FILE_BYTES)
        __atomic_store_n(&seen[at], 1, __ATOMIC_RELAXED);
}
