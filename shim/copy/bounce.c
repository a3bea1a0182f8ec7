/* Large copies between pinned and managed memory, by way of bounce buffers in device memory. */
#include "copy/bounce.h"

#include <sched.h>
#include <string.h>

#include "base/message.h"
#include "driver/capture.h"
#include "hook/life.h"
#include "log/refusals.h"
#include "driver/await.h"
#include "managed/hint.h"
#include "vmm/late.h"
#include "memory/place.h"
#include "driver/stream.h"

#define BUFFERS 2u
#define PART ((size_t)8 << 20) /* Bytes of a buffer. */
#define FROM (BUFFERS * PART)  /* Below, the first and the last part have nothing beside them. */

/* Most parts on their way of copies that need not wait.  A stream takes some thousand calls, of
 * which a part is seven; then the caller of the next one waits, even where its own next step is
 * waited for. */
#define PARTS_MAX 64

#define CONTEXTS_MAX 16 /* Further ones have no buffers. */

enum state {
    NOBODYS,
    IDLE,    /* Nobody puts a copy into a stream; copies may be under way. */
    TAKEN,   /* A thread has it, for no longer than it makes calls that do not wait. */
    REFUSED, /* The context could have no buffers, or lost one in a copy that failed. */
};

/* The buffers of one context.  All but `state` is that thread's which has it. */
static struct bounce {
    uint32_t state;              /* enum state; atomic. */
    CUcontext context;           /* Atomic: other threads look for theirs. */
    int device;                  /* The context's; atomic. */
    struct zc_backing memory;    /* BUFFERS times PART bytes; its `vmm` is NULL for none. */
    CUevent filled[BUFFERS];     /* The last part has come to the buffer, */
    CUevent emptied[BUFFERS];    /* and has left it. */
    CUstream inside;             /* Copies between the buffers and managed memory. */
    struct zc_stream_ident user; /* The stream of the last copy. */
    unsigned queued;             /* Parts put into that stream since the buffers were empty. */
    const struct zc_rule *rule;  /* Of that copy's managed block. */
} bounces[CONTEXTS_MAX];

/* A copy on its way. */
struct job {
    const struct zc_copy *c;
    struct bounce *b;
    bool in;    /* To the device. */
    bool begun; /* Something is on its way into the program's memory. */
};

static bool claim(struct bounce *b, uint32_t from)
{
    return __atomic_compare_exchange_n(&b->state, &from, TAKEN, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void release(struct bounce *b, uint32_t state)
{
    __atomic_store_n(&b->state, state, __ATOMIC_RELEASE);
}

/* Memory that is mapped by hand goes back without waiting for the device, as cuMemFree would for
 * streams that may wait for the caller.  Managed memory may fill the device: the place looks what
 * is left of it, the driver would not. */
static bool make_memory(struct bounce *b)
{
    static const struct zc_rule rule = {.peers = ZC_PEERS_NONE};
    const struct zc_want want = {
        .size = FROM, .device = b->device, .context = b->context, .rule = &rule, .modest = true};
    const char *why;
    return zc_place_vmm.make(&want, &b->memory, &why) == CUDA_SUCCESS;
}

static void unmake_memory(struct bounce *b)
{
    if (b->memory.vmm)
        zc_place_vmm.unmake(&b->memory, false);
    b->memory = (struct zc_backing){0};
}

/* Gives everything back, in the buffers' own context. */
static void unmake(struct bounce *b)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        if (b->filled[i])
            zc_real.cuEventDestroy_v2(b->filled[i]);
        if (b->emptied[i])
            zc_real.cuEventDestroy_v2(b->emptied[i]);
        b->filled[i] = b->emptied[i] = NULL;
    }
    if (b->inside)
        zc_real.cuStreamDestroy_v2(b->inside);
    b->inside = NULL;
    unmake_memory(b);
}

