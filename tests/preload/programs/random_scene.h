/* SPDX-License-Identifier: MIT */
/* Parts of the random program: dice, blocks, streams, and the order that keeps every one of
 * its steps defined: before a stream touches a block it waits for the stream that touched it last,
 * and the CPU waits before it touches memory that a stream may use. */
#ifndef RANDOM_SCENE_H
#define RANDOM_SCENE_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>

#include "dice.h"
#include "program.h"

#define DEVICES 2
#define BLOCKS 22
#define STREAMS_OF_DEVICE 4
#define THREADS 2

enum kind {
    DEVICE,
    PITCHED,
    MANAGED,
    ASYNC,
    POOLED, /* Of the device. */
    OWN,    /* Mapped by the program itself. */
    HOST_ALLOC,
    MALLOC_HOST,
    REGISTERED, /* Pinned. */
    HEAP,
    FIXED,
    STACK,
    MAPPED_FILE, /* Pageable. */
    KINDS
};

struct stream {
    CUstream handle;
    int device;
    bool blocking; /* In order with the legacy stream of its device. */
    bool legacy;
};

struct block {
    char *at; /* NULL where the slot is free. */
    enum kind kind;
    size_t bytes;
    int device;          /* Its own; of a host block the one that it was made under. */
    struct stream *last; /* Whose work may use it still, or NULL. */
    bool implied;        /* It may have done nothing, and is in order with one that has. */
    int held;            /* Graphs that use it. */
};

static CUcontext contexts[DEVICES];
static CUmemoryPool own_pool; /* Of device 0. */
static int threads = 1;
static bool gates = true;      /* Whether streams are held until the program has gone on. */
static bool awaits_cpu = true; /* Whether streams may wait for the CPU. */
static bool reads_only;        /* Kernels write no block of cuMemAlloc. */

/* Waiting for a context ends the captures in it, also another thread's. */
static pthread_mutex_t capturing = PTHREAD_MUTEX_INITIALIZER;

static inline CUresult synchronize_context(void)
{
    pthread_mutex_lock(&capturing);
    CUresult result = cuCtxSynchronize();
    pthread_mutex_unlock(&capturing);
    return result;
}

/* All that follows belongs to one thread. */
static __thread int thread_number;
static __thread unsigned step;
static __thread struct stream streams[DEVICES * STREAMS_OF_DEVICE];
static __thread struct block blocks[BLOCKS];
static __thread CUevent marks[DEVICES]; /* Events by which one stream waits for another. */
static __thread CUfunction mix_kernel[DEVICES], make_kernel[DEVICES];
static __thread int current;  /* The device whose context is current. */
static __thread bool gated;   /* A stream is held: nothing may wait on the CPU. */
static __thread bool kernels; /* Whether this run launches any. */
static __thread bool values;  /* Whether it writes values, which managed memory does not take. */
static __thread char *stack_memory;

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    flockfile(stdout);
    printf("%d %u ", thread_number, step);
    vprintf(format, list);
    putchar('\n');
    funlockfile(stdout);
    va_end(list);
}

/* State of a thread that calls may have borrowed and not given back. */
static inline void tell_thread(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUcontext context = NULL;
    sigset_t signals;
    int cancel = -1;
    CHECK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(cuCtxGetCurrent(&context));
    pthread_sigmask(SIG_BLOCK, NULL, &signals);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL || cancel != PTHREAD_CANCEL_ENABLE)
        say("capture mode %d, cancel state %d", (int)mode, cancel);
    if (context != contexts[current] || !sigisemptyset(&signals))
        say("another context or signals");
}

static inline bool on_device(const struct block *b)
{
    return b->kind <= OWN;
}

static inline bool pinned(const struct block *b)
{
    return b->kind >= HOST_ALLOC && b->kind <= REGISTERED;
}

static inline bool pageable(const struct block *b)
{
    return b->kind >= HEAP;
}

static inline CUdeviceptr address(const struct block *b, size_t offset)
{
    return (CUdeviceptr)(uintptr_t)b->at + offset;
}

static inline struct stream *legacy(int device)
{
    return &streams[device * STREAMS_OF_DEVICE];
}

/* A stream of the current device. */
static inline struct stream *any_stream(void)
{
    return &streams[current * STREAMS_OF_DEVICE + (int)below(STREAMS_OF_DEVICE)];
}

