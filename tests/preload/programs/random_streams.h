/* SPDX-License-Identifier: MIT */
/* Streams of the random program: kernels, events, and streams that a gate holds. */
#ifndef RANDOM_STREAMS_H
#define RANDOM_STREAMS_H

#include "random_copies.h"

static inline void load_kernels(void)
{
    static const size_t sizes[] = {8, 8, 8, 4};
    CUmodule module;
    sim_kernel_register("mix", mix_grid, 4, sizes);
    sim_kernel_register("make", make_grid, 3, sizes + 1);
    for (int i = 0; i < DEVICES; i++) {
        enter(i);
        CHECK(cuModuleLoadData(&module, ""));
        CHECK(cuModuleGetFunction(&mix_kernel[i], module, "mix"));
        CHECK(cuModuleGetFunction(&make_kernel[i], module, "make"));
        leave();
    }
}

/* Blocks that kernels of the current device reach without peer access. */
static inline bool kernel_reaches(const struct block *b)
{
    return !b->held && !pageable(b) && b->kind != REGISTERED && b->kind != MANAGED &&
           b->device == current;
}

static inline bool kernel_takes(const struct block *b)
{
    return kernel_reaches(b) || (!b->held && b->device == current && b->kind == MANAGED) ||
           (!b->held && b->device == current && b->kind == REGISTERED);
}

static inline bool kernel_writes(const struct block *b)
{
    return !reads_only || b->kind != DEVICE;
}

static inline void launch_on(struct stream *s)
{
    struct block *a = pick(kernel_takes), *b = pick(kernel_takes);
    if (!kernels || !a || !b || a == b || !kernel_writes(a))
        return;
    CUdeviceptr to = address(a, 0), from = address(b, 0);
    size_t most = a->bytes < b->bytes ? a->bytes : b->bytes, n = 1 + below(most);
    int k = (int)below(256);
    unsigned grid = one_in(2) ? (unsigned)(b->bytes / 16) + 1 : 1; /* As if it read all of b. */
    void *args[] = {&to, &from, &n, &k};
    take(s, a);
    take(s, b);
    say("mix %d, %d, %zu: %d", (int)(a - blocks), (int)(b - blocks), n,
        (int)cuLaunchKernel(mix_kernel[current], grid, 1, 1, 1, 1, 1, 0, s->handle, args, NULL));
    if (!gated && one_in(3))
        show_content("mix:", a);
}

static inline void launch(void)
{
    launch_on(any_stream());
}

static inline void wait_event(void)
{
    struct stream *s = any_stream(), *t = any_stream();
    CUevent event;
    CHECK(cuEventCreate(&event, below(2) ? CU_EVENT_DISABLE_TIMING : 0));
    say("record: %d", (int)cuEventRecord(event, s->handle));
    say("wait: %d", (int)cuStreamWaitEvent(t->handle, event, 0));
    if (one_in(2)) {
        say("synchronize: %d", (int)cuEventSynchronize(event));
        say("query: %d", (int)cuEventQuery(event));
    }
    say("destroy: %d", (int)cuEventDestroy(event));
}

static inline bool pinned_free(const struct block *b)
{
    return pinned(b) && !b->held;
}

/* One asynchronous call that CUDA makes without waiting. */
static inline void step_behind_gate(struct stream *s)
{
    struct block *d = pick(kernel_reaches), *h = pick(pinned_free);
    if (one_in(3) || !d || !on_device(d) || !h) {
        launch_on(s);
        return;
    }
    take(s, d);
    if (one_in(2)) {
        say("held set: %d", (int)cuMemsetD8Async(address(d, 0), 7, d->bytes / 2 + 1, s->handle));
        return;
    }
    size_t n = d->bytes < h->bytes ? d->bytes : h->bytes;
    take(s, h);
    say("held copy %d, %d: %d", (int)(d - blocks), (int)(h - blocks),
        (int)(one_in(2) ? cuMemcpyHtoDAsync(address(d, 0), h->at, n, s->handle)
                        : cuMemcpyDtoHAsync(h->at, address(d, 0), n, s->handle)));
}

/* A gate that opens by itself after some time, so that a wait shows instead of lasting for ever. */
struct slow_gate {
    atomic_int open, late;
};

static inline void CUDA_CB slow_gate_wait(void *gate)
{
    struct slow_gate *g = gate;
    for (int i = 0; !atomic_load(&g->open); i++, usleep(100))
        if (i == 200000) {
            atomic_store(&g->late, 1);
            return;
        }
}

static inline void gate_a_stream(void)
{
    struct stream *s = any_stream();
    struct slow_gate gate = {!gates, 0};
    CUevent event;
    if (!awaits_cpu)
        return;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(synchronize_context());
    say("gate on %d: %d", (int)(s - streams),
        (int)cuLaunchHostFunc(s->handle, slow_gate_wait, &gate));
    gated = true;
    for (unsigned i = 1 + below(4); i > 0; i--)
        step_behind_gate(s);
    CHECK(cuEventRecord(event, s->handle));
    if (gates)
        say("held stream: %d, event: %d", (int)cuStreamQuery(s->handle), (int)cuEventQuery(event));
    atomic_store(&gate.open, 1);
    gated = false;
    CHECK(cuStreamSynchronize(s->handle));
    say("late %d, event: %d", atomic_load(&gate.late), (int)cuEventQuery(event));
    CHECK(cuEventDestroy(event));
}

static inline bool word_sized(const struct block *b)
{
    return b->bytes >= 64 && kernel_reaches(b);
}

static inline void write_value(void)
{
    struct block *b = pick(word_sized);
    struct stream *s = any_stream();
    if (!b || !values)
        return;
    take(s, b);
    CUresult code = cuStreamWriteValue32(s->handle, address(b, 8), below(1u << 31), 0);
    say("write value %d: %d", (int)(b - blocks), (int)code);
    if (code == CUDA_SUCCESS) /* Else the wait might not end. */
        say("wait value: %d",
            (int)cuStreamWaitValue32(s->handle, address(b, 8), 0, CU_STREAM_WAIT_VALUE_GEQ));
    show_content("value:", b);
}

static inline void synchronize(void)
{
    say("synchronize: %d", (int)synchronize_context());
}

/* A stream is destroyed behind its work, and another one takes its place. */
static inline void renew_stream(void)
{
    struct stream *s = legacy(current) + 2 + (int)below(2);
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && b->last == s) {
            b->implied = true;
            take(legacy(current), b);
        }
    say("destroy stream %d: %d", (int)(s - streams), (int)cuStreamDestroy(s->handle));
    CHECK(cuStreamCreate(&s->handle, s->blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

static inline void switch_device(void)
{
    current = (int)below(DEVICES);
    say("device %d: %d", current, (int)cuCtxSetCurrent(contexts[current]));
}

#endif
