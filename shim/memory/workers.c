/* SPDX-License-Identifier: MIT */
/* Short-lived threads for work on large ranges: one core moves 9 GB/s, the link 55 GB/s. */
#include "memory/workers.h"

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/memory.h"
#include "base/wait.h"
#include "memory/crew.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)

/* Bytes that are worth a thread, which costs about as much to start as copying 128 KiB. */
#define WORTH ((size_t)4 << 20)
#define PARTS 4 /* Of a thread, one after the other. */

/* A thread that fills memory takes so much at a time at most.  Memory in use the kernel brings in
 * by a huge page's worth at a time, since it keeps other threads from mapping memory meanwhile.
 * Fresh memory is touched, which keeps nobody. */
#define FILL_STEP_MAX ((size_t)16 << 20)

/* <linux/mempolicy.h>, which needs kernel headers. */
#define MPOL_DEFAULT 0
#define MPOL_PREFERRED 1

/* Memory to be written, and for copies that to be read. */
struct ranges {
    char *dst;
    const char *src;
};

static void touch(void *memory, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i += PAGE)
        ((volatile char *)memory)[i] = 0;
}

static void populate_used(void *memory, size_t at, size_t n)
{
    for (size_t i = at, end = at + n, step; i < end; i += step) {
        step = end - i < HUGE_PAGE ? end - i : HUGE_PAGE;
        if (!zc_workers_reach((char *)memory + i, step, true) && errno == EINVAL)
            return; /* The kernel does not do that at all. */
    }
}

/* The kernel gives memory of files huge pages only where it is told to, and then only where
 * something is there already (measured). */
static void collapse(void *memory, size_t at, size_t n)
{
    for (size_t i = at, end = at + n; i < end; i += HUGE_PAGE) {
        touch(memory, i, 1);
        if (zc_memory_advise((char *)memory + i, HUGE_PAGE, MADV_COLLAPSE) != 0)
            touch(memory, i, end - i < HUGE_PAGE ? end - i : HUGE_PAGE);
    }
}

/* Memory that is filled in its order, or a task whose parts are done so. */
struct zc_fill {
    struct zc_crew crew;
    void *memory;
    zc_workers_fn *run;
    size_t n, step, next;       /* `next`: first byte that nobody has begun.  Atomic. */
    size_t at[ZC_CREW_MAX + 1]; /* Each one's step ends behind it; SIZE_MAX: none.  Atomic. */
    uint32_t news;              /* Counts the steps that are done.  Atomic. */
    int node;                   /* That pages come from, or negative. */
};

/* True if the calling thread has not chosen nodes for its new pages (set_mempolicy(2)). */
static bool nodes_anywhere(void)
{
    int policy = MPOL_DEFAULT;
    ZC_KEEPS_ERRNO;
    return syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul) == 0 && policy == MPOL_DEFAULT;
}

/* By a thread that has not, with pages from a node while that has some. */
static void run_near(zc_workers_fn *run, void *memory, size_t at, size_t n, int node)
{
    unsigned long mask = node >= 0 && node < 64 ? 1ul << node : 0;
    ZC_KEEPS_ERRNO;
    if (mask)
        syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, 65ul);
    run(memory, at, n);
    if (mask)
        syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul);
}

