/* SPDX-License-Identifier: MIT */
/* Parts of the random model of growing arrays: contexts and their streams, blocks, and what
 * each page of a block must hold. */
#ifndef TESTS_PRELOAD_GROW_MODEL_H
#define TESTS_PRELOAD_GROW_MODEL_H

#include <stdarg.h>
#include <stdint.h>

#include "dice.h"
#include "program.h"

#define PAGE ((size_t)4096) /* Bytes that the model looks at as one: all have one value. */
#define GRANULARITY ((size_t)2 << 20)
#define SPACES 3  /* Contexts: of device 0, of device 1, and one more of device 0. */
#define STREAMS 4 /* Of a context. */
#define BLOCKS 7
#define MOST 512 /* Pages of the host buffer. */
#define UNKNOWN (-1)

/* Codes of a driver that does not unmap; a block that it does not unmap at its free is lost. */
#define UNMAP_REFUSED CUDA_ERROR_OPERATING_SYSTEM

struct stream {
    CUstream handle;
    int space;
};

struct space {
    CUcontext context;
    int device;
    bool reaches[SPACES];          /* Peer access to what others have. */
    struct stream stream[STREAMS]; /* Legacy, per thread, blocking, independent. */
    CUevent mark;                  /* By which other streams wait for one of these. */
    CUfunction fill, copy;
};

struct block {
    CUdeviceptr at; /* 0 where the slot is free. */
    size_t pages;
    int space;
    short *value;        /* Of each page, or UNKNOWN. */
    struct stream *last; /* Whose work may use it still, or NULL. */
};

/* One call that writes pages of a block. */
struct act {
    enum { SET, IN, COPY, FILL, KERNEL_COPY, ACTS } kind;
    struct block *to, *from;
    size_t at, source, pages;
    int value;
};

static CUcontext primary[2];
static bool alone = true;    /* There is one thread. */
static bool failing, unmaps; /* Driver calls are let fail; those that unmap as well. */
static bool tight;           /* Memory runs out. */
static unsigned limit;       /* Pages of a block at most. */

/* All that follows belongs to one thread. */
static __thread unsigned step, refused;
static __thread int thread_number;
static __thread struct space spaces[SPACES];
static __thread struct block blocks[BLOCKS];
static __thread unsigned char *buffer; /* MOST pages of the host's. */

/* A line that runs of a seed have in common where no call is refused for want of memory. */
__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    printf("%d %u %s\n", thread_number, step, text);
}

static inline int number(const struct block *b)
{
    return (int)(b - blocks);
}

static inline void enter(int space)
{
    CHECK(cuCtxPushCurrent(spaces[space].context));
}

static inline void leave(void)
{
    CUcontext popped;
    CHECK(cuCtxPopCurrent(&popped));
}

/* False for a call that was refused, which leaves the model as it is, and is no fault where memory
 * runs out or calls are let fail. */
static inline bool went(const char *what, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return true;
    say("refused: %s gave %d", what, (int)code);
    EXPECT(failing || (tight && code == CUDA_ERROR_OUT_OF_MEMORY));
    refused++;
    return false;
}

static inline void finish(struct stream *s)
{
    enter(s->space);
    CHECK(cuStreamSynchronize(s->handle));
    leave();
}

/* Puts a stream behind all that was done with a block, and the block into its hands. */
static inline void take(struct stream *s, struct block *b)
{
    struct stream *last = b->last;
    b->last = s;
    if (!last || last == s)
        return;
    if (one_in(4)) {
        finish(last);
        return;
    }
    enter(last->space);
    CHECK(cuEventRecord(spaces[last->space].mark, last->handle));
    leave();
    enter(s->space);
    CHECK(cuStreamWaitEvent(s->handle, spaces[last->space].mark, 0));
    leave();
}

static inline struct block *any_block(void)
{
    struct block *found = NULL;
    unsigned seen = 0;
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && one_in(++seen))
            found = b;
    return found;
}

static inline struct block *free_slot(void)
{
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (!b->at)
            return b;
    return NULL;
}

/* Reads pages and compares those that are known, every byte. */
static inline void compare(struct block *b, size_t at, size_t pages, struct stream *s)
{
    take(s, b);
    enter(s->space);
    CUresult code = cuMemcpyDtoHAsync(buffer, b->at + at * PAGE, pages * PAGE, s->handle);
    CHECK(cuStreamSynchronize(s->handle));
    leave();
    if (!went("a read", code))
        return;
    for (size_t i = 0; i < pages; i++)
        if (b->value[at + i] != UNKNOWN && !all_are(buffer + i * PAGE, b->value[at + i], PAGE)) {
            fprintf(stderr, "thread %d step %u: page %zu of block %d (%zu pages) has %d, not %d\n",
                    thread_number, step, at + i, number(b), b->pages, buffer[i * PAGE],
                    b->value[at + i]);
            exit(1);
        }
}

