/* SPDX-License-Identifier: MIT */
/* grow_model SEED [STEPS [MODE [PAGES [THREADS]]]], or grow_model many, as rounds.h says: a
 * program that grows arrays at random, beside a
 * plain record of what each page of them must hold: every byte that it reads must be that one.
 * MODE is any of the letters t: memory may run out, f: calls of the driver are let fail, and u:
 * those that unmap as well; a call that is refused then has changed nothing.  Prints what was asked
 * and told, one line each, and at the end how many calls were refused. */
#include <pthread.h>

#include "grow_model.h"
#include "rounds.h"

static size_t any_pages(void)
{
    return 1 + below(limit);
}

/* A part of a block, often all of it or its beginning. */
static void any_part(const struct block *b, size_t *at, size_t *pages)
{
    *at = one_in(2) ? 0 : below(b->pages);
    *pages = one_in(3) ? b->pages - *at : 1 + below(b->pages - *at);
}

/* The context of a call on a block: mostly its own. */
static int any_space(const struct block *b)
{
    return one_in(8) ? (int)below(SPACES) : b->space;
}

/* Fills an act on random blocks; false where there is none that CUDA defines. */
static bool choose(struct act *a, bool captured)
{
    *a = (struct act){.kind = (int)below(ACTS), .to = any_block(), .value = (int)below(256)};
    if (!a->to || (captured && a->kind == IN))
        return false;
    any_part(a->to, &a->at, &a->pages);
    if (a->kind == IN)
        a->pages = a->pages < MOST ? a->pages : MOST;
    if (a->kind != COPY && a->kind != KERNEL_COPY)
        return true;
    a->from = any_block();
    size_t room = a->from->pages;
    if (a->from == a->to || (a->kind == KERNEL_COPY && a->from->space != a->to->space))
        return false;
    a->source = one_in(2) ? 0 : below(room);
    a->pages = a->pages < room - a->source ? a->pages : room - a->source;
    return true;
}

static void do_act(struct act *a, int space)
{
    static const char *const names[] = {"set", "copy in", "copy", "fill", "kernel copy"};
    bool kernel = a->kind == FILL || a->kind == KERNEL_COPY;
    const struct space *mine = &spaces[a->to->space];
    if (kernel && !spaces[space].reaches[a->to->space])
        space = a->to->space;
    if (a->kind == SET && spaces[space].device != mine->device)
        space = a->to->space;
    struct stream *s = &spaces[space].stream[one_in(2) ? 0 : below(STREAMS)];
    take(s, a->to);
    if (a->from)
        take(s, a->from);
    say("%s %zu pages to %d+%zu from %d+%zu by %d", names[a->kind], a->pages, number(a->to), a->at,
        a->from ? number(a->from) : -1, a->source, space);
    enter(space);
    CUresult code = issue(a, s);
    leave();
    if (went("an act", code))
        apply(a);
}

static void act(void)
{
    struct act a;
    if (choose(&a, false))
        do_act(&a, any_space(a.to));
}

static void read_some(void)
{
    struct block *b = any_block();
    size_t at, pages;
    if (!b)
        return;
    any_part(b, &at, &pages);
    compare(b, at, pages < MOST ? pages : MOST, &spaces[any_space(b)].stream[below(STREAMS)]);
}

static void make_or_drop(void)
{
    struct block *b = &blocks[below(BLOCKS)];
    if (b->at)
        drop_block(b);
    else
        make_block(b, (int)below(SPACES), any_pages());
}

static void few_steps(void);

static size_t grown(size_t pages)
{
    size_t more;
    switch (below(4)) {
    case 0:
        more = pages + 256;
        break;
    case 1:
        more = pages + pages / 2;
        break;
    case 2:
        more = pages - below(pages / 4 + 1);
        break; /* Less: it may still be the same memory. */
    default:
        more = 2 * pages;
    }
    return more < 4 * limit ? more : any_pages();
}

/* An array grows as programs let it: a larger block, a copy, and the old one is freed, with other
 * things in between. */
static void grow(void)
{
    struct block *old = any_block(), *new = free_slot();
    if (!old || !new ||
        make_block(new, one_in(8) ? (int)below(SPACES) : old->space, grown(old->pages)) !=
            CUDA_SUCCESS)
        return;
    few_steps();
    if (!old->at || !new->at)
        return;
    size_t most = old->pages < new->pages ? old->pages : new->pages;
    struct act a = {.kind = COPY, .to = new, .from = old, .pages = most};
    if (one_in(6))
        a.pages = 1 + below(most);
    if (one_in(12))
        a.at = below(new->pages - a.pages + 1);
    if (one_in(12))
        a.source = below(old->pages - a.pages + 1);
    if (one_in(2) && old->last) {
        finish(old->last);
        old->last = NULL;
    }
    do_act(&a, any_space(new));
    if (one_in(3)) { /* Bytes that a pending copy must not show. */
        a = (struct act){.kind = one_in(2) ? SET : IN, .to = one_in(2) ? old : new, .value = 1};
        any_part(a.to, &a.at, &a.pages);
        a.pages = a.pages < MOST ? a.pages : MOST;
        do_act(&a, a.to->space);
    }
    few_steps();
    if (one_in(8) && new->at)
        drop_block(new);
    else if (!one_in(8) && old->at)
        drop_block(old);
    few_steps();
    if (one_in(4) && new->at)
        compare_all(new);
}

