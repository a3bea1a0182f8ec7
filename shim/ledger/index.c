/* SPDX-License-Identifier: MIT */
/*
 * The ordered index of blocks: a sorted array of chunks of sorted entries.  Many threads read it
 * while one writes.  A sequence counter, odd during a change, tells readers to try again.
 *
 * Every word that readers see is stored with release and loaded with acquire order.  A reader that
 * saw a word of a change therefore also sees the odd counter that was stored before it.  So no
 * fence is needed, which ThreadSanitizer would not understand.  Chunks and arrays are never given
 * back to the arena: a late reader may still look into them, and discards what it finds.
 */
#include "ledger/index.h"

#include "base/arena.h"
#include "base/own.h"

#define FANOUT 63u      /* Entries of a chunk: just as many as fit the arena's class of 1536 B. */
#define FIRST_TOP 64u   /* Chunks in the first top array; its size doubles when needed. */
#define MERGE_BELOW 24u /* A chunk with fewer entries is merged with a neighbour if possible. */
#define MERGE_FILL 48u  /* Most entries of a merged chunk: it is not split again at once. */
#define TRIES 64        /* Attempts of a lock-free look-up. */

struct chunk {
    uint64_t count;                 /* Entries in use. */
    uint64_t base[FANOUT];          /* First address of each block, ascending. */
    uint64_t end[FANOUT];           /* First address after it. */
    struct zc_block *block[FANOUT]; /* The block; [0] links chunks of the spare list. */
};
_Static_assert(sizeof(struct chunk) <= 1536, "a chunk fits the arena's class");

struct slot {
    uint64_t first;      /* Lowest base in the chunk; 0 in slot 0, so that it matches everything. */
    struct chunk *chunk; /* Never NULL in a used slot; empty only if it is the only chunk. */
};

ZC_OWN uint64_t zc_index_sequence;
static uint64_t reached; /* Its last even value.  A child of fork(2) goes on from there: what its
                          * thread has seen in the parent never holds again. */
static ZC_OWN struct {
    struct slot *top; /* The array of chunks, `capacity` slots. */
    uint64_t count;   /* Slots in use. */
    uint64_t capacity;
    struct chunk *spare; /* Chunks not in use. */
    size_t taken;        /* Bytes from the arena. */
} blocks;

#define GET(word) __atomic_load_n(&(word), __ATOMIC_ACQUIRE)
#define SET(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)

static void change_begin(void)
{
    SET(zc_index_sequence, reached + 1);
}

static void change_end(void)
{
    reached += 2;
    SET(zc_index_sequence, reached);
}

/* The number of n ascending keys, `step` words apart, that are at most `key`.  The loop does not
 * branch on keys, because the outcome of a binary search can't be predicted. */
static inline size_t rank(const uint64_t *keys, size_t step, size_t n, uint64_t key)
{
    size_t low = 0;
    if (n == 0)
        return 0;
    while (n > 1) {
        size_t half = n / 2;
        low += __atomic_load_n(&keys[(low + half - 1) * step], __ATOMIC_ACQUIRE) <= key ? half : 0;
        n -= half;
    }
    return low + (__atomic_load_n(&keys[low * step], __ATOMIC_ACQUIRE) <= key);
}

static inline size_t top_rank(const struct slot *array, size_t n, uint64_t key)
{
    return rank(&array->first, sizeof(*array) / sizeof(uint64_t), n, key);
}

/* One attempt of a look-up; false if a change interfered. */
static bool find_once(uint64_t address, struct zc_index_seen *seen)
{
    uint64_t sequence = GET(zc_index_sequence), n = GET(blocks.count), above = UINT64_MAX;
    const struct slot *array = GET(blocks.top);
    *seen = (struct zc_index_seen){.sequence = sequence, .bytes = UINT64_MAX};
    if ((sequence & 1) != 0 || GET(zc_index_sequence) != sequence)
        return false;
    if (n == 0)
        return true;
    size_t s = top_rank(array, n, address);
    if (s == 0)
        return false; /* Slot 0's key is above 0 only in the middle of a change. */
    const struct chunk *chunk = GET(array[s - 1].chunk);
    if (GET(zc_index_sequence) != sequence)
        return false;
    uint64_t entries = GET(chunk->count), end = 0;
    entries = entries < FANOUT ? entries : FANOUT;
    size_t at = rank(chunk->base, 1, entries, address);
    if (at > 0) {
        seen->base = GET(chunk->base[at - 1]);
        end = GET(chunk->end[at - 1]);
    }
    if (address < end) {
        seen->block = GET(chunk->block[at - 1]);
        seen->bytes = end - seen->base;
        return GET(zc_index_sequence) == sequence;
    }
    if (at < entries)
        above = GET(chunk->base[at]);
    else if (s < n)
        above = GET(array[s].first);
    seen->base = end;
    seen->bytes = above - end;
    return GET(zc_index_sequence) == sequence;
}

