/* SPDX-License-Identifier: MIT */
/*
 * Stress: for ZC_STRESS_SECONDS (2) sixteen threads take, use, resize and free blocks of the host
 * heap while others trim its pool, contexts go, and children are forked that use what they
 * inherited.  Meant for ThreadSanitizer and helgrind as well, which must have nothing to report.
 */
#include "../unit/host_test.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "base/path.h"

#define THREADS 16
#define BLOCKS 16 /* Of a thread. */

struct worker {
    pthread_t thread;
    uint64_t random;     /* State of its numbers. */
    unsigned faults;     /* Wrong results. */
    char *block[BLOCKS]; /* Its blocks, or NULL. */
    size_t size[BLOCKS];
};

static struct worker workers[THREADS];
static struct timespec deadline;
static int registered; /* Registrations that stand; atomic. */

static CUresult CUDAAPI get_current(CUcontext *context)
{
    *context = (CUcontext)0x1000;
    return CUDA_SUCCESS;
}

static __thread CUstreamCaptureMode mode;

static CUresult CUDAAPI exchange(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI do_register(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)flags;
    return __atomic_add_fetch(&registered, 1, __ATOMIC_RELAXED) % 7 && bytes
               ? CUDA_SUCCESS
               : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI do_unregister(void *p)
{
    (void)p;
    return CUDA_SUCCESS;
}

static uint64_t draw(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

/* The ends of a block tell whose it is. */
static void mark(struct worker *w, unsigned i)
{
    w->block[i][0] = w->block[i][w->size[i] - 1] = (char)(w - workers);
}

static void look(struct worker *w, unsigned i, size_t size)
{
    w->faults += w->block[i][0] != (char)(w - workers) ||
                 (size == w->size[i] && w->block[i][size - 1] != (char)(w - workers));
}

static size_t draw_size(struct worker *w)
{
    return draw(w) % 4 ? 65536 + draw(w) % 300000 : draw(w) % (6 * MIB) + 65536;
}

static void resize(struct worker *w, unsigned i)
{
    const struct zc_hostmem_request ask = {
        .api = ZC_API_realloc, .size = draw_size(w), .alignment = 1};
    char *p = zc_hostmem_resize(w->block[i], &ask);
    if (!p)
        return;
    w->block[i] = p;
    look(w, i, ask.size < w->size[i] ? ask.size : w->size[i]);
    w->size[i] = ask.size;
    mark(w, i);
}

static void step(struct worker *w)
{
    unsigned i = draw(w) % BLOCKS;
    if (!w->block[i]) {
        w->size[i] = draw_size(w);
        w->block[i] = host_get(w->size[i]);
        if (w->block[i])
            mark(w, i);
        return;
    }
    look(w, i, w->size[i]);
    switch (draw(w) % 8) {
    case 0:
        resize(w, i);
        break;
    case 1:
        zc_pinned_trim(false);
        break;
    case 2:
        if (draw(w) % 64 == 0)
            zc_module_pinned.context_lost((CUcontext)0x1000);
        break;
    case 3:
    case 4:
        zc_pinned_use(zc_hostheap_extent((uintptr_t)w->block[i]), w->size[i]);
        w->faults +=
            zc_hostheap_block((uintptr_t)w->block[i] + w->size[i] - 1) != (uintptr_t)w->block[i];
        break;
    default:
        zc_hostmem_put(w->block[i]);
        w->block[i] = NULL;
    }
}

/* The child has this thread and its blocks. */
static void in_child(struct worker *w)
{
    unsigned before = w->faults;
    for (unsigned i = 0; i < 4 * BLOCKS; i++) {
        unsigned b = i % BLOCKS;
        if (w->block[b]) {
            look(w, b, w->size[b]);
            zc_hostmem_put(w->block[b]);
        }
        w->size[b] = draw_size(w);
        w->block[b] = host_get(w->size[b]);
        if (w->block[b])
            mark(w, b);
    }
    _exit(w->faults != before);
}

static void try_fork(struct worker *w)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        in_child(w);
    w->faults += child > 0 && (waitpid(child, &status, 0) != child || status != 0);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    struct timespec now;
    do {
        if (draw(w) % 4 == 0)
            try_fork(w);
        for (int i = 0; i < 200; i++)
            step(w);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < deadline.tv_sec);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (w->block[i])
            zc_hostmem_put(w->block[i]);
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
    const char *seconds = getenv("ZC_STRESS_SECONDS");
    (void)state;
    host_policy("[defaults]\nmax_pinned = 200M\n"
                "[rule all]\napi = malloc, realloc\nplace = pinned\n");
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuMemHostRegister_v2 = do_register;
    zc_real.cuMemHostUnregister = do_unregister;
    zc_real.cuThreadExchangeStreamCaptureMode = exchange;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += seconds ? atoi(seconds) : 2;
    zc_hostmem_put(host_get(MIB));
    zc_log_program(); /* Known from libzc's start on, which there is none of here. */
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = 0x9e3779b97f4a7c15u * (unsigned)(i + 1);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].faults, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_do_not_disturb_each_other)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
