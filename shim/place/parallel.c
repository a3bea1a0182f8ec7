/* Large copies of pageable memory, cut into parts: threads move them between the program's memory
 * and the ring, the calling thread between the ring and the device. */
#include "place/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "catch/capture.h"
#include "catch/life.h"
#include "catch/rules.h"
#include "catch/stay.h"
#include "place/maps.h"
#include "place/ring.h"
#include "place/staged.h"
#include "place/stream.h"
#include "place/workers.h"

#define PART ((size_t)2 << 20)
#define LOOK ((size_t)4 << 20) /* Bytes that a thread looks at in one go. */
#define WORTH_IT ((uint64_t)1 << 20)
#define BUFFERS_MAX (ZC_RING_BYTES / PART)
#define THREADS_MAX 10 /* From here on the link is slower than the threads. */

/* One copy under way.  Part i lies in buffer i % buffers. */
struct job {
    struct zc_copy *c;
    char *host;         /* The program's memory. */
    CUdeviceptr device; /* The device's. */
    bool in;            /* To the device. */
    size_t parts;       /* All parts. */
    size_t buffers;     /* Parts that the ring's slots have room for. */
    char *buffer[BUFFERS_MAX];
    CUevent event[BUFFERS_MAX];  /* Recorded behind the part in the buffer; the caller's. */
    uint32_t moved[BUFFERS_MAX]; /* Parts that threads have moved with the buffer so far; atomic. */
    size_t next;                 /* Part that the next idle thread takes; atomic. */
    size_t open;                 /* Parts below may be moved by threads; atomic. */
    size_t looked_at;            /* Bytes of the program's memory that were looked at; atomic. */
    size_t ready;                /* Threads, the caller's too, that have nothing left to look at;
                                  * atomic. */
    bool stop;                   /* Something failed: threads end; atomic. */
};

static size_t bytes_of(const struct job *job, size_t part)
{
    size_t rest = job->c->bytes - part * PART;
    return rest < PART ? rest : PART;
}

static bool stopped(const struct job *job)
{
    return __atomic_load_n(&job->stop, __ATOMIC_RELAXED);
}

static void stop(struct job *job)
{
    __atomic_store_n(&job->stop, true, __ATOMIC_RELEASE);
}

/* What the kernel does not tell of the program's memory, threads find out by bringing its pages in,
 * before anything is copied. */
static void look(struct job *job)
{
    size_t at, bytes = job->c->bytes;
    while ((at = __atomic_fetch_add(&job->looked_at, LOOK, __ATOMIC_RELAXED)) < bytes)
        if (!zc_workers_reach(job->host + at, bytes - at < LOOK ? bytes - at : LOOK, !job->in))
            stop(job);
    __atomic_fetch_add(&job->ready, 1, __ATOMIC_RELEASE);
}

