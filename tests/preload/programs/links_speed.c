/* SPDX-License-Identifier: MIT */
/* Times copies between pinned memory and the first GPU, through the driver API:
 * links_speed WHAT [MIB].  Prints lines "NAME VALUE"; GB/s, but for milliseconds of `first_ms`.
 * Exits with 77 where there is no GPU, and with 1 if a byte is wrong.
 *
 *   copy    calls that wait: to the GPU and from it; the first of them, which may have to make what
 *           the others use
 *   queued  calls in a stream, eight of them, until all are done
 *   beside  as `copy`, while a second GPU of the program copies as well: both rates, and that one's
 *           alone */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define DRIVER(X)                                                                                  \
    COMMON_CALLS(X)                                                                                \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemsetD8_v2)                                                                               \
    X(cuMemcpyHtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)

#include "speed.h"

#define ROUNDS 9
#define QUEUED 8

static size_t bytes;

struct pair {
    CUdeviceptr device;
    uint64_t *host;
};

static struct pair make_pair(uint64_t seed)
{
    struct pair p;
    CHECK(cuMemAlloc_v2, &p.device, bytes);
    CHECK(cuMemHostAlloc, (void **)&p.host, bytes, 0);
    for (size_t i = 0; i < bytes / 8; i++)
        p.host[i] = (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
    return p;
}

/* Milliseconds that a copy takes. */
static double time_in(const struct pair *p)
{
    double start = now();
    CHECK(cuMemcpyHtoD_v2, p->device, p->host, bytes);
    return now() - start;
}

static double time_out(const struct pair *p)
{
    double start = now();
    CHECK(cuMemcpyDtoH_v2, p->host, p->device, bytes);
    return now() - start;
}

static double rate(double ms)
{
    return (double)bytes / ms * 1e-6;
}

/* Every word came back as it went. */
static void verify(const struct pair *p, uint64_t seed)
{
    memset(p->host, 0, bytes);
    time_out(p);
    for (size_t i = 0; i < bytes / 8; i++)
        if (p->host[i] != (i + seed) * UINT64_C(0x9e3779b97f4a7c15)) {
            fprintf(stderr, "word %zu is wrong\n", i);
            exit(1);
        }
}

static void copy(void)
{
    double in[ROUNDS], out[ROUNDS];
    struct pair p = make_pair(1);
    printf("first_ms %.3f\n", time_in(&p));
    for (int i = 0; i < ROUNDS; i++) {
        in[i] = time_in(&p);
        out[i] = time_out(&p);
    }
    printf("in %.2f\nout %.2f\n", rate(median(in, ROUNDS)), rate(median(out, ROUNDS)));
    CHECK(cuMemsetD8_v2, p.device, 0, bytes);
    time_in(&p);
    verify(&p, 1);
}

static double time_queued(const struct pair *p, CUstream stream, bool in)
{
    double start = now();
    for (int i = 0; i < QUEUED; i++)
        if (in)
            CHECK(cuMemcpyHtoDAsync_v2, p->device, p->host, bytes, stream);
        else
            CHECK(cuMemcpyDtoHAsync_v2, p->host, p->device, bytes, stream);
    CHECK(cuStreamSynchronize, stream);
    return (now() - start) / QUEUED;
}

static void queued(void)
{
    double in[ROUNDS], out[ROUNDS];
    CUstream stream;
    struct pair p = make_pair(2);
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    time_queued(&p, stream, true);
    for (int i = 0; i < ROUNDS; i++) {
        in[i] = time_queued(&p, stream, true);
        out[i] = time_queued(&p, stream, false);
    }
    printf("in %.2f\nout %.2f\n", rate(median(in, ROUNDS)), rate(median(out, ROUNDS)));
    verify(&p, 2);
}

/* The second GPU's copies, as a thread makes them until it is told to stop. */
static struct {
    int stop;
    double ms;
    unsigned copies;
} other;

static void *copy_beside(void *arg)
{
    CUcontext context;
    (void)arg;
    CHECK(cuDevicePrimaryCtxRetain, &context, 1);
    CHECK(cuCtxSetCurrent, context);
    struct pair p = make_pair(3);
    double start = now();
    while (!__atomic_load_n(&other.stop, __ATOMIC_ACQUIRE)) {
        time_in(&p);
        __atomic_fetch_add(&other.copies, 1, __ATOMIC_RELEASE);
    }
    other.ms = now() - start;
    verify(&p, 3);
    return NULL;
}

static void beside(void)
{
    double in[ROUNDS];
    pthread_t thread;
    struct pair p = make_pair(1);
    for (int with = 0; with < 2; with++) {
        __atomic_store_n(&other.stop, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&other.copies, 0, __ATOMIC_RELEASE);
        pthread_create(&thread, NULL, copy_beside, NULL);
        while (__atomic_load_n(&other.copies, __ATOMIC_ACQUIRE) < (with ? 2 : 8 * ROUNDS))
            ;
        for (int i = 0; i < ROUNDS * 8 && with; i++)
            in[i % ROUNDS] = time_in(&p);
        __atomic_store_n(&other.stop, 1, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        printf("other_%s %.2f\n", with ? "beside" : "alone", rate(other.ms / other.copies));
    }
    printf("in %.2f\n", rate(median(in, ROUNDS)));
    verify(&p, 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } whats[] = {{"copy", copy}, {"queued", queued}, {"beside", beside}};
    bytes = (size_t)(argc > 2 ? atol(argv[2]) : 64) << 20;
    start_driver();
    for (size_t i = 0; argc > 1 && i < sizeof(whats) / sizeof(*whats); i++)
        if (!strcmp(argv[1], whats[i].name)) {
            whats[i].run();
            return 0;
        }
    fprintf(stderr, "links_speed copy|queued|beside [MIB]\n");
    return 2;
}
