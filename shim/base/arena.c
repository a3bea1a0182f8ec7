/* SPDX-License-Identifier: MIT */
/* The arena: size classes in chunks from mmap(2), under one lock. */
#include "base/arena.h"

#include "base/lock.h"
#include "base/memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define LINE 64u                  /* Alignment of mappings' contents and of larger objects. */
#define STEP 16u                  /* Alignment of the others. */
#define CHUNK ((size_t)256 << 10) /* Smallest chunk. */
#define CHUNK_MAX ((size_t)8 << 20)
#define LARGE ((size_t)32 << 10) /* Objects of at least this size have mappings of their own. */
#define AHEAD ((size_t)64 << 10) /* Enough for the first requests of a program. */
#define BITS_MAX 46              /* Requests above 2^46 bytes are refused. */
#define CLASSES (16 + 4 * (BITS_MAX - 8))

/* A free object.  Its other bytes are zero. */
struct hole {
    struct hole *next;
    size_t bytes; /* Only in the list of orphans: the requested bytes. */
};

/* The first line of every mapping. */
struct mapping {
    struct mapping *next;  /* All mappings, newest first. */
    struct mapping *spare; /* List of chunks that nothing was carved from yet. */
    size_t bytes;          /* Size of the mapping. */
    unsigned size_class;   /* Class of the one object in it; CLASSES for a chunk. */
};
_Static_assert(sizeof(struct mapping) <= LINE, "objects start one line into a mapping");

static ZC_LOCK(arena_lock, ZC_RANK_ARENA);
static struct {
    struct mapping *mappings;
    struct mapping *spares;
    struct {
        char *at, *end;
    } chunk; /* The rest of the current one. */
    struct hole *holes[CLASSES];
    struct hole *orphans; /* Freed in a signal handler that interrupted the arena.  Atomic. */
    size_t mapped;        /* Atomic. */
} arena;

/* Steps of 16 bytes up to 256, then four steps from each power of two to the next. */
static unsigned class_of(size_t bytes)
{
    if (bytes <= 256)
        return bytes ? (unsigned)((bytes - 1) / 16) : 0;
    unsigned bits = 63u - (unsigned)__builtin_clzl(bytes - 1);
    return 16 + 4 * (bits - 8) + (unsigned)(((bytes - 1) >> (bits - 2)) & 3);
}

static size_t class_bytes(unsigned size_class)
{
    unsigned step = size_class - 16;
    if (size_class < 16)
        return 16 * ((size_t)size_class + 1);
    return ((size_t)256 << (step / 4)) / 4 * (5 + step % 4);
}

/* Atomic stores, because lock-free readers may load from a freed object. */
static void clear_bytes(void *memory, size_t bytes)
{
    uint64_t *word = memory;
    for (size_t i = 0; i < bytes / sizeof(*word); i++)
        __atomic_store_n(&word[i], 0, __ATOMIC_RELAXED);
}

static struct mapping *mapping_new(size_t bytes, unsigned size_class)
{
    int saved = errno;
    struct mapping *m =
        zc_memory_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (m == MAP_FAILED)
        return NULL;
    *m = (struct mapping){.next = arena.mappings, .bytes = bytes, .size_class = size_class};
    /* A child of fork(2) walks the list, whatever another thread was doing here. */
    __atomic_store_n(&arena.mappings, m, __ATOMIC_RELEASE);
    __atomic_fetch_add(&arena.mapped, bytes, __ATOMIC_RELAXED);
    return m;
}

/* Zeroes whole pages.  The kernel drops them if it may (not under mlockall(2)). */
static void clear_pages(void *memory, size_t bytes)
{
    int saved = errno;
    if (zc_memory_advise(memory, bytes, MADV_DONTNEED) != 0)
        clear_bytes(memory, bytes);
    errno = saved;
}

static struct mapping *new_chunk(void)
{
    struct mapping *m = arena.spares;
    size_t bytes = __atomic_load_n(&arena.mapped, __ATOMIC_RELAXED) / 16 / CHUNK * CHUNK;
    if (m != NULL) {
        arena.spares = m->spare;
        return m;
    }
    if (bytes < CHUNK)
        bytes = CHUNK;
    return mapping_new(bytes < CHUNK_MAX ? bytes : CHUNK_MAX, CLASSES);
}

/* Takes `bytes`, a multiple of STEP, from the current chunk or a new one. */
static char *chunk_carve(size_t bytes)
{
    size_t align = bytes % LINE ? STEP : LINE;
    size_t skipped = -(uintptr_t)arena.chunk.at & (align - 1);
    if ((size_t)(arena.chunk.end - arena.chunk.at) < skipped + bytes) {
        struct mapping *m = new_chunk();
        if (m == NULL)
            return NULL;
        arena.chunk.at = (char *)m + LINE;
        arena.chunk.end = (char *)m + m->bytes;
        skipped = 0;
    }
    char *memory = arena.chunk.at + skipped;
    arena.chunk.at = memory + bytes;
    return memory;
}

static void *from_mapping(unsigned size_class, size_t bytes)
{
    struct mapping *m = mapping_new(zc_page_end(bytes + LINE), size_class);
    return m != NULL ? (char *)m + LINE : NULL;
}

