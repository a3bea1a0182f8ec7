/* SPDX-License-Identifier: MIT */
/* Views in a forked child: its side of pages that were registered becomes private before fork
 * returns there; what the driver allocated it shares with its parent. */
#define _GNU_SOURCE
#include "maps.h"
#include "memory.h"
#include "stream.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int done[2] = {-1, -1}; /* a pipe of which the child holds one end until it is done */

/* Whether no thread of the program's but the calling one may move or touch its memory. */
static bool alone(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 2 + 1 + sim_stream_workers;
}

/* Whether the GPU still has a view of some of a file, wherever the CPU's side is now. */
static bool is_pinned(const struct sim_mapping *side)
{
    struct sim_block *b;
    struct sim_maps maps;
    bool found = false;
    for (size_t i = 0; !found && (b = sim_block_at(i)) != NULL; i++) {
        uintptr_t alias = (uintptr_t)b->view.alias;
        if (!alias || !sim_maps_read(&maps, alias, alias + b->view.bytes))
            continue;
        for (size_t k = 0; k < maps.count; k++)
            found = found || sim_maps_same_file(&maps.items[k], side);
        sim_maps_free(&maps);
    }
    return found;
}

/* Parent and child go on with one stack, so that it must not be shared memory; and what is no
 * longer pinned is copied as both write it. What is still pinned stays so: the GPU would lose sight
 * of it. */
static void own_unpinned(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    bool all = alone();
    struct sim_maps maps;
    if (!sim_maps_read(&maps, all ? 0 : here - SIM_STACK_BYTES,
                       all ? UINTPTR_MAX : here + SIM_STACK_BYTES))
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct sim_mapping *m = &maps.items[i];
        struct sim_swap swap = {
            .start = m->start, .bytes = m->end - m->start, .rights = m->rights, .fd = -1};
        if (m->view && !m->allocated && !is_pinned(m))
            sim_swap_run(&swap);
    }
    sim_maps_free(&maps);
}

void sim_view_fork_prepare(void)
{
    done[0] = done[1] = -1;
    if (!sim_view_any)
        return;
    own_unpinned();
    if (pipe2(done, O_CLOEXEC) != 0)
        done[0] = done[1] = -1;
}

void sim_view_fork_parent(void)
{
    char none;
    if (done[0] < 0)
        return;
    close(done[1]);
    /* No byte ever comes: the end of the file is the child's word, or that there is no child. */
    while (read(done[0], &none, 1) > 0)
        ;
    close(done[0]);
}

/* Views serve a driver that is not there in a child. The blocks may lie in pages that the program
 * has registered, which are its parent's as well: nothing is written there yet. */
static void unmap_views(void)
{
    struct sim_block *b;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++) {
        struct sim_view view = b->view;
        sim_view_close(&view);
    }
}

static void forget_views(void)
{
    struct sim_block *b;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++)
        b->view = (struct sim_view){0};
}

void sim_view_fork_child(void)
{
    struct sim_maps maps;
    unmap_views();
    if (sim_view_any && sim_maps_read(&maps, 0, UINTPTR_MAX)) {
        for (size_t i = 0; i < maps.count; i++) {
            const struct sim_mapping *m = &maps.items[i];
            if (m->view && !m->allocated && !sim_swap_alone(m->start, m->end - m->start, m->rights))
                abort(); /* better no child than one that writes to its parent's memory */
        }
        sim_maps_free(&maps);
    }
    forget_views();
    if (done[0] >= 0) {
        close(done[0]);
        close(done[1]);
    }
    sim_view_any = false;
}
