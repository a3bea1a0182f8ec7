/* Views: their pages lie in a file in memory (memfd_create), mapped once for the CPU and once for
 * the GPU. Memory that is shared already is mapped a second time as it is. */
#define _GNU_SOURCE
#include "view.h"
#include "maps.h"
#include "memory.h"
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* From this size on a view keeps its file open, whose holes are cheaper to find than those of a
 * mapping. */
#define KEEP_FROM ((size_t)1 << 20)

bool sim_view_any;

static int file_new(struct sim_view *view, size_t bytes)
{
    struct stat s;
    int fd = memfd_create(SIM_VIEW_NAME, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fstat(fd, &s) == 0) {
        view->file = s.st_ino;
        sim_view_any = true;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

void *sim_view_alloc(struct sim_view *view, size_t bytes)
{
    int fd = file_new(view, bytes);
    char *cpu = MAP_FAILED, *gpu = MAP_FAILED;
    if (fd < 0)
        return NULL;
    cpu = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    gpu = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (cpu != MAP_FAILED && gpu != MAP_FAILED) {
        *view = (struct sim_view){.alias = gpu, .bytes = bytes, .fd = -1};
        return cpu;
    }
    if (cpu != MAP_FAILED)
        munmap(cpu, bytes);
    if (gpu != MAP_FAILED)
        munmap(gpu, bytes);
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
                                .share = true,
                                .fd = fd,
                                .offset = m->start - first};
        if (m->shared) {
            fine = mremap((void *)m->start, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, alias) !=
                   MAP_FAILED;
        } else {
            sim_swap_run(&swap);
            fine = !swap.failed;
        }
    }
    return fine;
}

/* Room for the alias, with the file mapped all over it where there is one. */
static bool place(struct sim_view *view, size_t bytes, int fd)
{
    char *p = mmap(NULL, bytes, fd < 0 ? PROT_NONE : PROT_READ | PROT_WRITE,
                   fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    view->alias = p;
    view->bytes = bytes;
    return true;
}

CUresult sim_view_open(struct sim_view *view, char *first, size_t bytes, bool read_only)
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
    *view = (struct sim_view){.first = (uintptr_t)first, .fd = -1};
    bool fine = !own || (fd = file_new(view, bytes)) >= 0;
    fine = fine && place(view, bytes, fd) && fill(view, &maps, fd, (uintptr_t)first);
    fine = fine && (!read_only || mprotect(view->alias, bytes, PROT_READ) == 0);
    if (bytes >= KEEP_FROM)
        view->fd = fd;
    else if (fd >= 0)
        close(fd);
    sim_maps_free(&maps);
    if (fine)
        return CUDA_SUCCESS;
    sim_view_close(view);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Pages at the ends may be pages of the next block as well: they stay shared. */
static void leave_neighbours(struct sim_mapping *m)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    while (m->start < m->end && sim_block_overlap(m->start, page))
        m->start += page, m->offset += page;
    while (m->start < m->end && sim_block_overlap(m->end - page, page))
        m->end -= page;
}

/* Shared pages of one view may be mapped by another one as well. */
static bool is_alias(uintptr_t address)
{
    const struct sim_block *b;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++)
        if (b->view.alias && address - (uintptr_t)b->view.alias < b->view.bytes)
            return true;
    return false;
}

/* Whether the CPU has all pages of a view where they were. */
static bool in_place(const struct sim_view *view, const struct sim_maps *maps)
{
    uintptr_t at = view->first;
    for (size_t i = 0; i < maps->count; i++) {
        const struct sim_mapping *m = &maps->items[i];
        if (m->start != at || m->file != view->file || m->offset != at - view->first)
            return false;
        at = m->end;
    }
    return at == view->first + view->bytes;
}

/* The CPU's mappings of a view's pages, and perhaps others; *whole says that they are no others. */
static bool find_pages(const struct sim_view *view, struct sim_maps *maps, bool *whole)
{
    *whole = sim_maps_ask(maps, view->first, view->first + view->bytes) && in_place(view, maps);
    if (*whole)
        return true;
    sim_maps_free(maps);
    return sim_maps_read(maps, 0, UINTPTR_MAX);
}

/* The kept descriptor, or -1 where the program closed it (closefrom(3)) and has another file there.
 */
static int kept_fd(const struct sim_view *view)
{
    struct stat s;
    bool same = view->fd >= 0 && fstat(view->fd, &s) == 0 && s.st_ino == view->file;
    return same ? view->fd : -1;
}

static void give_back(const struct sim_view *view)
{
    struct sim_maps maps;
    bool whole;
    int fd = kept_fd(view);
    if (!find_pages(view, &maps, &whole))
        return;
    for (size_t i = 0; i < maps.count; i++) {
        struct sim_mapping m = maps.items[i];
        bool own = m.file == view->file && (whole || m.view);
        if (!own || m.start - (uintptr_t)view->alias < view->bytes || is_alias(m.start))
            continue;
        leave_neighbours(&m);
        struct sim_swap swap = {.start = m.start,
                                .bytes = m.end - m.start,
                                .rights = m.rights,
                                .fd = fd,
                                .offset = m.offset,
                                .source = view->alias + m.offset};
        if (swap.bytes)
            sim_swap_run(&swap);
    }
    sim_maps_free(&maps);
}

void sim_view_close(struct sim_view *view)
{
    if (view->alias && view->file)
        give_back(view);
    sim_view_drop(view);
}

void sim_view_drop(struct sim_view *view)
{
    int fd = kept_fd(view);
    if (view->alias)
        munmap(view->alias, view->bytes);
    if (fd >= 0)
        close(fd);
    *view = (struct sim_view){.fd = -1};
}
