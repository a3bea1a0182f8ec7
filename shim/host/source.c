/* SPDX-License-Identifier: MIT */
/*
 * Tells heap, mappings, stacks and variables apart.  The kernel knows what is mapped where, and is
 * asked once for a range.  It does not know which memory of no file is malloc's: that shows in what
 * glibc writes before its blocks (malloc/malloc.c there, "struct malloc_chunk").
 */
#include "host/source.h"

#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/own.h"
#include "host/hostheap.h"
#include "host/maps.h"
#include "ledger/object.h"

/* The beginning of the main thread's stack; of glibc's loader (GLIBC_2.2.5). */
extern void *__libc_stack_end;

/* A thread that runs on other memory, as coroutines do, is this far away from its own stack. */
#define STACK_MOST ((uintptr_t)64 << 20)

#define RANGES 64u     /* Most that are remembered. */
#define CHUNKS 64      /* Most blocks of malloc beside each other in one mapping that are told. */
#define QUESTIONS 256u /* To a kernel that answers slowly: so many, */
#define QUESTION_BYTES 26          /* and one more for each 1 << 26 bytes copied. */
#define CHUNK_HEAD 16              /* Bytes before a block of malloc. */
#define ARENA ((uint64_t)64 << 20) /* glibc's HEAP_MAX_SIZE: alignment of a thread's heap. */

/* Memory of one source. */
struct range {
    uint64_t base, end;
    enum zc_source source;
};

static ZC_LOCK(lock, ZC_RANK_SOURCE);
static ZC_OWN struct {
    struct range ranges[RANGES]; /* They may overlap: the smallest one tells.  Under the lock. */
    unsigned next;
    uint64_t questions, copied; /* Atomic. */
} sources;

/* True for the calling thread's stack.  glibc puts a thread's descriptor above its stack; the main
 * thread's is elsewhere. */
static bool on_stack(uint64_t address)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), top = (uintptr_t)pthread_self();
    if (top - here >= STACK_MOST)
        top = (uintptr_t)__libc_stack_end;
    return top - here < STACK_MOST && address - here < top - here;
}

/* Another thread may unmap the memory meanwhile. */
static bool read_words(uint64_t at, uint64_t *words, size_t n)
{
    struct iovec to = {words, n * sizeof(*words)};
    struct iovec from = {(void *)(uintptr_t)at, n * sizeof(*words)};
    ZC_KEEPS_ERRNO;
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)(n * sizeof(*words));
}

/* A block of malloc that has a mapping of its own, by the two words before it at `at`: bytes from
 * the mapping's beginning, where it is aligned, and its size with the bit IS_MMAPPED.  False if
 * there is none. */
static bool read_chunk(uint64_t at, struct range *out)
{
    uint64_t words[2];
    if (!read_words(at, words, 2) || (words[1] & 7) != 2)
        return false;
    out->base = at - words[0];
    out->end = at + (words[1] & ~UINT64_C(7));
    out->source = ZC_SOURCE_HEAP;
    return out->base == zc_page_start(out->base) && out->end == zc_page_end(out->end) &&
           out->base <= at && out->end > at;
}

/* The same for an address inside of such blocks, which begin where a mapping does. */
static bool find_chunk(uint64_t start, uint64_t address, struct range *out)
{
    out->end = start;
    for (int i = 0; i < CHUNKS && out->end <= address; i++)
        if (!read_chunk(out->end, out))
            return false;
    return address < out->end;
}

/* True for the heap that malloc made for a thread, by its "struct heap_info": arena, the heap
 * before, bytes in use, bytes with rights. */
static bool in_arena(uint64_t address)
{
    uint64_t base = address & ~(ARENA - 1), words[4];
    return read_words(base, words, 4) && words[0] && words[1] % ARENA == 0 &&
           words[2] <= words[3] && words[3] <= ARENA && words[3] == zc_page_end(words[3]) &&
           address - base < words[2] && (words[1] || words[0] - base < 4096);
}