/* Works of one stream that become a graph, launched once or twice. */
static void graph(void)
{
    struct act acts[3];
    unsigned count = 0;
    CUgraph made = NULL;
    CUgraphExec exec;
    int space = (int)below(SPACES);
    struct stream *s = &spaces[space].stream[2 + below(2)];
    CUstreamCaptureMode mode =
        one_in(2) ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
    for (int i = 0; i < 3; i++)
        if (choose(&acts[count], true) && acts[count].to->space == space &&
            (!acts[count].from || acts[count].from->space == space))
            count++;
    for (unsigned i = 0; i < count; i++) {
        take(s, acts[i].to);
        if (acts[i].from)
            take(s, acts[i].from);
    }
    if (!alone || !count)
        return;
    enter(space);
    bool begun = went("a capture", cuStreamBeginCapture(s->handle, mode)), whole = begun;
    for (unsigned i = 0; i < count && whole; i++)
        whole = went("a captured act", issue(&acts[i], s));
    if (begun && went("the end of a capture", cuStreamEndCapture(s->handle, &made)) && whole &&
        went("instantiating", cuGraphInstantiate(&exec, made, 0))) {
        for (int run = 0; run < 2; run++)
            if (went("a graph", cuGraphLaunch(exec, s->handle)))
                for (unsigned i = 0; i < count; i++)
                    apply(&acts[i]);
        CHECK(cuGraphExecDestroy(exec));
    }
    if (made)
        CHECK(cuGraphDestroy(made));
    leave();
    say("graph of %u", count);
}

static void wait_or_query(void)
{
    struct space *space = &spaces[below(SPACES)];
    enter((int)(space - spaces));
    if (one_in(2))
        CHECK(cuCtxSynchronize());
    else
        cuStreamQuery(space->stream[below(STREAMS)].handle);
    leave();
}

/* Free memory by the device and by the model; granules and memory attached early are apart. */
static void ask_memory(void)
{
    size_t available, total, least = 0, most = 0;
    struct space *space = &spaces[below(SPACES)];
    for (int i = 0; i < SPACES; i++) {
        enter(i);
        CHECK(cuCtxSynchronize());
        leave();
    }
    enter((int)(space - spaces));
    CUresult code = cuMemGetInfo(&available, &total);
    leave();
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && spaces[b->space].device == space->device) {
            least += b->pages * PAGE;
            most += (b->pages * PAGE + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
        }
    if (!went("cuMemGetInfo", code) || !alone)
        return;
    EXPECT(total - available >= (least < total ? least : total)); /* Some may lie elsewhere. */
    EXPECT(unmaps || total - available <= most + total / 256 + GRANULARITY);
}

static void ask(void)
{
    struct block *b = any_block();
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned type = 0;
    if (!b)
        return;
    CUdeviceptr at = b->at + below(b->pages) * PAGE;
    enter(b->space);
    CUresult code = cuMemGetAddressRange(&base, &bytes, at);
    if (went("cuMemGetAddressRange", code))
        EXPECT(base == b->at && bytes == b->pages * PAGE);
    code = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);
    if (went("cuPointerGetAttribute", code))
        EXPECT(type == CU_MEMORYTYPE_DEVICE);
    unsigned long long id = 0;
    code = cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
    if (went("cuPointerGetAttribute", code))
        EXPECT(id != 0);
    leave();
}

/* Peer access between the devices, which lets kernels of the one use blocks of the other. */
static void change_peers(void)
{
    int user = (int)below(2), owner = 1 - user;
    struct space *space = &spaces[user];
    if (!alone)
        return;
    for (int i = 0; i < SPACES; i++) {
        enter(i);
        CHECK(cuCtxSynchronize());
        leave();
    }
    enter(user);
    CUresult code = space->reaches[owner] ? cuCtxDisablePeerAccess(spaces[owner].context)
                                          : cuCtxEnablePeerAccess(spaces[owner].context, 0);
    leave();
    say("peers of %d", user);
    if (went("peer access", code))
        space->reaches[owner] = !space->reaches[owner];
}