static void hole_push(void *memory, unsigned size_class)
{
    struct hole *hole = memory;
    __atomic_store_n(&hole->next, arena.holes[size_class], __ATOMIC_RELAXED);
    arena.holes[size_class] = hole;
}

static void adopt_orphans(void)
{
    struct hole *orphan = __atomic_exchange_n(&arena.orphans, NULL, __ATOMIC_ACQUIRE);
    while (orphan != NULL) {
        struct hole *next = orphan->next;
        unsigned size_class = class_of(orphan->bytes);
        clear_bytes(orphan, sizeof(*orphan));
        hole_push(orphan, size_class);
        orphan = next;
    }
}

void *zc_arena_get(size_t bytes)
{
    void *memory;
    if (bytes > (size_t)1 << BITS_MAX || !zc_lock_take(&arena_lock))
        return NULL;
    unsigned size_class = class_of(bytes);
    size_t whole = class_bytes(size_class);
    if (__atomic_load_n(&arena.orphans, __ATOMIC_RELAXED) != NULL)
        adopt_orphans();
    struct hole *hole = arena.holes[size_class];
    if (hole != NULL) {
        arena.holes[size_class] = hole->next;
        clear_bytes(hole, sizeof(*hole));
        memory = hole;
    } else if (whole < LARGE) {
        memory = chunk_carve(whole);
    } else {
        memory = from_mapping(size_class, whole);
    }
    zc_lock_drop(&arena_lock);
    return memory;
}

/* Clears the pages of a large object except the first, which also holds the mapping's header. */
static void clear_large(char *memory, size_t bytes)
{
    size_t first = (size_t)sysconf(_SC_PAGESIZE) - LINE;
    if (first > bytes)
        first = bytes;
    clear_bytes(memory, first);
    if (bytes > first)
        clear_pages(memory + first, zc_page_end(bytes - first));
}

/* For a thread that was interrupted inside the arena: the next zc_arena_get() takes the object. */
static void put_orphan(struct hole *hole, size_t bytes)
{
    struct hole *head = __atomic_load_n(&arena.orphans, __ATOMIC_RELAXED);
    __atomic_store_n(&hole->bytes, bytes, __ATOMIC_RELAXED);
    do
        __atomic_store_n(&hole->next, head, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&arena.orphans, &head, hole, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED));
}

void zc_arena_put(void *memory, size_t bytes)
{
    unsigned size_class = class_of(bytes);
    size_t whole = class_bytes(size_class);
    if (memory == NULL)
        return;
    if (whole < LARGE)
        clear_bytes(memory, whole);
    else
        clear_large(memory, whole);
    if (!zc_lock_take(&arena_lock)) {
        put_orphan(memory, bytes);
        return;
    }
    hole_push(memory, size_class);
    zc_lock_drop(&arena_lock);
}

bool zc_arena_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    void **memory = array;
    unsigned more = *room ? 2 * *room : first;
    if (count < *room)
        return true;
    void *larger = zc_arena_get(more * bytes);
    if (!larger)
        return false;
    if (*memory)
        memcpy(larger, *memory, count * bytes);
    zc_arena_put(*memory, *room * bytes);
    *memory = larger;
    *room = more;
    return true;
}

char *zc_arena_ahead(char **end_out)
{
    zc_arena_put(zc_arena_get(1), 1); /* Makes sure that there is a chunk. */
    if (!zc_lock_take(&arena_lock))
        return NULL;
    char *at = arena.chunk.at;
    *end_out = (size_t)(arena.chunk.end - at) < AHEAD ? arena.chunk.end : at + AHEAD;
    zc_lock_drop(&arena_lock);
    return at;
}

/* From the linker: the start of this object's first segment, and of its uninitialised variables. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char __bss_start[] __attribute__((visibility("hidden")));

static void populate_pages(const char *from, const char *to, int how)
{
    uintptr_t first = zc_page_start((uintptr_t)from);
    int saved = errno;
    zc_memory_advise((void *)first, (uintptr_t)to - first, how);
    errno = saved;
}

void zc_arena_populate(void)
{
    char *end, *at = zc_arena_ahead(&end);
    populate_pages(__ehdr_start, __bss_start, MADV_POPULATE_READ);
    if (at)
        populate_pages(at, end, MADV_POPULATE_WRITE);
}

size_t zc_arena_mapped_bytes(void)
{
    return __atomic_load_n(&arena.mapped, __ATOMIC_RELAXED);
}

void zc_arena_reset(void)
{
    struct mapping *all = arena.mappings;
    size_t mapped = arena.mapped;
    memset(&arena, 0, sizeof(arena));
    arena.mappings = all;
    arena.mapped = mapped;
    for (struct mapping *m = all; m != NULL; m = m->next) {
        struct mapping kept = *m;
        clear_pages(m, kept.bytes);
        *m = kept;
        if (kept.size_class < CLASSES) {
            hole_push((char *)m + LINE, kept.size_class);
        } else {
            m->spare = arena.spares;
            arena.spares = m;
        }
    }
}
