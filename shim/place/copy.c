/* Transfers with a mapped block on at least one side: the CPU does them where both sides are its
 * own memory, because there is no device memory to move anything to. */
#include "place/copy.h"

#include <string.h>

#include "base/arena.h"
#include "catch/capture.h"
#include "catch/life.h"
#include "place/place.h"
#include "place/stream.h"
#include "place/workers.h"

/* Up to here a copy from pageable memory that must wait for its stream is staged, so that the call
 * need not wait.  Above, the call waits: CUDA Driver API, "API synchronization behavior", allows
 * both. */
#define STAGE_MAX ((uint64_t)1 << 20)

/* A copy that waits for its stream. */
struct pending {
    void *dst;
    const void *src;
    size_t n;
    size_t record; /* Bytes of this record with its staged bytes. */
    char staged[];
};

static bool mapped(const struct zc_box *b)
{
    return b->block && b->block->place == ZC_PLACE_MAPPED && (b->block->flags & ZC_BLOCK_CONVERTED);
}

/* Memory that the CPU may copy from or to.  An address outside the ledger that a call names as host
 * memory may still be device memory that libzc never saw: unified addressing lets a program do
 * that. */
static bool cpu_side(const struct zc_box *b)
{
    unsigned type;
    if (mapped(b))
        return true;
    if (b->block)
        return b->real == ZC_KIND_PINNED || b->extent;
    if (b->real != ZC_KIND_PAGEABLE || !b->address)
        return false;
    return zc_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b->address) !=
           CUDA_SUCCESS;
}

static bool pageable(const struct zc_box *b)
{
    return b->real == ZC_KIND_PAGEABLE || b->staged;
}

/* Reading write-combined memory by the CPU is many times slower than by DMA: CUDA C++ Programming
 * Guide, "Write-Combining Memory". */
static bool slow_to_read(const struct zc_box *b)
{
    return mapped(b) && b->block->rule >= 0 &&
           zc_life_policy()->rules[b->block->rule].write_combined;
}

static void CUDA_CB run_pending(void *data)
{
    struct pending *p = data;
    zc_workers_copy(p->dst, p->src, p->n);
    zc_arena_put(p, p->record);
}

static bool copy_now(struct zc_copy *c)
{
    zc_workers_copy((void *)c->dst.address, (const void *)c->src.address, c->bytes);
    c->outcome = ZC_CPU;
    return true;
}

/* Waits as the call would, then copies. */
static bool copy_drained(struct zc_copy *c)
{
    c->result = zc_stream_drain(c->stream, c->flavour);
    return c->result != CUDA_SUCCESS || copy_now(c);
}

/* Puts the copy into the stream.  The driver's own copy between two host ranges would wait for the
 * stream, and a program whose kernel waits for something that comes after the call would hang. */
static bool copy_in_order(struct zc_copy *c, bool stage)
{
    size_t record = sizeof(struct pending) + (stage ? c->bytes : 0);
    struct pending *p = zc_arena_get(record);
    if (!p)
        return copy_drained(c);
    *p = (struct pending){.dst = (void *)c->dst.address,
                          .src = (const void *)c->src.address,
                          .n = c->bytes,
                          .record = record};
    if (stage) {
        memcpy(p->staged, p->src, p->n);
        p->src = p->staged;
    }
    c->outcome = ZC_CPU;
    c->result = zc_stream_call(c->stream, c->flavour, run_pending, p);
    if (c->result != CUDA_SUCCESS)
        zc_arena_put(p, record);
    return true;
}

bool zc_place_copy(struct zc_copy *c)
{
    if (c->set || !c->linear || !(mapped(&c->dst) || mapped(&c->src)))
        return false;
    /* Waiting and asking are forbidden calls during a capture; the driver captures or copies
     * itself. */
    if (zc_capture_any() || !cpu_side(&c->dst) || !cpu_side(&c->src) || slow_to_read(&c->src))
        return false;
    if (!c->async)
        return copy_drained(c);
    if (zc_stream_idle(c->stream, c->flavour))
        return copy_now(c);
    /* The meaning of pageable memory: a copy to it has arrived when the call returns, and one from
     * it has left (CUDA Driver API, "API synchronization behavior"). */
    if (pageable(&c->dst))
        return copy_drained(c);
    if (!pageable(&c->src))
        return copy_in_order(c, false);
    return c->bytes <= STAGE_MAX ? copy_in_order(c, true) : copy_drained(c);
}