static bool fill_step(struct zc_crew *crew, unsigned who)
{
    struct zc_fill *f = (struct zc_fill *)crew;
    /* Before the step is taken, so that zc_workers_filled() never misses it. */
    __atomic_store_n(&f->at[who], __atomic_load_n(&f->next, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
    size_t mine = __atomic_fetch_add(&f->next, f->step, __ATOMIC_SEQ_CST);
    if (mine < f->n)
        run_near(f->run, f->memory, mine, f->n - mine < f->step ? f->n - mine : f->step, f->node);
    else
        zc_crew_over(crew);
    __atomic_store_n(&f->at[who], SIZE_MAX, __ATOMIC_SEQ_CST);
    zc_wait_step(&f->news);
    return mine < f->n;
}

/* Does all of it, and returns NULL, where there is no memory for a crew. */
static struct zc_fill *fill_begin(zc_workers_fn *run, void *memory, size_t n, size_t step,
                                  size_t threads, int node)
{
    struct zc_fill *f = zc_crew_make(sizeof(*f), fill_step, threads);
    if (!f) {
        run_near(run, memory, 0, n, node);
        return NULL;
    }
    f->memory = memory;
    f->run = run;
    f->node = node;
    f->n = n;
    f->step = step;
    memset(f->at, 0xff, sizeof(f->at));
    return f;
}

static zc_workers_fn *const fill_runs[] = {
    [ZC_FILL_FRESH] = touch, [ZC_FILL_FILE] = collapse, [ZC_FILL_USED] = populate_used};

struct zc_fill *zc_workers_fill(void *memory, size_t n, enum zc_fill_of of, int node)
{
    int near = nodes_anywhere() ? node : -1;
    /* Two threads that touch one huge page would clear it twice. */
    size_t step = n / (ZC_CREW_MAX + 1) / 2 / HUGE_PAGE * HUGE_PAGE;
    step = step < HUGE_PAGE ? HUGE_PAGE : step < FILL_STEP_MAX ? step : FILL_STEP_MAX;
    struct zc_fill *f = fill_begin(fill_runs[of], memory, n, step, n / step, near);
    while (f && zc_crew_grow(&f->crew) && f->crew.due)
        ;
    return f;
}

/* Of what was begun, the first byte that is not there yet. */
static size_t fill_done(const struct zc_fill *f)
{
    size_t least = __atomic_load_n(&f->next, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i <= ZC_CREW_MAX; i++) {
        size_t at = __atomic_load_n(&f->at[i], __ATOMIC_SEQ_CST);
        least = at < least ? at : least;
    }
    return least;
}

void zc_workers_filled(struct zc_fill *f, size_t n)
{
    while (f) {
        uint32_t before = __atomic_load_n(&f->news, __ATOMIC_SEQ_CST);
        if (fill_done(f) >= n)
            return;
        if (!zc_crew_grow(&f->crew) &&
            (__atomic_load_n(&f->next, __ATOMIC_SEQ_CST) >= n || !fill_step(&f->crew, 0)))
            zc_wait(&f->news, before);
    }
}

void zc_workers_end_fill(struct zc_fill *f)
{
    if (!f)
        return;
    zc_crew_wait(&f->crew);
    zc_crew_put(&f->crew);
}

void zc_workers_split(zc_workers_fn *run, void *task, size_t n, size_t worth, size_t unit)
{
    size_t threads = n / worth;
    if (threads < 2) {
        run(task, 0, n);
        return;
    }
    size_t step = (n / threads / PARTS + unit - 1) / unit * unit;
    struct zc_fill *f = fill_begin(run, task, n, step, threads - 1, -1);
    while (f && (zc_crew_grow(&f->crew) || fill_step(&f->crew, 0)))
        ;
    zc_workers_end_fill(f);
}

static void copy_part(void *task, size_t at, size_t n)
{
    const struct ranges *r = task;
    memcpy(r->dst + at, r->src + at, n);
}

static void zero_part(void *task, size_t at, size_t n)
{
    memset((char *)task + at, 0, n);
}

void zc_workers_copy(void *dst, const void *src, size_t n)
{
    struct ranges ranges = {dst, src};
    zc_workers_split(copy_part, &ranges, n, WORTH, PAGE);
}

void zc_workers_prefault(void *memory, size_t n, bool file, int node)
{
    struct zc_fill *fill = zc_workers_fill(memory, n, file ? ZC_FILL_FILE : ZC_FILL_FRESH, node);
    zc_workers_filled(fill, n);
    zc_workers_end_fill(fill);
}

void zc_workers_zero(void *memory, size_t n)
{
    zc_workers_split(zero_part, memory, n, WORTH, PAGE);
}

bool zc_workers_reach(void *memory, size_t n, bool write)
{
    uintptr_t first = zc_page_start((uintptr_t)memory), end = zc_page_end((uintptr_t)memory + n);
    return zc_memory_advise((void *)first, end - first,
                            write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
}