bool zc_index_find(uint64_t address, struct zc_index_seen *seen_out)
{
    for (int i = 0; i < TRIES; i++)
        if (find_once(address, seen_out))
            return true;
    *seen_out = (struct zc_index_seen){0};
    return false;
}

static struct chunk *chunk_new(void)
{
    struct chunk *chunk = blocks.spare;
    if (chunk != NULL) {
        blocks.spare = (struct chunk *)chunk->block[0];
        SET(chunk->count, 0);
        return chunk;
    }
    chunk = zc_arena_get(sizeof(*chunk));
    if (chunk != NULL)
        blocks.taken += sizeof(*chunk);
    return chunk;
}

static void chunk_spare(struct chunk *chunk)
{
    SET(chunk->block[0], (struct zc_block *)blocks.spare);
    blocks.spare = chunk;
}

static void entry_set(struct chunk *chunk, size_t at, uint64_t base, uint64_t end,
                      struct zc_block *block)
{
    SET(chunk->base[at], base);
    SET(chunk->end[at], end);
    SET(chunk->block[at], block);
}

static void entry_copy(struct chunk *to, size_t at, const struct chunk *from, size_t from_at)
{
    entry_set(to, at, from->base[from_at], from->end[from_at], from->block[from_at]);
}

static void entry_insert(struct chunk *chunk, size_t at, uint64_t base, uint64_t end,
                         struct zc_block *block)
{
    for (size_t i = chunk->count; i > at; i--)
        entry_copy(chunk, i, chunk, i - 1);
    entry_set(chunk, at, base, end, block);
    SET(chunk->count, chunk->count + 1);
}

static void entry_remove(struct chunk *chunk, size_t at)
{
    SET(chunk->count, chunk->count - 1);
    for (size_t i = at; i < chunk->count; i++)
        entry_copy(chunk, i, chunk, i + 1);
}

/* Moves the entries from `at` on to the end of another chunk, which comes later or is empty. */
static void entries_move(struct chunk *to, struct chunk *from, size_t at)
{
    for (size_t i = at; i < from->count; i++)
        entry_copy(to, to->count + i - at, from, i);
    SET(to->count, to->count + from->count - at);
    SET(from->count, at);
}

/* Makes room for one more slot.  The old array stays for late readers; all old arrays together are
 * smaller than the current one. */
static bool top_reserve(void)
{
    uint64_t capacity = blocks.capacity == 0 ? FIRST_TOP : 2 * blocks.capacity;
    if (blocks.count < blocks.capacity)
        return true;
    struct slot *array = zc_arena_get(capacity * sizeof(*array));
    if (array == NULL)
        return false;
    for (size_t i = 0; i < blocks.count; i++) {
        SET(array[i].first, blocks.top[i].first);
        SET(array[i].chunk, blocks.top[i].chunk);
    }
    blocks.taken += capacity * sizeof(*array);
    blocks.capacity = capacity;
    change_begin();
    SET(blocks.top, array);
    change_end();
    return true;
}

static void top_insert(size_t at, uint64_t first, struct chunk *chunk)
{
    for (size_t i = blocks.count; i > at; i--) {
        SET(blocks.top[i].first, blocks.top[i - 1].first);
        SET(blocks.top[i].chunk, blocks.top[i - 1].chunk);
    }
    SET(blocks.top[at].first, first);
    SET(blocks.top[at].chunk, chunk);
    SET(blocks.count, blocks.count + 1);
}

static void top_remove(size_t at)
{
    chunk_spare(blocks.top[at].chunk);
    SET(blocks.count, blocks.count - 1);
    for (size_t i = at; i < blocks.count; i++) {
        SET(blocks.top[i].first, blocks.top[i + 1].first);
        SET(blocks.top[i].chunk, blocks.top[i + 1].chunk);
    }
    SET(blocks.top[0].first, 0);
}

/*
 * Splits the full chunk of slot s for an entry at `at`.  At either end only the new entry moves:
 * programs mostly get ascending or descending addresses, and halves would stay half empty.
 */