/* A thread's work: the parts as they come. */
static void *move_parts(void *arg)
{
    struct job *job = arg;
    size_t part;
    look(job);
    while ((part = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->parts) {
        char *host = job->host + part * PART, *buffer = job->buffer[part % job->buffers];
        while (__atomic_load_n(&job->open, __ATOMIC_ACQUIRE) <= part && !stopped(job))
            sched_yield();
        if (stopped(job))
            break;
        __builtin_memcpy(job->in ? buffer : host, job->in ? host : buffer, bytes_of(job, part));
        __atomic_fetch_add(&job->moved[part % job->buffers], 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Waits until threads have moved a part. */
static void await(struct job *job, size_t part)
{
    uint32_t round = (uint32_t)(part / job->buffers) + 1;
    while (__atomic_load_n(&job->moved[part % job->buffers], __ATOMIC_ACQUIRE) < round)
        sched_yield();
}

static CUresult transfer(struct job *job, size_t part)
{
    const struct zc_copy *c = job->c;
    char *buffer = job->buffer[part % job->buffers];
    CUdeviceptr device = job->device + part * PART;
    size_t n = bytes_of(job, part);
    CUresult result =
        job->in ? ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(device, buffer, n, c->stream)
                : ZC_FLAVOURED(c->flavour, cuMemcpyDtoHAsync_v2)(buffer, device, n, c->stream);
    return result != CUDA_SUCCESS ? result
                                  : ZC_FLAVOURED(c->flavour, cuEventRecord)(
                                        job->event[part % job->buffers], c->stream);
}

static CUresult passed(const struct job *job, size_t part)
{
    return zc_real.cuEventSynchronize(job->event[part % job->buffers]);
}

/* To the device: a buffer is open again once its part has left. */
static CUresult drive_in(struct job *job)
{
    CUresult result = CUDA_SUCCESS;
    __atomic_store_n(&job->open, job->buffers, __ATOMIC_RELEASE);
    for (size_t part = 0, left = 0; part < job->parts && result == CUDA_SUCCESS; part++) {
        await(job, part);
        result = transfer(job, part);
        /* Half of the buffers are on the link, the other half with the threads. */
        if (part < left + job->buffers / 2 || result != CUDA_SUCCESS)
            continue;
        result = passed(job, left++);
        __atomic_store_n(&job->open, left + job->buffers, __ATOMIC_RELEASE);
    }
    return result == CUDA_SUCCESS ? passed(job, job->parts - 1) : result;
}

/* From the device: a part is open once it has arrived, and its buffer is used again once threads
 * have emptied it. */
static CUresult drive_out(struct job *job)
{
    CUresult result = CUDA_SUCCESS;
    size_t sent = 0;
    for (size_t part = 0; part < job->parts && result == CUDA_SUCCESS; part++) {
        for (; sent < job->parts && sent < part + job->buffers / 2 + 1 && result == CUDA_SUCCESS;
             sent++) {
            if (sent >= job->buffers)
                await(job, sent - job->buffers);
            result = transfer(job, sent);
        }
        if (result == CUDA_SUCCESS)
            result = passed(job, part);
        if (result == CUDA_SUCCESS)
            __atomic_store_n(&job->open, part + 1, __ATOMIC_RELEASE);
    }
    return result;
}

/* Threads do not know the program's signal handlers. */
static size_t start_threads(struct job *job, pthread_t *threads)
{
    size_t wanted = job->parts < THREADS_MAX ? job->parts : THREADS_MAX, started = 0;
    size_t cpus = zc_workers_cpus();
    sigset_t all, old;
    if (wanted >= cpus)
        wanted = cpus > 1 ? cpus - 1 : 1;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (started < wanted && pthread_create(&threads[started], NULL, move_parts, job) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

/* False when no thread could be started, or the CPU may not touch the memory, and nothing was
 * done. */
static bool drive(struct job *job)
{
    pthread_t threads[THREADS_MAX];
    size_t started = start_threads(job, threads);
    look(job);
    while (__atomic_load_n(&job->ready, __ATOMIC_ACQUIRE) <= started)
        sched_yield();
    bool able = started && !stopped(job);
    if (able)
        job->c->result = job->in ? drive_in(job) : drive_out(job);
    if (able && job->c->result != CUDA_SUCCESS) {
        stop(job);
        zc_stream_drain(job->c->stream, job->c->flavour);
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return able;
}

static size_t take_slots(struct job *job, unsigned *slots)
{
    size_t taken = 0, most = (job->parts * PART + ZC_RING_SLOT - 1) / ZC_RING_SLOT;
    for (int slot; taken < most && taken < ZC_RING_SLOTS && (slot = zc_ring_try()) >= 0;) {
        char *memory = zc_ring_memory((unsigned)slot);
        if (!memory) {
            zc_ring_give((unsigned)slot, NULL);
            break;
        }
        slots[taken++] = (unsigned)slot;
        for (size_t at = 0; at < ZC_RING_SLOT; at += PART)
            job->buffer[job->buffers++] = memory + at;
    }
    return taken;
}

static bool make_events(struct job *job)
{
    for (size_t i = 0; i < job->buffers; i++)
        if (zc_real.cuEventCreate(&job->event[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false;
    return true;
}

static bool run(struct job *job)
{
    unsigned slots[ZC_RING_SLOTS];
    size_t taken = take_slots(job, slots);
    bool done = job->buffers >= 2 && make_events(job) && drive(job);
    for (size_t i = 0; i < job->buffers; i++)
        if (job->event[i])
            zc_real.cuEventDestroy_v2(job->event[i]);
    for (size_t i = 0; i < taken; i++)
        zc_ring_give(slots[i], NULL);
    return done;
}

/* Pageable memory: not the driver's under any name.  Calls may name any address as the host's. */
static bool pageable(const struct zc_box *b)
{
    unsigned type;
    bool named = b->side == ZC_SIDE_HOST || b->side == ZC_SIDE_ANY;
    if (!named || b->real != ZC_KIND_PAGEABLE || !b->address || (b->block && !b->extent))
        return false;
    return zc_real.cuPointerGetAttribute &&
           zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) !=
               CUDA_SUCCESS;
}

/* Device memory of which the whole range is inside a block: the driver would refuse it
 * otherwise. */
static bool on_device(const struct zc_box *b, uint64_t bytes)
{
    return b->block && b->asked == ZC_KIND_DEVICE && b->real == ZC_KIND_DEVICE &&
           bytes <= b->block->base + b->block->size - b->address;
}

/* Who copies it: as the rule of the block says, else as [defaults] does. */
static bool by_threads(const struct zc_box *host)
{
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = host->extent ? &policy->rules[host->block->rule]
                                 : policy->needs & ZC_NEED_PAGEABLE_COPY
                                     ? zc_stay_rule(host->address)
                                     : NULL;
    return (rule && rule->given & ZC_KEY_BIT(ZC_KEY_RULE_PAGEABLE_COPY)
                ? rule->pageable_copy
                : policy->pageable_copy) == ZC_PAGEABLE_COPY_PARALLEL;
}

static bool copy(struct zc_copy *c)
{
    struct job job = {.c = c};
    job.in = pageable(&c->src) && on_device(&c->dst, c->bytes);
    if (!job.in && !(pageable(&c->dst) && on_device(&c->src, c->bytes)))
        return false;
    if (!by_threads(job.in ? &c->src : &c->dst))
        return false;
    /* An asynchronous copy to the device need not wait for its stream; this one would. */
    if (job.in && c->async && !zc_stream_idle(c->stream, c->flavour))
        return false;
    job.host = (char *)(job.in ? c->src.address : c->dst.address);
    job.device = job.in ? c->dst.address : c->src.address;
    job.parts = (c->bytes + PART - 1) / PART;
    /* What to do about memory that the CPU may not touch is the driver's to decide. */
    enum zc_maps_answer answer = zc_maps_ask(job.host, c->bytes, !job.in);
    job.looked_at = answer == ZC_MAPS_YES ? c->bytes : 0;
    if (answer == ZC_MAPS_NO || !run(&job))
        return false;
    *(job.in ? &c->src.real : &c->dst.real) = ZC_KIND_PINNED;
    c->copies = job.parts;
    return true;
}

/* Every copy of the program comes by here, so what most of them are is asked first. */
bool zc_parallel_copy(struct zc_copy *c)
{
    const struct zc_policy *policy = zc_rules();
    if (c->bytes < WORTH_IT ||
        (policy->pageable_copy != ZC_PAGEABLE_COPY_PARALLEL &&
         !(policy->needs & ZC_NEED_PAGEABLE_COPY)) ||
        !c->linear || c->set || c->peer || zc_capture_any() || zc_life_closing())
        return false;
    return copy(c);
}