/* A file system is not asked: one over a network may not answer. */
static enum zc_source file_source(const char *name)
{
    static const char *const shared[] = {"/dev/shm/", "/memfd:", "/SYSV", "/anon_hugepage",
                                         "/dev/zero"};
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (strncmp(name, shared[i], strlen(shared[i])) == 0)
            return ZC_SOURCE_SHM;
    return ZC_SOURCE_FILE;
}

static struct range source_describe(const struct zc_maps_mapping *m, uint64_t address)
{
    struct range r = {.base = m->start, .end = m->end, .source = ZC_SOURCE_ANONYMOUS}, chunk;
    if (!strcmp(m->name, "[heap]") || (!*m->name && in_arena(address)))
        r.source = ZC_SOURCE_HEAP;
    else if (!strncmp(m->name, "[stack", 6))
        r.source = ZC_SOURCE_STACK;
    else if (!*m->name && find_chunk(m->start, address, &chunk))
        r = chunk;
    else if (*m->name == '/' || *m->name == '?')
        r.source = file_source(m->name);
    return r;
}

static void source_remember(const struct range *r)
{
    if (!zc_lock_take(&lock))
        return;
    sources.ranges[sources.next] = *r;
    sources.next = (sources.next + 1) % RANGES;
    zc_lock_drop(&lock);
}

/* The source that was remembered of an address; NONE: nothing was. */
static enum zc_source source_recall(uint64_t address)
{
    struct range found = {.end = UINT64_MAX, .source = ZC_SOURCE_NONE};
    ZC_LOCK_HELD(mine, &lock);
    for (const struct range *r = sources.ranges; mine && r < sources.ranges + RANGES; r++)
        if (address - r->base < r->end - r->base && r->end - r->base < found.end - found.base)
            found = *r;
    return found.source;
}

/* A kernel without the query takes a while to write down all mappings. */
static bool may_ask(void)
{
    uint64_t asked = __atomic_fetch_add(&sources.questions, 1, __ATOMIC_RELAXED);
    uint64_t earned = __atomic_load_n(&sources.copied, __ATOMIC_RELAXED) >> QUESTION_BYTES;
    if (!zc_maps_slow() || asked < QUESTIONS + earned)
        return true;
    __atomic_fetch_sub(&sources.questions, 1, __ATOMIC_RELAXED);
    return false;
}

/* Finds out what range of what source an address is in; false where nobody tells. */
static bool source_find(uint64_t address, enum zc_source known, struct range *out)
{
    struct zc_maps_mapping mapping;
    if (read_chunk(address - CHUNK_HEAD, out) && address < out->end)
        return true;
    if (known != ZC_SOURCE_NONE || !may_ask() || !zc_maps_find(address, &mapping))
        return false;
    *out = source_describe(&mapping, address);
    return true;
}

static enum zc_source source_mapped(uint64_t address)
{
    struct range r;
    enum zc_source known = source_recall(address);
    /* A block of malloc may lie beside what the program mapped, in one mapping to the kernel. */
    if ((known == ZC_SOURCE_NONE || known == ZC_SOURCE_ANONYMOUS) &&
        source_find(address, known, &r)) {
        source_remember(&r);
        known = r.source;
    }
    return known != ZC_SOURCE_NONE ? known : ZC_SOURCE_HEAP;
}

static enum zc_source source_of(uint64_t address, uint64_t bytes)
{
    struct zc_object object;
    if (!address)
        return ZC_SOURCE_NONE;
    if (zc_hostheap_owns(address))
        return ZC_SOURCE_HEAP;
    if (on_stack(address))
        return ZC_SOURCE_STACK;
    __atomic_fetch_add(&sources.copied, bytes, __ATOMIC_RELAXED);
    return zc_object_find(address, &object) ? ZC_SOURCE_STATIC : source_mapped(address);
}

void zc_source_tell(struct zc_transfer *t, uint64_t dst, uint64_t src)
{
    if (zc_flow_dst(t->asked) == ZC_KIND_PAGEABLE)
        t->dst_source = (uint8_t)source_of(dst, t->bytes);
    if (zc_flow_src(t->asked) == ZC_KIND_PAGEABLE)
        t->src_source = (uint8_t)source_of(src, t->bytes);
}
