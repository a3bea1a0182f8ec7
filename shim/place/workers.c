/* Short-lived threads for work on large ranges: one core moves 9 GB/s, the link 55. */
#include "place/workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WORKERS_MAX 16
#define WORTH_A_THREAD                                                                             \
    ((size_t)4 << 20) /* Starting a thread costs about what copying 128 KiB does. */

/* <linux/mman.h> of Linux 5.14. */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

enum job { COPY, TOUCH, ZERO };

struct share {
    enum job job;
    char *dst;
    const char *src; /* COPY only. */
    size_t n;
    pthread_t thread;
};

static void work(const struct share *share)
{
    switch (share->job) {
    case COPY:
        memcpy(share->dst, share->src, share->n);
        break;
    case ZERO:
        memset(share->dst, 0, share->n);
        break;
    case TOUCH:
        for (size_t i = 0; i < share->n; i += 4096)
            ((volatile char *)share->dst)[i] = 0;
        break;
    }
}

static void *thread_main(void *arg)
{
    work(arg);
    return NULL;
}

/* Threads that this process may run on, so that a container's CPU set is kept. */
size_t zc_workers_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return (size_t)CPU_COUNT(&set);
}

/* The caller works too, and does what no thread could be started for.  Signals are blocked while
 * threads start, because a program's handlers must not run in a thread that it does not know. */
static void split(enum job job, char *dst, const char *src, size_t n)
{
    struct share shares[WORKERS_MAX];
    size_t count = n / WORTH_A_THREAD, most = zc_workers_cpus(), started = 0;
    sigset_t all, old;
    if (count > most)
        count = most;
    if (count > WORKERS_MAX)
        count = WORKERS_MAX;
    if (count < 2) {
        work(&(struct share){.job = job, .dst = dst, .src = src, .n = n});
        return;
    }
    size_t step = (n / count + 4095) & ~(size_t)4095;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    for (size_t at = step; at < n; at += step) {
        struct share *s = &shares[started];
        *s = (struct share){.job = job,
                            .dst = dst + at,
                            .src = src ? src + at : NULL,
                            .n = n - at < step ? n - at : step};
        if (pthread_create(&s->thread, NULL, thread_main, s) != 0) {
            s->n = n - at;
            work(s);
            break;
        }
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    work(&(struct share){.job = job, .dst = dst, .src = src, .n = step});
    for (size_t i = 0; i < started; i++)
        pthread_join(shares[i].thread, NULL);
}

void zc_workers_copy(void *dst, const void *src, size_t n)
{
    split(COPY, dst, src, n);
}

void zc_workers_touch(void *memory, size_t n)
{
    split(TOUCH, memory, NULL, n);
}

void zc_workers_zero(void *memory, size_t n)
{
    split(ZERO, memory, NULL, n);
}

bool zc_workers_reach(void *memory, size_t n, bool write)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)memory & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + n + page - 1) & ~(page - 1);
    return madvise((void *)first, end - first, write ? POPULATE_WRITE : POPULATE_READ) == 0;
}
