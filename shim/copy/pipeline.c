/* SPDX-License-Identifier: MIT */
/*
 * A copy as a stream of bytes through the ring.  The copy engine moves parts, and threads move
 * pieces of them; byte `at` of the copy is in the ring at `at` modulo the ring's size.
 *
 * Parts are large, because the copy engine pauses about 2 us between two.  But the link is idle
 * until the first part to the device is filled, and threads are idle while the last part from it is
 * on its way.  So these parts are small.
 */
#include "copy/pipeline.h"

#include <sched.h>

#include "copy/bypass.h"
#include "copy/ring.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "memory/crew.h"
#include "memory/workers.h"

#define PART ((size_t)8 << 20)    /* Bytes of a part. */
#define SMALL ((size_t)1 << 20)   /* Of a part at the end where the other side waits. */
#define PIECE ((size_t)256 << 10) /* Bytes that a thread moves at once. */
#define A_THREAD_FOR ((size_t)1 << 20)
/* With more, only copies of 1 GiB from the device are faster, by a fiftieth, and a process's first
 * copy waits until the ring is made (tests/gpu/MEASURED.md). */
#define SLOTS_MAX (ZC_RING_SLOTS / 2)
#define BUFFERS_MAX (SLOTS_MAX * ZC_RING_SLOT / PART)
#define PIECES_MAX (SLOTS_MAX * ZC_RING_SLOT / PIECE)
#define EVENTS_MAX (BUFFERS_MAX + 2 * PART / SMALL) /* Most parts in the ring. */
#define THREADS_MAX ((size_t)14) /* With more threads the link is the bottleneck. */

/* One H200: up to here threads fill the ring faster past the caches, by a tenth to a half.  From
 * 128 MiB on the copy engine reads faster what they left there (tests/gpu/MEASURED.md). */
#define PAST_CACHES_MAX ((size_t)64 << 20)

/* One copy in progress.  Fields that are not atomic belong to the calling thread, but for those
 * that are set before other threads are started. */
struct job {
    struct zc_crew crew;
    struct zc_pipeline p;
    size_t bytes;               /* Bytes of the copy. */
    size_t ring;                /* Bytes of all buffers. */
    size_t buffers;             /* PART bytes each. */
    char *buffer[BUFFERS_MAX];  /* Pinned memory. */
    unsigned events;            /* Number of events; at most so many parts are in flight. */
    CUevent event[EVENTS_MAX];  /* Recorded behind parts: part n has event n % events. */
    size_t sent;                /* Bytes given to the copy engine. */
    size_t passed;              /* Bytes that it has moved. */
    unsigned parts_sent;        /* Number of parts up to `sent`. */
    unsigned parts_passed;      /* Number of parts up to `passed`. */
    uint32_t moved[PIECES_MAX]; /* How often a thread moved each piece of the ring.  Atomic. */
    size_t next;                /* The next piece begins here.  Atomic. */
    size_t open;                /* Threads may move bytes up to here.  Atomic. */
    bool unreachable;           /* The CPU may not access the program's memory.  Atomic. */
};

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* Bytes of the part that begins at `at`: one that is not small begins at a multiple of PART. */
static size_t part_at(const struct job *job, size_t at)
{
    size_t rest = job->bytes - at;
    bool small = job->p.in ? at < PART : rest < 2 * PART;
    return at_most(rest, small ? SMALL : PART);
}

static char *ring_at(const struct job *job, size_t at)
{
    return job->buffer[at / PART % job->buffers] + at % PART;
}

static uint32_t *moved_at(struct job *job, size_t at)
{
    return &job->moved[at % job->ring / PIECE];
}

/* Whether a thread may touch this piece of the program's memory: a fault in a thread with blocked
 * signals would end the process.  Where the kernel does not say, populating tells. */
static bool piece_reach(struct job *job, char *host, size_t n)
{
    if (job->p.reachable || zc_workers_reach(host, n, !job->p.in))
        return true;
    __atomic_store_n(&job->unreachable, true, __ATOMIC_RELAXED);
    zc_crew_over(&job->crew);
    return false;
}

static void piece_move(struct job *job, char *host, size_t at, size_t n)
{
    char *ring = ring_at(job, at);
    if (!job->p.in)
        zc_bypass_copy(host, ring, n);
    else if (job->bytes <= PAST_CACHES_MAX)
        zc_bypass_copy(ring, host, n);
    else
        __builtin_memcpy(ring, host, n);
    __atomic_store_n(moved_at(job, at), (uint32_t)(at / job->ring) + 1, __ATOMIC_RELEASE);
}

/* Nobody takes a piece before its data, or its place in the ring, is there: the others would wait
 * for a thread that waits. */