/* The context that is not a device's primary one goes, with all that it has. */
static void end_context(void)
{
    for (int i = 0; i < SPACES; i++) {
        enter(i);
        CHECK(cuCtxSynchronize());
        leave();
    }
    for (struct block *b = blocks; b < blocks + BLOCKS; b++) {
        b->last = NULL;
        if (b->at && b->space == 2)
            forget_block(b);
    }
    CHECK(cuCtxDestroy(spaces[2].context));
}

static void make_context(void)
{
    CUcontext popped, context = another_context();
    CHECK(cuCtxPopCurrent(&popped));
    furnish(&spaces[2], context, 0);
}

static void renew_context(void)
{
    if (!one_in(4))
        return;
    end_context();
    make_context();
    say("another context");
}

/* Lets one of the next calls of the driver fail. */
static void break_something(void)
{
    static const char *const calls[] = {
        "cuMemCreate",          "cuMemMap",        "cuMemSetAccess", "cuMemAddressReserve",
        "cuMemcpyDtoDAsync_v2", "cuMemGetInfo_v2", "cuMemUnmap"};
    unsigned count = sizeof(calls) / sizeof(*calls), which = below(unmaps ? count : count - 1);
    const char *call = calls[which];
    CUresult code = which == count - 1 ? UNMAP_REFUSED
                    : one_in(4)        ? CUDA_ERROR_UNKNOWN
                                       : CUDA_ERROR_OUT_OF_MEMORY;
    sim_fail(call, code, one_in(4) ? 0 : 1 + below(3));
    say("breaks %s", call);
}

static const struct choice choices[] = {
    {act, 20},          {read_some, 8},  {make_or_drop, 8}, {grow, 24},        {graph, 3},
    {wait_or_query, 4}, {ask_memory, 2}, {ask, 2},          {change_peers, 2}, {renew_context, 1}};

static void one_step(void)
{
    const struct choice *c = chosen(choices, sizeof(choices) / sizeof(*choices));
    bool breaks = failing && one_in(4);
    if (breaks)
        break_something();
    c->run();
    if (breaks)
        sim_fail(NULL, CUDA_SUCCESS, 0);
}

static void few_steps(void)
{
    static __thread bool inside;
    if (inside)
        return;
    inside = true;
    while (one_in(3))
        one_step();
    inside = false;
}

struct job {
    uint64_t seed;
    unsigned steps;
    int number;
};

static void *run_job(void *data)
{
    const struct job *job = data;
    thread_number = job->number;
    refused = 0;
    dice = job->seed * 0x9e3779b97f4a7c15ull + (uint64_t)job->number;
    for (int i = 0; i < 8; i++)
        below(2);
    buffer = malloc(MOST * PAGE);
    for (int i = 0; i < 2; i++)
        furnish(&spaces[i], primary[i], i);
    make_context();
    for (step = 0; step < job->steps; step++)
        one_step();
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at)
            compare_all(b);
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && one_in(2))
            drop_block(b);
    end_context();
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at)
            compare_all(b);
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at)
            drop_block(b);
    if (refused)
        fprintf(stderr, "refused %u\n", refused);
    free(buffer);
    return NULL;
}

static int run(int argc, char **argv)
{
    struct job jobs[2] = {{strtoull(argc > 1 ? argv[1] : "1", NULL, 10),
                           argc > 2 ? (unsigned)atoi(argv[2]) : 100, 0}};
    const char *mode = argc > 3 ? argv[3] : "";
    pthread_t other;
    size_t before[2], after, total;
    tight = strchr(mode, 't');
    unmaps = strchr(mode, 'u');
    failing = unmaps || strchr(mode, 'f');
    limit = argc > 4 ? (unsigned)atoi(argv[4]) : 700;
    alone = argc <= 5 || atoi(argv[5]) == 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i >= 0; i--) {
        primary[i] = start_gpu(i);
        CHECK(cuMemGetInfo(&before[i], &total));
    }
    jobs[1] = (struct job){jobs[0].seed, jobs[0].steps, 1};
    if (!alone)
        CHECK(pthread_create(&other, NULL, run_job, &jobs[1]));
    run_job(&jobs[0]);
    if (!alone)
        CHECK(pthread_join(other, NULL));
    for (int i = 1; i >= 0; i--) {
        CUdeviceptr last;
        CHECK(cuCtxSetCurrent(primary[i]));
        CHECK(cuMemAlloc(&last, 1));
        CHECK(cuMemFree(last)); /* Memory freed in order, which has to wait, goes now. */
        CHECK(cuCtxSynchronize());
        CHECK(cuMemGetInfo(&after, &total));
        EXPECT(unmaps || after == before[i]);
        end_gpu(i);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return run_rounds(argc, argv, run);
}
