/* SPDX-License-Identifier: MIT */
/* The arena: size classes in chunks from mmap(2), under one lock. */
#include "base/arena.h"

#include "base/errno.h"
#include "base/lock.h"
#include "base/memory.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define LINE 64u                  /* Alignment of mappings' contents and of larger objects. */
#define STEP 16u                  /* Alignment of the others. */
#define CHUNK ((size_t)256 << 10) /* The kernel makes one mapping of neighbours. */
#define LARGE ((size_t)32 << 10)  /* Objects of at least this size have mappings of their own. */
#define BITS_MAX 46               /* Requests above 2^46 bytes are refused. */
#define CLASSES (16 + 4 * (BITS_MAX - 8))

/* A free object.  Its other bytes are zero. */
struct hole {
    struct hole *next;
};

/* The first line of every mapping. */
struct mapping {
    struct mapping *next; /* All mappings, newest first. */
    size_t bytes;         /* Size of the mapping. */
};
_Static_assert(sizeof(struct mapping) <= LINE, "objects start one line into a mapping");

static ZC_LOCK(arena_lock, ZC_RANK_ARENA);
static struct {
    struct mapping *mappings;
    struct {
        char *at, *end;
    } chunk; /* The rest of the current one. */
    struct hole *holes[CLASSES];
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

static struct mapping *mapping_new(size_t bytes)
{
    ZC_KEEPS_ERRNO;
    struct mapping *m =
        zc_memory_map(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return NULL;
    *m = (struct mapping){.next = arena.mappings, .bytes = bytes};
    /* A child of fork(2) walks the list, whatever another thread was doing here. */
    __atomic_store_n(&arena.mappings, m, __ATOMIC_RELEASE);
    return m;
}

/* Zeroes whole pages.  The kernel drops them if it may (not under mlockall(2)). */
static void clear_pages(void *memory, size_t bytes)
{
    ZC_KEEPS_ERRNO;
    if (zc_memory_advise(memory, bytes, MADV_DONTNEED) != 0)
        clear_bytes(memory, bytes);
}

/* Takes `bytes`, a multiple of STEP, from the current chunk or a new one. */
static char *chunk_carve(size_t bytes)
{
    size_t align = bytes % LINE ? STEP : LINE;
    size_t skipped = -(uintptr_t)arena.chunk.at & (align - 1);
    if ((size_t)(arena.chunk.end - arena.chunk.at) < skipped + bytes) {
        struct mapping *m = mapping_new(CHUNK);
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

static void *from_mapping(size_t bytes)
{
    struct mapping *m = mapping_new(zc_page_end(bytes + LINE));
    return m != NULL ? (char *)m + LINE : NULL;
}

static void hole_push(void *memory, unsigned size_class)
{
    struct hole *hole = memory;
    __atomic_store_n(&hole->next, arena.holes[size_class], __ATOMIC_RELAXED);
    arena.holes[size_class] = hole;
}

void *zc_arena_get(size_t bytes)
{
    void *memory;
    if (bytes > (size_t)1 << BITS_MAX || !zc_lock_take(&arena_lock))
        return NULL;
    unsigned size_class = class_of(bytes);
    size_t whole = class_bytes(size_class);
    struct hole *hole = arena.holes[size_class];
    if (hole != NULL) {
        arena.holes[size_class] = hole->next;
        clear_bytes(hole, sizeof(*hole));
        memory = hole;
    } else if (whole < LARGE) {
        memory = chunk_carve(whole);
    } else {
        memory = from_mapping(whole);
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
    if (!zc_lock_take(&arena_lock))
        return;
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

void zc_arena_reset(void)
{
    for (struct mapping *m = arena.mappings, *next; m != NULL; m = next) {
        next = m->next;
        clear_pages(m, m->bytes);
    }
    memset(&arena, 0, sizeof(arena));
}