static inline void enter(int device)
{
    CHECK(cuCtxPushCurrent(contexts[device]));
}

static inline void leave(void)
{
    CUcontext popped;
    CHECK(cuCtxPopCurrent(&popped));
}

static inline void finish(struct stream *s)
{
    enter(s->device);
    CHECK(cuStreamSynchronize(s->handle));
    leave();
}

/* The CPU waits for what streams do with a block. */
static inline void settle(struct block *b)
{
    if (b->last)
        finish(b->last);
    if (b->last && b->implied)
        finish(legacy(b->last->device));
    b->last = NULL;
}

static inline bool ordered(const struct stream *a, const struct stream *b)
{
    return a == b ||
           (a->device == b->device && ((a->legacy && b->blocking) || (b->legacy && a->blocking)));
}

/* Puts a stream behind all that was done with a block, and the block into its hands. */
static inline void take(struct stream *s, struct block *b)
{
    struct stream *last = b->last;
    if (last && !ordered(last, s) && !gated && one_in(3)) {
        settle(b);
        last = NULL;
    }
    /* A stream that may have done nothing puts nothing in order with a third one. */
    bool behind = last && (last == s || (!b->implied && ordered(last, s)));
    b->implied = behind && (last != s || b->implied);
    b->last = s;
    if (!last || behind)
        return;
    enter(last->device);
    CHECK(cuEventRecord(marks[last->device], last->handle));
    leave();
    enter(s->device);
    CHECK(cuStreamWaitEvent(s->handle, marks[last->device], 0));
    leave();
}

static inline unsigned long long checksum(const void *memory, size_t bytes)
{
    const unsigned char *p = memory;
    unsigned long long sum = 14695981039346656037ull;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        sum = (sum ^ word) * 1099511628211ull;
        sum ^= sum >> 29;
    }
    for (; bytes > 0; p++, bytes--)
        sum = (sum ^ *p) * 1099511628211ull;
    return sum;
}

static inline void scribble(void *memory, size_t bytes)
{
    unsigned char *p = memory;
    uint64_t x = dice | 1;
    for (size_t i = 0; i < bytes; i += sizeof(x)) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(p + i, &x, bytes - i < sizeof(x) ? bytes - i : sizeof(x));
    }
    below(2);
}

/* Prints what a block holds. */
static inline void show_content(const char *what, struct block *b)
{
    static char memory[THREADS][8 << 20];
    char *read_back = memory[thread_number];
    if (!b->at)
        return;
    int code = 0;
    settle(b);
    if (on_device(b))
        code = (int)cuMemcpyDtoH(read_back, address(b, 0), b->bytes);
    say("%s block %d kind %d holds %016llx (%d)", what, (int)(b - blocks), (int)b->kind,
        code ? 0 : checksum(on_device(b) ? read_back : b->at, b->bytes), code);
}

/* A random live block that `fits`, or NULL. */
static inline struct block *pick(bool (*fits)(const struct block *))
{
    unsigned first = below(BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct block *b = &blocks[(first + i) % BLOCKS];
        if (b->at && (!fits || fits(b)))
            return b;
    }
    return NULL;
}

/* A kernel mix(to, from, bytes, k): to[i] = 3 * to[i] + from[i] + k. */
static inline int mix_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr to_at = *(CUdeviceptr *)args[0], from_at = *(CUdeviceptr *)args[1];
    size_t bytes = *(size_t *)args[2];
    unsigned char *to = sim_gpu_pointer_write(to_at), *from = sim_gpu_pointer(from_at);
    if (!to || !from || !sim_gpu_pointer_write(to_at + bytes - 1) ||
        !sim_gpu_pointer(from_at + bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    const int k = *(int *)args[3];
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(3 * to[i] + from[i] + k);
    return 0;
}

/* A kernel make(to, bytes, k): to[i] = i / 64 + k. */
static inline int make_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr at = *(CUdeviceptr *)args[0];
    size_t bytes = *(size_t *)args[1];
    unsigned char *to = sim_gpu_pointer_write(at);
    if (!to || !sim_gpu_pointer_write(at + bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(i / 64 + (size_t) * (int *)args[2]);
    return 0;
}

#endif
