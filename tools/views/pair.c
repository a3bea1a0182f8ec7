/* SPDX-License-Identifier: MIT */
/* A host block and a device block on the same pages, for zc-views. */
#include "tools/views/pair.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "host/pagemap.h"

/* Contents are such that each word tells its page's number. */
static unsigned word(unsigned char seed)
{
    return seed * 0x01010101u;
}

static void fill(char *page, size_t bytes, unsigned char seed)
{
    memset(page, seed, bytes);
}

static bool filled(const char *page, size_t bytes, unsigned char seed)
{
    const volatile unsigned *words = (const volatile unsigned *)page;
    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        if (words[i] != word(seed))
            return false;
    return true;
}

static char *map(int fd, int flags)
{
    char *at = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED)
        view_wrong("there is no memory");
    return at;
}

void view_open(struct view_pair *p, const struct view_device *device)
{
    size_t unit = device->tables ? VIEW_ATS : VIEW_UNIT;
    size_t bytes = device->tables ? VIEW_ATS : VIEW_BYTES;
    CUdeviceptr d;
    *p = (struct view_pair){.fd = memfd_create("zc-views", MFD_CLOEXEC),
                            .page = (size_t)sysconf(_SC_PAGESIZE)};
    p->pages = VIEW_BYTES / p->page;
    if (p->fd < 0 || ftruncate(p->fd, VIEW_BYTES) != 0)
        view_wrong("there are no memory files");
    p->h = map(p->fd, MAP_SHARED);
    for (size_t i = 0; i < p->pages; i++) {
        p->in_h[i] = p->in_d[i] = (unsigned char)(i % 100 + 1);
        fill(p->h + i * p->page, p->page, p->in_h[i]);
    }
    MUST(cuMemAddressReserve, &d, bytes, unit, 0, 0);
    p->d = (char *)(uintptr_t)d;
}

static void show(struct view_pair *p)
{
    if (mmap(p->d, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd, 0) != p->d)
        view_wrong("nothing can be mapped at reserved addresses");
    p->window = map(p->fd, MAP_SHARED);
}

CUresult view_register(struct view_pair *p, unsigned flags)
{
    show(p);
    return driver.cuMemHostRegister_v2(
        p->d, VIEW_BYTES, flags | CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

void view_show(struct view_pair *p)
{
    show(p);
    mprotect(p->d, VIEW_BYTES, PROT_READ);
}

void view_hide(struct view_pair *p)
{
    if (mmap(p->d, VIEW_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0) != p->d)
        view_wrong("nothing can be mapped at reserved addresses");
    munmap(p->window, VIEW_BYTES);
}

void view_part(struct view_pair *p)
{
    char *view = map(p->fd, MAP_PRIVATE | MAP_NORESERVE);
    if (mremap(view, VIEW_BYTES, VIEW_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, p->h) != p->h)
        view_wrong("the kernel gives no private view");
}

void view_write(struct view_pair *p, size_t page, unsigned char seed)
{
    fill(p->h + page * p->page, p->page, seed);
    p->in_h[page] = seed;
    p->written[page] = true;
}

void view_carry(struct view_pair *p, size_t page)
{
    memcpy(p->window + page * p->page, p->h + page * p->page, p->page);
    p->in_d[page] = p->in_h[page];
}

static void compare(const struct view_pair *p, const char *found, const unsigned char *content,
                    const char *who, const char *when)
{
    for (size_t i = 0; i < p->pages; i++)
        if (!filled(found + i * p->page, p->page, content[i]))
            view_wrong("%s at page %u what is not there %s", who, (unsigned)i, when);
}

/* Memory of libc's that is given no meaning by a driver. */
static char *fresh(void)
{
    static char *buffer;
    if (!buffer)
        buffer = map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    memset(buffer, 0, VIEW_BYTES);
    return buffer;
}

static void compare_out(struct view_pair *p, const unsigned char *content, const char *who,
                        const char *when)
{
    char *buffer = fresh();
    MUST(cuMemcpyDtoH_v2, buffer, view_out, VIEW_BYTES);
    compare(p, buffer, content, who, when);
}

void view_kernels_find_at(struct view_pair *p, const char *address, const unsigned char *content,
                          const char *when)
{
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)address;
    unsigned long long words = VIEW_BYTES / sizeof(unsigned);
    MUST(cuMemsetD32_v2, view_out, 0, words);
    view_must(view_launch(VIEW_COPY, NULL, (void *[]){&from, &view_out, &words}), "a launch");
    view_must(driver.cuCtxSynchronize(), "a kernel that reads");
    compare_out(p, content, "a kernel finds", when);
}

void view_kernels_find(struct view_pair *p, const char *when)
{
    view_kernels_find_at(p, p->d, p->in_d, when);
}

static void copy_rows(CUdeviceptr from)
{
    const CUDA_MEMCPY2D_v2 rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .srcDevice = from,
                                   .srcPitch = VIEW_BYTES / 4,
                                   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                   .dstDevice = view_out,
                                   .dstPitch = VIEW_BYTES / 4,
                                   .WidthInBytes = VIEW_BYTES / 4,
                                   .Height = 4};
    MUST(cuMemcpy2D_v2, &rows);
}

void view_copies_find(struct view_pair *p, const char *when)
{
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)p->d;
    char *buffer = fresh();
    MUST(cuMemcpyDtoH_v2, buffer, from, VIEW_BYTES);
    compare(p, buffer, p->in_d, "a copy to the host finds", when);
    MUST(cuMemcpyDtoHAsync_v2, fresh(), from, VIEW_BYTES, view_stream);
    MUST(cuStreamSynchronize, view_stream);
    compare(p, buffer, p->in_d, "an asynchronous copy finds", when);
    MUST(cuMemsetD32_v2, view_out, 0, VIEW_BYTES / sizeof(unsigned));
    MUST(cuMemcpyDtoD_v2, view_out, from, VIEW_BYTES);
    compare_out(p, p->in_d, "a copy on the device finds", when);
    MUST(cuMemsetD32_v2, view_out, 0, VIEW_BYTES / sizeof(unsigned));
    copy_rows(from);
    compare_out(p, p->in_d, "a copy of rows finds", when);
}

void view_cpu_finds(struct view_pair *p, const char *when)
{
    compare(p, p->h, p->in_h, "the CPU finds in the host block", when);
    compare(p, p->window, p->in_d, "the CPU finds in the device block", when);
}

struct known {
    const struct view_pair *p;
    bool own[1024];
};

static void note(uintptr_t from, uintptr_t to, void *arg)
{
    struct known *k = arg;
    for (; from < to; from += k->p->page)
        k->own[(from - (uintptr_t)k->p->h) / k->p->page] = true;
}

void view_pages_known(struct view_pair *p, bool exactly, const char *when)
{
    struct known k = {.p = p};
    zc_pagemap_each((uintptr_t)p->h, (uintptr_t)p->h + VIEW_BYTES, note, &k);
    for (size_t i = 0; i < p->pages; i++)
        if (k.own[i] != p->written[i] && (exactly || p->written[i]))
            view_wrong("/proc/self/pagemap says that page %u was %swritten %s", (unsigned)i,
                       k.own[i] ? "" : "not ", when);
}

CUresult view_fill(struct view_pair *p, char *page, unsigned char seed)
{
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)page;
    unsigned long long words = p->page / sizeof(unsigned);
    unsigned value = word(seed);
    CUresult result = view_launch(VIEW_FILL, NULL, (void *[]){&to, &words, &value});
    return result == CUDA_SUCCESS ? driver.cuCtxSynchronize() : result;
}