static inline void compare_all(struct block *b)
{
    struct stream *s = &spaces[b->space].stream[0];
    for (size_t at = 0; at < b->pages; at += MOST)
        compare(b, at, b->pages - at < MOST ? b->pages - at : MOST, s);
}

static inline CUresult make_block(struct block *b, int space, size_t pages)
{
    enter(space);
    CUresult code = cuMemAlloc(&b->at, pages * PAGE);
    leave();
    say("block %d of %zu pages in %d", number(b), pages, space);
    if (!went("cuMemAlloc", code)) {
        b->at = 0;
        return code;
    }
    b->pages = pages;
    b->space = space;
    b->last = NULL;
    b->value = malloc(pages * sizeof(*b->value));
    memset(b->value, 0xff, pages * sizeof(*b->value));
    return code;
}

static inline void forget_block(struct block *b)
{
    free(b->value);
    b->at = 0;
}

/* Frees a block, at once or in the order of a stream. */
static inline void drop_block(struct block *b)
{
    bool ordered = one_in(8);
    struct stream *s = &spaces[b->space].stream[below(STREAMS)];
    CUdeviceptr at = b->at;
    if (ordered)
        take(s, b);
    else if (b->last && b->last->space != b->space)
        finish(b->last);
    enter(b->space);
    CUresult code = ordered ? cuMemFreeAsync(at, s->handle) : cuMemFree(at);
    say("free %d%s", number(b), ordered ? " in order" : "");
    if (went("a free", code) || code == UNMAP_REFUSED)
        forget_block(b);
    if (!b->at && !ordered && alone && one_in(4))
        say("again: %d", (int)cuMemFree(at));
    leave();
}

/* Asks for a call on a stream, whose context is current. */
static inline CUresult issue(const struct act *a, const struct stream *stream)
{
    CUstream s = stream->handle;
    CUdeviceptr to = a->to->at + a->at * PAGE;
    CUdeviceptr from = a->from ? a->from->at + a->source * PAGE : 0;
    size_t bytes = a->pages * PAGE;
    int value = a->value;
    const struct space *space = &spaces[stream->space];
    void *fill_args[] = {&to, &value, &bytes}, *copy_args[] = {&to, &from, &bytes};
    switch (a->kind) {
    case SET:
        return cuMemsetD8Async(to, (unsigned char)value, bytes, s);
    case IN:
        for (size_t i = 0; i < a->pages; i++)
            memset(buffer + i * PAGE, (value + (int)i) & 0xff, PAGE);
        return cuMemcpyHtoDAsync(to, buffer, bytes, s);
    case COPY:
        return one_in(2) ? cuMemcpyDtoDAsync(to, from, bytes, s)
                         : cuMemcpyAsync(to, from, bytes, s);
    case FILL:
        return cuLaunchKernel(space->fill, 1, 1, 1, 1, 1, 1, 0, s, fill_args, NULL);
    default:
        return cuLaunchKernel(space->copy, 1, 1, 1, 1, 1, 1, 0, s, copy_args, NULL);
    }
}

static inline void apply(const struct act *a)
{
    for (size_t i = 0; i < a->pages; i++)
        a->to->value[a->at + i] = a->from         ? a->from->value[a->source + i]
                                  : a->kind == IN ? (short)((a->value + (int)i) & 0xff)
                                                  : (short)a->value;
}

/* A kernel copy(to, from, bytes). */
static inline int copy_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr at = *(CUdeviceptr *)args[0], source = *(CUdeviceptr *)args[1];
    size_t bytes = *(size_t *)args[2];
    char *to = sim_gpu_pointer_write(at);
    const char *from = sim_gpu_pointer(source);
    if (!to || !from || !sim_gpu_pointer_write(at + bytes - 1) ||
        !sim_gpu_pointer(source + bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memmove(to, from, bytes);
    return 0;
}

static inline void furnish(struct space *space, CUcontext context, int device)
{
    static const size_t fill_sizes[] = {8, 4, 8}, copy_sizes[] = {8, 8, 8};
    int index = (int)(space - spaces);
    *space = (struct space){.context = context, .device = device};
    enter(index);
    for (int i = 0; i < STREAMS; i++)
        space->stream[i] = (struct stream){i == 1 ? CU_STREAM_PER_THREAD : NULL, index};
    CHECK(cuStreamCreate(&space->stream[2].handle, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&space->stream[3].handle, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&space->mark, CU_EVENT_DISABLE_TIMING));
    space->fill = load_kernel("fill", fill_grid, 3, fill_sizes);
    space->copy = load_kernel("copy", copy_grid, 3, copy_sizes);
    leave();
}

#endif
