/* SPDX-License-Identifier: MIT */
/* Changes of a host block's pages by system calls that do not come from libc's functions: what the
 * CPU has there then, what a copy to the device brings, and what one from the device leaves. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "shared_scene.h"

#define PAGE ((size_t)4096)

static char *aside(void)
{
    char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(p != MAP_FAILED);
    memset(p, 1, PAGE);
    return p;
}

static long discard(char *at)
{
    return syscall(SYS_madvise, at, PAGE, MADV_DONTNEED);
}

static long map_over(char *at)
{
    return syscall(SYS_mmap, at, PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != (long)at;
}

static long move_in(char *at)
{
    return syscall(SYS_mremap, aside(), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != (long)at;
}

/* And fresh memory in its place, which takes no libc function either. */
static long move_out(char *at)
{
    return syscall(SYS_mremap, at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, aside()) == -1 ||
           map_over(at);
}

static long protect(char *at)
{
    return syscall(SYS_mprotect, at, PAGE, PROT_READ) ||
           syscall(SYS_mprotect, at, PAGE, PROT_READ | PROT_WRITE);
}

static const struct {
    const char *name;
    long (*change)(char *at);
} calls[] = {{"madvise", discard},
             {"mmap", map_over},
             {"mremap to", move_in},
             {"mremap from", move_out},
             {"mprotect", protect}};

static const char *found(unsigned char is, unsigned char was)
{
    return is == was ? "old" : is == 0 ? "fresh" : is == 1 ? "new" : "other";
}

/* The block is copied to the device so often before. */
static void try(int call, int copies)
{
    struct pair p = new_pair(SIZE);
    unsigned char *at = p.h + UNIT + 2 * PAGE, *got = calloc(1, PAGE), was;
    at -= (uintptr_t)at % PAGE;
    CUdeviceptr there = p.d + (CUdeviceptr)(at - p.h);
    paint(p.h, SIZE, 5);
    at[7] = was = 77;
    for (int i = 0; i < copies; i++)
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(calls[call].change((char *)at) == 0);
    printf("%s, copied %d times: cpu %s", calls[call].name, copies, found(at[7], was));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuMemcpyDtoH(got, there, PAGE));
    printf(", to the device %s", found(got[7], was));
    at[7] = 78;
    CHECK(cuMemsetD8(p.d, 79, SIZE));
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    printf(", back %s\n", at[7] == 79 ? "right" : "wrong");
    free(got);
    CHECK(cuMemFree(p.d)); /* libc may look at what it has around its own block. */
}

int main(void)
{
    start_gpu(0);
    for (int call = 0; call < 5; call++)
        for (int copies = 0; copies < 3; copies++)
            try(call, copies);
    return 0;
}
