/* SPDX-License-Identifier: MIT */
/* Short-lived threads for work on large ranges: one core moves 9 GB/s, the link 55 GB/s. */
#include "memory/workers.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/wait.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define STACK ((size_t)256 << 10)

/* Bytes that are worth a thread, which costs about as much to start as copying 128 KiB. */
#define WORTH ((size_t)4 << 20)

/* A thread that fills memory takes so much at a time at most, and has the kernel bring in a huge
 * page's worth at a time, since the kernel keeps other threads from mapping memory meanwhile. */
#define FILL_STEP_MAX ((size_t)16 << 20)

/* A part of a task. */
struct share {
    zc_workers_fn *run;
    void *task;
    size_t at, n;
    pthread_t thread;
};

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

static void populate(void *memory, size_t at, size_t n)
{
    for (size_t i = at, end = at + n, step; i < end; i += step) {
        step = end - i < HUGE_PAGE ? end - i : HUGE_PAGE;
        if (!zc_workers_reach((char *)memory + i, step, true) && errno == EINVAL) {
            touch(memory, i, end - i); /* The kernel does not know the advice. */
            return;
        }
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

static void *thread_main(void *arg)
{
    const struct share *share = arg;
    share->run(share->task, share->at, share->n);
    return NULL;
}

/* The processors that this process may run on, which respects a container's CPU set. */
size_t zc_workers_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return (size_t)CPU_COUNT(&set);
}

/* glibc keeps 40 MiB of stacks of ended threads.  Unmapping one of the usual 8 MiB interrupts all
 * processors, about 70 us a thread.  So ours are small, unless the process has more thread-local
 * storage than fits. */
bool zc_workers_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(thread, &attr, run, arg);
    if (error == EINVAL)
        error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error == 0;
}

void zc_workers_end(pthread_t thread)
{
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    pthread_join(thread, NULL);
    pthread_setcancelstate(cancelled, NULL);
}

struct aside {
    void (*run)(void *arg);
    void *arg;
    bool done;
};

/* Of <linux/close_range.h> and <asm/unistd.h>, for older headers; all architectures have one
 * number. */
#define CALL_CLOSE_RANGE 436
#define UNSHARE (1u << 1)

/* What is closed here stays open in the table that it was copied from. */
static void *aside_main(void *arg)
{
    struct aside *a = arg;
    a->done = syscall(CALL_CLOSE_RANGE, 0u, ~0u, UNSHARE) == 0;
    if (a->done)
        a->run(a->arg);
    return NULL;
}

bool zc_workers_aside(void (*run)(void *arg), void *arg)
{
    struct aside a = {run, arg, false};
    pthread_t thread;
    if (!zc_workers_start(&thread, aside_main, &a))
        return false;
    zc_workers_end(thread);
    return a.done;
}

/* The caller works too, and does the shares for which no thread could be started. */
void zc_workers_split(zc_workers_fn *run, void *task, size_t n, size_t worth, size_t unit)
{
    struct share shares[ZC_WORKERS_MAX];
    size_t count = n / worth, most = zc_workers_cpus(), started = 0;
    if (count > most)
        count = most;
    if (count > ZC_WORKERS_MAX)
        count = ZC_WORKERS_MAX;
    if (count < 2) {
        run(task, 0, n);
        return;
    }
    size_t step = (n / count + unit - 1) / unit * unit;
    for (size_t at = step; at < n; at += step) {
        struct share *s = &shares[started];
        *s = (struct share){.run = run, .task = task, .at = at, .n = n - at < step ? n - at : step};
        if (!zc_workers_start(&s->thread, thread_main, s)) {
            run(task, at, n - at);
            break;
        }
        started++;
    }
    run(task, 0, step);
    for (size_t i = 0; i < started; i++)
        zc_workers_end(shares[i].thread);
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

/* Does a step.  False if there are none left. */
static bool fill_step(struct zc_fill *f, unsigned who)
{
    /* Before the step is taken, so that zc_workers_filled() never misses it. */
    __atomic_store_n(&f->at[who], __atomic_load_n(&f->next, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
    size_t mine = __atomic_fetch_add(&f->next, f->step, __ATOMIC_SEQ_CST);
    if (mine < f->n)
        f->run(f->memory, mine, f->n - mine < f->step ? f->n - mine : f->step);
    __atomic_store_n(&f->at[who], SIZE_MAX, __ATOMIC_SEQ_CST);
    zc_wait_step(&f->news);
    return mine < f->n;
}

static void *fill_main(void *arg)
{
    struct zc_fill *f = arg;
    unsigned who = 1 + __atomic_fetch_add(&f->turn, 1, __ATOMIC_RELAXED);
    while (fill_step(f, who))
        ;
    return NULL;
}

void zc_workers_fill(struct zc_fill *f, void *memory, size_t n, bool file)
{
    size_t most = zc_workers_cpus();
    most = most < ZC_WORKERS_MAX ? most : ZC_WORKERS_MAX;
    /* Two threads that touch one huge page would clear it twice. */
    size_t step = n / most / 2 / HUGE_PAGE * HUGE_PAGE;
    step = step < HUGE_PAGE ? HUGE_PAGE : step < FILL_STEP_MAX ? step : FILL_STEP_MAX;
    *f =
        (struct zc_fill){.memory = memory, .run = file ? collapse : populate, .n = n, .step = step};
    memset(f->at, 0xff, sizeof(f->at));
    while (f->threads + 1 < most && (f->threads + 1) * step < n &&
           zc_workers_start(&f->thread[f->threads], fill_main, f))
        f->threads++;
}

/* Of what was begun, the first byte that is not there yet. */
static size_t fill_done(const struct zc_fill *f)
{
    size_t least = __atomic_load_n(&f->next, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < ZC_WORKERS_MAX; i++) {
        size_t at = __atomic_load_n(&f->at[i], __ATOMIC_SEQ_CST);
        least = at < least ? at : least;
    }
    return least;
}

void zc_workers_filled(struct zc_fill *f, size_t n)
{
    for (;;) {
        uint32_t before = __atomic_load_n(&f->news, __ATOMIC_SEQ_CST);
        if (fill_done(f) >= n)
            return;
        if (__atomic_load_n(&f->next, __ATOMIC_SEQ_CST) >= n || !fill_step(f, 0))
            zc_wait(&f->news, before);
    }
}

void zc_workers_end_fill(struct zc_fill *f)
{
    __atomic_store_n(&f->next, f->n, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < f->threads; i++)
        zc_workers_end(f->thread[i]);
}

void zc_workers_prefault(void *memory, size_t n, bool file)
{
    struct zc_fill fill;
    zc_workers_fill(&fill, memory, n, file);
    zc_workers_filled(&fill, n);
    zc_workers_end_fill(&fill);
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
