/* SPDX-License-Identifier: MIT */
/*
 * Work of the CPU on all of its processors: what programs with large inputs fill, and check, would
 * else take longer than all that they show.
 */
#ifndef KERNELS_PARALLEL_H
#define KERNELS_PARALLEL_H

#include <pthread.h>
#include <unistd.h>

#include "common.h"

#define PARALLEL_MOST 64             /* threads */
#define PARALLEL_PART ((size_t)4096) /* items that a thread takes at a time */

/* Some work on the items 0 .. count - 1, of which those below `taken` are done or being done. */
struct parallel_work {
    void (*work)(void *job, size_t begin, size_t end);
    void *job;
    size_t count, taken;
};

static inline void *parallel_run(void *arg)
{
    struct parallel_work *all = (struct parallel_work *)arg;
    size_t begin;

    while ((begin = __atomic_fetch_add(&all->taken, PARALLEL_PART, __ATOMIC_RELAXED)) < all->count)
        all->work(all->job, begin,
                  all->count - begin < PARALLEL_PART ? all->count : begin + PARALLEL_PART);
    return NULL;
}

/*
 * Calls `work` for parts of 0 .. count - 1, on one thread a processor, and waits for all of them.
 * Parts are small, as a graph's vertices have few neighbours or very many.
 */
static inline void parallel(size_t count, void (*work)(void *job, size_t begin, size_t end),
                            void *job)
{
    struct parallel_work all = {work, job, count, 0};
    pthread_t threads[PARALLEL_MOST];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most =
        processors < PARALLEL_MOST ? (size_t)(processors < 1 ? 1 : processors) : PARALLEL_MOST;
    size_t parts = (count + PARALLEL_PART - 1) / PARALLEL_PART, n = 1; /* this thread is one */

    for (; n < most && n < parts; n++) {
        if (pthread_create(&threads[n], NULL, parallel_run, &all) != 0)
            break; /* the others do its part */
    }
    parallel_run(&all);
    while (--n > 0)
        pthread_join(threads[n], NULL);
}

#endif
