/* SPDX-License-Identifier: MIT */
/* Views: their pages lie in a file in memory (memfd_create), mapped once for the CPU and once for
 * the GPU. Memory that is shared already, as after an earlier view, is mapped a second time as it
 * is. */
#define _GNU_SOURCE
#include "view.h"
#include "hmm.h"
#include "maps.h"
#include "pages.h"
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As long as all addresses: what mremap(2) adds to a mapping later is empty then, as it is behind
 * anonymous memory, and not behind the end of the file. */
#define FILE_BYTES ((off_t)1 << 47)
#define MOST_BROUGHT_IN ((size_t)256 << 20)

bool sim_view_any;

static int file_new(const char *name)
{
    /* A driver's memory is no file, and the program's RLIMIT_FSIZE nothing to it. */
    struct rlimit had = {0}, most;
    syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &had);
    most = (struct rlimit){had.rlim_max, had.rlim_max};
    syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &most, NULL);
    int fd = memfd_create(name, MFD_CLOEXEC);
    bool done = fd >= 0 && most.rlim_cur >= FILE_BYTES && ftruncate(fd, FILE_BYTES) == 0;
    syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &had, NULL);
    if (done) {
        sim_view_any = true;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

void *sim_view_alloc(struct sim_view *view, size_t bytes)
{
    int fd = file_new(SIM_ALLOCATED_NAME);
    char *cpu = MAP_FAILED, *gpu = MAP_FAILED;
    if (fd < 0)
        return NULL;
    cpu = sim_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    gpu = sim_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (cpu != MAP_FAILED && gpu != MAP_FAILED) {
        *view = (struct sim_view){.alias = gpu, .bytes = bytes};
        return cpu;
    }
    if (cpu != MAP_FAILED)
        sim_munmap(cpu, bytes);
    if (gpu != MAP_FAILED)
        sim_munmap(gpu, bytes);
    return NULL;
}

/* Whether the mappings fill the range and give the CPU the rights that pinning needs; *own says
 * whether some of them are private. */
static bool may_pin(const struct sim_maps *maps, uintptr_t first, size_t bytes, int needed,
                    bool *own)
{
    uintptr_t at = first;
    *own = false;
    for (size_t i = 0; i < maps->count; i++) {
        const struct sim_mapping *m = &maps->items[i];
        if (m->start != at || (m->rights & needed) != needed)
            return false;
        at = m->end;
        *own = *own || !m->shared;
    }
    return at == first + bytes;
}

/* The CPU's MADV_DONTFORK is not the GPU's: a child that lacked the alias would unmap what it has
 * there itself. */
static bool duplicate(char *from, size_t bytes, char *to)
{
    return sim_mremap(from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED &&
           sim_madvise(to, bytes, MADV_DOFORK) == 0;
}

/* Shared pages can be mapped a second time (mremap(2), an old size of 0); private ones get into the
 * file. */
static bool fill(struct sim_view *view, const struct sim_maps *maps, int fd, uintptr_t first)
{
    bool fine = true;
    for (size_t i = 0; fine && i < maps->count; i++) {
        const struct sim_mapping *m = &maps->items[i];
        size_t bytes = m->end - m->start;
        char *alias = view->alias + (m->start - first);
        struct sim_swap swap = {.start = m->start,
                                .bytes = bytes,
                                .rights = m->rights,
                                .fd = fd,
                                .offset = m->start - first};
        if (m->shared) {
            fine = duplicate((char *)m->start, bytes, alias);
        } else {
            sim_swap_run(&swap);
            fine = !swap.failed;
        }
    }
    return fine;
}

/* Aliases lie so far below their pages, where nothing is there yet. So those of pages side by side
 * are side by side as well, and kernels run over the border, as on hardware. */
#define ALIAS_BELOW ((uintptr_t)1 << 45)

/* Room for the alias of the pages at `first`, with the file mapped all over it where there is one.
 */
static bool place(struct sim_view *view, const char *first, size_t bytes, int fd, char *at)
{
    char *near = at ? at : (char *)((uintptr_t)first - ALIAS_BELOW);
    int rights = fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    char *p = sim_mmap(near, bytes, rights, flags | (at ? MAP_FIXED : 0), fd, 0);
    if (p == MAP_FAILED)
        return false;
    *view = (struct sim_view){.alias = p, .bytes = bytes, .placed = at != NULL};
    return true;
}

CUresult sim_view_open(struct sim_view *view, char *first, size_t bytes, bool read_only, char *at)
{
    struct sim_maps maps;
    bool own;
    int fd = -1;
    if (!sim_maps_ask(&maps, (uintptr_t)first, (uintptr_t)first + bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!may_pin(&maps, (uintptr_t)first, bytes, PROT_READ | (read_only ? 0 : PROT_WRITE), &own)) {
        sim_maps_free(&maps);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *view = (struct sim_view){0};
    bool fine = !own || (fd = file_new(SIM_VIEW_NAME)) >= 0;
    fine = fine && place(view, first, bytes, fd, at) && fill(view, &maps, fd, (uintptr_t)first);
    int rights = PROT_READ | (sim_wrong(SIM_UPGRADE) ? PROT_WRITE : 0);
    fine = fine && (!read_only || sim_mprotect(view->alias, bytes, rights) == 0);
    /* Pinning brings in all pages, but of more than this machine may have only a part. */
    if (fine && own)
        sim_madvise(view->alias, bytes < MOST_BROUGHT_IN ? bytes : MOST_BROUGHT_IN,
                    MADV_POPULATE_READ);
    if (fd >= 0)
        close(fd);
    sim_maps_free(&maps);
    if (fine)
        return CUDA_SUCCESS;
    sim_view_close(view);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool sim_view_keep(struct sim_view *view, size_t at, size_t bytes)
{
    char *alias = view->alias + at;
    char *own = sim_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return false;
    memcpy(own, alias, bytes);
    return sim_mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, alias) != MAP_FAILED;
}

void sim_view_close(struct sim_view *view)
{
    if (view->placed)
        sim_mmap(view->alias, view->bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    else if (view->alias)
        sim_munmap(view->alias, view->bytes);
    *view = (struct sim_view){0};
}