static bool next_piece(struct zc_crew *crew, unsigned who)
{
    (void)who;
    struct job *job = (struct job *)crew;
    size_t at = __atomic_load_n(&job->next, __ATOMIC_RELAXED), n;
    do {
        if (at >= job->bytes) {
            zc_crew_over(crew);
            return false;
        }
        n = at_most(job->bytes - at, PIECE);
        if (__atomic_load_n(&job->open, __ATOMIC_ACQUIRE) < at + n)
            return false;
    } while (!__atomic_compare_exchange_n(&job->next, &at, at + PIECE, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    if (!piece_reach(job, job->p.host + at, n))
        return false;
    piece_move(job, job->p.host + at, at, n);
    return true;
}

/* True if threads have filled the next part to send, or emptied its place. */
static bool part_sendable(struct job *job, size_t n)
{
    uint32_t times = (uint32_t)(job->sent / job->ring) + (job->p.in ? 1 : 0);
    for (size_t at = job->sent; at < job->sent + n; at += PIECE)
        if (__atomic_load_n(moved_at(job, at), __ATOMIC_ACQUIRE) < times)
            return false;
    return true;
}

static CUresult part_transfer(const struct job *job, size_t n)
{
    const struct zc_copy *c = job->p.c;
    char *ring = ring_at(job, job->sent);
    CUdeviceptr device = job->p.device + job->sent;
    CUresult result =
        job->p.in ? ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(device, ring, n, c->stream)
                  : ZC_FLAVOURED(c->flavour, cuMemcpyDtoHAsync_v2)(ring, device, n, c->stream);
    return result != CUDA_SUCCESS ? result
                                  : ZC_FLAVOURED(c->flavour, cuEventRecord)(
                                        job->event[job->parts_sent % job->events], c->stream);
}

/* Gives the next part to the copy engine, if it is ready.  False if nothing was done. */
static bool pipeline_send_part(struct job *job)
{
    struct zc_copy *c = job->p.c;
    size_t n = part_at(job, job->sent);
    if (n == 0 || c->result != CUDA_SUCCESS || job->parts_sent - job->parts_passed == job->events ||
        !part_sendable(job, n))
        return false;
    c->result = part_transfer(job, n);
    if (c->result != CUDA_SUCCESS)
        return false;
    job->sent += n;
    job->parts_sent++;
    return true;
}

/* Waits for the oldest part in flight, and lets threads use its place or its data.  False if
 * nothing was done. */
static bool land_part(struct job *job)
{
    struct zc_copy *c = job->p.c;
    if (job->passed == job->sent)
        return false;
    CUresult result = zc_real.cuEventQuery(job->event[job->parts_passed % job->events]);
    if (result != CUDA_SUCCESS) {
        c->result = result == CUDA_ERROR_NOT_READY ? c->result : result;
        return false;
    }
    job->passed += part_at(job, job->passed);
    job->parts_passed++;
    __atomic_store_n(&job->open, job->passed + (job->p.in ? job->ring : 0), __ATOMIC_RELEASE);
    return true;
}

static bool pipeline_failed(const struct job *job)
{
    return job->p.c->result != CUDA_SUCCESS || __atomic_load_n(&job->unreachable, __ATOMIC_RELAXED);
}

/* The calling thread starts the others, feeds the copy engine, and moves pieces in the time that is
 * left.  A copy from the device is on the link before the threads have started. */
static void pipeline_drive(struct job *job)
{
    struct zc_copy *c = job->p.c;
    while (!job->p.in && pipeline_send_part(job))
        ;
    while (job->passed < job->bytes && !pipeline_failed(job)) {
        bool sent = pipeline_send_part(job), grown = zc_crew_grow(&job->crew);
        if (c->result == CUDA_SUCCESS && !land_part(job) && !sent && !grown &&
            !next_piece(&job->crew, 0))
            sched_yield();
    }
    while (!pipeline_failed(job) && next_piece(&job->crew, 0))
        ;
}

static size_t take_slots(struct job *job, unsigned *slots)
{
    size_t taken = 0, most = (job->bytes + ZC_RING_SLOT - 1) / ZC_RING_SLOT;
    for (int slot; taken < most && taken < SLOTS_MAX && (slot = zc_ring_try()) >= 0;) {
        char *memory = zc_ring_memory((unsigned)slot);
        if (!memory) {
            zc_ring_give((unsigned)slot, NULL, NULL);
            break;
        }
        slots[taken++] = (unsigned)slot;
        for (size_t at = 0; at < ZC_RING_SLOT; at += PART)
            job->buffer[job->buffers++] = memory + at;
    }
    job->ring = job->buffers * PART;
    return taken;
}

static bool make_events(struct job *job)
{
    size_t wanted = at_most(job->bytes / SMALL + 1, EVENTS_MAX);
    for (job->events = 0; job->events < wanted; job->events++)
        if (zc_real.cuEventCreate(&job->event[job->events], CU_EVENT_DISABLE_TIMING) !=
            CUDA_SUCCESS)
            return false;
    return true;
}

static void pipeline_run(struct job *job)
{
    struct zc_copy *c = job->p.c;
    pipeline_drive(job);
    zc_crew_wait(&job->crew);
    if (pipeline_failed(job))
        zc_stream_drain(c->stream, c->flavour);
}

bool zc_pipeline_run(const struct zc_pipeline *p)
{
    unsigned slots[SLOTS_MAX];
    size_t threads = at_most(p->c->bytes / A_THREAD_FOR + 1, THREADS_MAX);
    struct job *job = zc_crew_make(sizeof(*job), next_piece, threads);
    if (!job)
        return false;
    job->p = *p;
    job->bytes = p->c->bytes;
    CUstreamCaptureMode before = zc_capture_relax();
    size_t taken = take_slots(job, slots);
    job->open = p->in ? job->ring : 0;
    bool ready = taken && make_events(job);
    if (ready)
        pipeline_run(job);
    for (unsigned i = 0; i < job->events; i++)
        zc_real.cuEventDestroy_v2(job->event[i]);
    for (size_t i = 0; i < taken; i++)
        zc_ring_give(slots[i], NULL, NULL);
    zc_capture_restore(before);
    bool done = ready && !job->unreachable;
    p->c->copies = done ? job->parts_sent : p->c->copies;
    zc_crew_put(&job->crew);
    return done;
}