static bool make(struct bounce *b)
{
    bool made = make_memory(b) &&
                zc_real.cuStreamCreate(&b->inside, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    for (unsigned i = 0; i < BUFFERS && made; i++)
        made = zc_real.cuEventCreate(&b->filled[i], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
               zc_real.cuEventCreate(&b->emptied[i], CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    b->user = (struct zc_stream_ident){0};
    if (!made)
        unmake(b);
    return made;
}

/* The entry of the current context, taken; NULL where another thread has it or there can be none.
 * Of two threads that find none each makes one. */
static struct bounce *take(int device)
{
    CUcontext context = NULL;
    if (zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        struct bounce *b = &bounces[i];
        if (__atomic_load_n(&b->context, __ATOMIC_RELAXED) != context)
            continue;
        if (!claim(b, IDLE))
            return NULL;
        if (b->context == context)
            return b;
        release(b, IDLE); /* It has become another context's. */
    }
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        struct bounce *b = &bounces[i];
        if (!claim(b, NOBODYS))
            continue;
        __atomic_store_n(&b->device, device, __ATOMIC_RELAXED);
        __atomic_store_n(&b->context, context, __ATOMIC_RELAXED);
        if (make(b))
            return b;
        release(b, REFUSED);
        return NULL;
    }
    return NULL;
}

/* No copy is under way in the buffers. */
static bool empty(const struct bounce *b)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        if (zc_real.cuEventQuery(b->emptied[i]) != CUDA_SUCCESS)
            return false;
    return true;
}

/* Behind the last copy in the same stream the next one is in order.  In another stream it would
 * wait for what stands before that one. */
static bool free_for(struct bounce *b, const struct zc_copy *c, unsigned parts)
{
    struct zc_stream_ident user;
    zc_stream_identify(c->stream, c->flavour, &user);
    bool same = user.id && zc_stream_same(&user, &b->user);
    if (empty(b))
        b->queued = 0;
    else if (!same || (c->async && b->queued + parts > PARTS_MAX))
        return false;
    b->user = user;
    b->queued += parts;
    return true;
}

/* Over the link and inside the device, one behind the other by the direction. */
static CUresult over_link(const struct job *j, CUdeviceptr buffer, size_t at, size_t n)
{
    const struct zc_copy *c = j->c;
    if (j->in)
        return ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(
            buffer, (const void *)(c->src.address + at), n, c->stream);
    return ZC_FLAVOURED(c->flavour, cuMemcpyDtoHAsync_v2)((void *)(c->dst.address + at), buffer, n,
                                                          c->stream);
}

static CUresult inside(const struct job *j, CUdeviceptr buffer, size_t at, size_t n)
{
    const struct zc_copy *c = j->c;
    return j->in ? zc_real.cuMemcpyDtoDAsync_v2(c->dst.address + at, buffer, n, j->b->inside)
                 : zc_real.cuMemcpyDtoDAsync_v2(buffer, c->src.address + at, n, j->b->inside);
}

/* The two streams of a copy: the program's, and the one inside the device. */
static CUresult mark(const struct job *j, bool link, CUevent event)
{
    return link ? ZC_FLAVOURED(j->c->flavour, cuEventRecord)(event, j->c->stream)
                : zc_real.cuEventRecord(event, j->b->inside);
}

static CUresult await(const struct job *j, bool link, CUevent event)
{
    return link ? ZC_FLAVOURED(j->c->flavour, cuStreamWaitEvent)(j->c->stream, event, 0)
                : zc_real.cuStreamWaitEvent(j->b->inside, event, 0);
}

static CUresult send_part(struct job *j, unsigned number, size_t at, size_t n)
{
    unsigned i = number % BUFFERS;
    bool link = j->in; /* Is first. */
    CUdeviceptr buffer = j->b->memory.base + i * PART;
    CUresult result = number < BUFFERS ? CUDA_SUCCESS : await(j, link, j->b->emptied[i]);
    if (result == CUDA_SUCCESS)
        result = link ? over_link(j, buffer, at, n) : inside(j, buffer, at, n);
    if (result == CUDA_SUCCESS)
        result = mark(j, link, j->b->filled[i]);
    if (result == CUDA_SUCCESS)
        result = await(j, !link, j->b->filled[i]);
    if (result == CUDA_SUCCESS)
        result = link ? inside(j, buffer, at, n) : over_link(j, buffer, at, n);
    j->begun = j->begun || result == CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? mark(j, !link, j->b->emptied[i]) : result;
}

/* All of it is behind what the program's stream had to do, and before what comes to it later. */
static CUresult send(struct job *j, unsigned parts)
{
    CUresult result = CUDA_SUCCESS;
    if (!j->in) {
        result = mark(j, true, j->b->filled[0]);
        if (result == CUDA_SUCCESS)
            result = await(j, false, j->b->filled[0]);
    }
    for (unsigned i = 0; i < parts && result == CUDA_SUCCESS; i++) {
        size_t at = i * PART, rest = j->c->bytes - at;
        result = send_part(j, i, at, rest < PART ? rest : PART);
    }
    if (result == CUDA_SUCCESS && j->in)
        result = await(j, true, j->b->emptied[(parts - 1) % BUFFERS]);
    return result;
}

/* Whether the copy is one between pinned memory and managed pages that are on `device`, and in the
 * order of nothing but its stream. */
static bool suits(const struct zc_copy *c, int device)
{
    bool in = c->dst.real == ZC_KIND_MANAGED;
    const struct zc_box *host = in ? &c->src : &c->dst, *managed = in ? &c->dst : &c->src;
    return c->linear && !c->dst.context && !c->src.context && host->block &&
           host->real == ZC_KIND_PINNED && managed->real == ZC_KIND_MANAGED &&
           zc_hint_home(managed->block, device) &&
           (!c->async || (c->bytes <= PARTS_MAX * PART && zc_stream_here(c->stream, c->flavour)));
}

bool zc_bounce_copy(struct zc_copy *c)
{
    CUdevice device;
    CUresult drained = CUDA_SUCCESS;
    if (c->bytes < FROM || zc_capture_any() || zc_life_closing() ||
        zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || !suits(c, device))
        return false;
    struct job job = {c, take(device), c->dst.real == ZC_KIND_MANAGED, false};
    unsigned parts = (unsigned)((c->bytes + PART - 1) / PART);
    if (!job.b)
        return false;
    if (!free_for(job.b, c, parts)) {
        release(job.b, IDLE);
        return false;
    }
    job.b->rule = &zc_life_policy()->rules[(job.in ? &c->dst : &c->src)->block->rule];
    c->result = send(&job, parts);
    if (c->result != CUDA_SUCCESS && !job.begun) { /* What the driver says of the whole counts. */
        release(job.b, REFUSED);
        c->result = CUDA_SUCCESS;
        return false;
    }
    if (c->result != CUDA_SUCCESS) /* The program believes that nothing is under way. */
        zc_real.cuStreamSynchronize(job.b->inside);
    release(job.b, c->result == CUDA_SUCCESS ? IDLE : REFUSED);
    if (c->result != CUDA_SUCCESS || !c->async)
        drained = zc_stream_drain(c->stream, c->flavour);
    if (c->result == CUDA_SUCCESS)
        c->result = drained;
    c->copies = 2 * (uint64_t)parts;
    c->bounced = true;
    return true;
}

static bool trim(struct bounce *b)
{
    CUcontext popped;
    bool given = empty(b) && zc_real.cuCtxPushCurrent_v2(b->context) == CUDA_SUCCESS;
    if (given) {
        unmake(b);
        zc_real.cuCtxPopCurrent_v2(&popped);
        __atomic_store_n(&b->context, NULL, __ATOMIC_RELAXED);
    }
    release(b, given ? NOBODYS : IDLE);
    return given;
}

unsigned zc_bounce_trim(void)
{
    unsigned given = 0;
    for (unsigned i = 0; i < CONTEXTS_MAX && !zc_capture_any(); i++)
        if (claim(&bounces[i], IDLE))
            given += trim(&bounces[i]);
    return given;
}

/* Waits for the copies under way, if that can't be for something which the caller has yet to do. */
static bool drain(struct bounce *b)
{
    if (zc_await_any()) {
        zc_refusal_count(zc_life_policy(), b->rule);
        zc_message(ZC_ERROR, "bounce",
                   "a request finds no memory while copies to or from a block that lies in "
                   "'managed' by rule %s (%s:%u) have %B of the device for buffers, and streams "
                   "may wait for the program; give that rule a narrower match or 'place = device'",
                   b->rule->name, zc_life_policy()->file, b->rule->line, (uint64_t)FROM);
        return false;
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        if (zc_real.cuEventSynchronize(b->emptied[i]) != CUDA_SUCCESS)
            return false;
    return true;
}

unsigned zc_bounce_wait(void)
{
    unsigned given = 0;
    bool mine = zc_late_turn_take();
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        struct bounce *b = &bounces[i];
        while (__atomic_load_n(&b->state, __ATOMIC_RELAXED) == TAKEN)
            sched_yield();
        if (!claim(b, IDLE))
            continue;
        if (drain(b))
            given += trim(b);
        else
            release(b, IDLE);
    }
    if (mine)
        zc_late_turn_drop();
    return given;
}

uint64_t zc_bounce_bytes(void)
{
    CUdevice device = 0;
    uint64_t bytes = 0;
    if (zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return 0;
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        uint32_t state = __atomic_load_n(&bounces[i].state, __ATOMIC_RELAXED);
        if ((state == IDLE || state == TAKEN) &&
            __atomic_load_n(&bounces[i].device, __ATOMIC_RELAXED) == device)
            bytes += FROM;
    }
    return bytes;
}

/* Takes an entry of a context that is gone; false if it is another one's.  A thread that waits for
 * the copies of another context, because it lacks memory, gives the entry back. */
static bool take_over(struct bounce *b, CUcontext context)
{
    while (__atomic_load_n(&b->context, __ATOMIC_RELAXED) == context) {
        uint32_t state = __atomic_load_n(&b->state, __ATOMIC_RELAXED);
        if (state == TAKEN || !claim(b, state)) {
            sched_yield();
            continue;
        }
        if (b->context == context)
            return true;
        release(b, state);
    }
    return false;
}

void zc_bounce_forget(CUcontext context)
{
    for (unsigned i = 0; i < CONTEXTS_MAX; i++) {
        struct bounce *b = &bounces[i];
        if (!take_over(b, context))
            continue;
        unmake_memory(b); /* All else went with the context. */
        *b = (struct bounce){.state = TAKEN};
        release(b, NOBODYS);
    }
}

void zc_bounce_reset(void)
{
    memset(bounces, 0, sizeof(bounces));
}