static bool insert_split(size_t s, size_t at, uint64_t base, uint64_t end, struct zc_block *block)
{
    struct chunk *full = blocks.top[s].chunk;
    size_t keep = at == FANOUT ? FANOUT : at == 0 ? 0 : FANOUT / 2;
    if (at == FANOUT && s + 1 < blocks.count && blocks.top[s + 1].chunk->count < FANOUT) {
        change_begin();
        entry_insert(blocks.top[s + 1].chunk, 0, base, end, block);
        SET(blocks.top[s + 1].first, base);
        change_end();
        return true;
    }
    if (!top_reserve())
        return false;
    struct chunk *fresh = chunk_new();
    if (fresh == NULL)
        return false;
    change_begin();
    entries_move(fresh, full, keep);
    if (at == FANOUT)
        entry_insert(fresh, 0, base, end, block);
    else if (at <= keep)
        entry_insert(full, at, base, end, block);
    else
        entry_insert(fresh, at - keep, base, end, block);
    top_insert(s + 1, fresh->base[0], fresh);
    change_end();
    return true;
}

/* The entry that overlaps [base, end), which would be inserted at `at` in slot s; or NULL. */
static struct zc_block *entry_overlap(size_t s, size_t at, uint64_t base, uint64_t end)
{
    const struct chunk *chunk = blocks.top[s].chunk;
    if (at > 0 && base < chunk->end[at - 1])
        return chunk->block[at - 1];
    if (at == chunk->count) {
        if (s + 1 >= blocks.count)
            return NULL;
        chunk = blocks.top[s + 1].chunk;
        at = 0;
    }
    return chunk->base[at] < end ? chunk->block[at] : NULL;
}

bool zc_index_insert(uint64_t base, uint64_t end, struct zc_block *block,
                     struct zc_block **overlap_out)
{
    struct chunk *chunk;
    *overlap_out = NULL;
    if (blocks.count == 0) {
        if (!top_reserve() || (chunk = chunk_new()) == NULL)
            return false;
        change_begin();
        top_insert(0, 0, chunk);
        change_end();
    }
    size_t s = top_rank(blocks.top, blocks.count, base) - 1;
    chunk = blocks.top[s].chunk;
    size_t at = rank(chunk->base, 1, chunk->count, base);
    *overlap_out = entry_overlap(s, at, base, end);
    if (*overlap_out != NULL)
        return false;
    if (chunk->count == FANOUT)
        return insert_split(s, at, base, end, block);
    change_begin();
    entry_insert(chunk, at, base, end, block);
    change_end();
    return true;
}

/* Merges the chunk of slot s + 1 into that of slot s if they fit into one. */
static bool chunk_merge(size_t s)
{
    if (s + 1 >= blocks.count ||
        blocks.top[s].chunk->count + blocks.top[s + 1].chunk->count > MERGE_FILL)
        return false;
    entries_move(blocks.top[s].chunk, blocks.top[s + 1].chunk, 0);
    top_remove(s + 1);
    return true;
}

bool zc_index_remove(uint64_t base, const struct zc_block *block)
{
    if (blocks.count == 0)
        return false;
    size_t s = top_rank(blocks.top, blocks.count, base) - 1;
    struct chunk *chunk = blocks.top[s].chunk;
    size_t at = rank(chunk->base, 1, chunk->count, base);
    if (at == 0 || chunk->base[at - 1] != base || chunk->block[at - 1] != block)
        return false;
    change_begin();
    entry_remove(chunk, at - 1);
    if (chunk->count == 0 && blocks.count > 1) {
        top_remove(s);
    } else if (chunk->count > 0) {
        if (at == 1 && s > 0)
            SET(blocks.top[s].first, chunk->base[0]);
        if (chunk->count < MERGE_BELOW && !chunk_merge(s) && s > 0)
            chunk_merge(s - 1);
    }
    change_end();
    return true;
}

struct zc_block *zc_index_next(uint64_t from)
{
    if (blocks.count == 0)
        return NULL;
    size_t s = from == 0 ? 0 : top_rank(blocks.top, blocks.count, from - 1) - 1;
    const struct chunk *chunk = blocks.top[s].chunk;
    size_t at = from == 0 ? 0 : rank(chunk->base, 1, chunk->count, from - 1);
    if (at < chunk->count)
        return chunk->block[at];
    return s + 1 < blocks.count ? blocks.top[s + 1].chunk->block[0] : NULL;
}

size_t zc_index_bytes(void)
{
    return blocks.taken;
}
