/* Views in a forked child: its side of the pages becomes private before fork returns there. */
#define _GNU_SOURCE
#include "maps.h"
#include "memory.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static int done[2] = {-1, -1}; /* a pipe of which the child holds one end until it is done */

void sim_view_fork_prepare(void)
{
    if (!sim_view_any || pipe2(done, O_CLOEXEC) != 0)
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

/* Views serve a driver that is not there in a child. */
static void drop_views(void)
{
    struct sim_block *b;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++)
        if (b->view.alias)
            sim_view_drop(&b->view);
}

void sim_view_fork_child(void)
{
    struct sim_maps maps;
    drop_views();
    if (sim_view_any && sim_maps_read(&maps, 0, UINTPTR_MAX)) {
        for (size_t i = 0; i < maps.count; i++) {
            const struct sim_mapping *m = &maps.items[i];
            if (m->view && !sim_swap_alone(m->start, m->end - m->start, m->rights))
                abort(); /* better no child than one that writes to its parent's memory */
        }
        sim_maps_free(&maps);
    }
    if (done[0] >= 0) {
        close(done[0]);
        close(done[1]);
    }
    sim_view_any = false;
}
