/* SPDX-License-Identifier: MIT */
/*
 * The ordered index of blocks: a treap, a search tree by first addresses that is a heap by their
 * hashes, so that its height does not depend on the order in which blocks come.  Its links are in
 * the blocks.  Many threads read it while one writes.  A sequence counter, odd during a change,
 * tells readers to try again.
 *
 * Every word that readers see is stored with release and loaded with acquire order.  A reader that
 * saw a word of a change therefore also sees the odd counter that was stored before it.  So no
 * fence is needed, which ThreadSanitizer would not understand.  Blocks are never given back to the
 * arena: a late reader may still look into them, and discards what it finds.
 */
#include "base/own.h"
#include "ledger/block.h"

#define TRIES 64   /* Attempts of a lock-free look-up. */
#define HEIGHT 256 /* No tree is higher: a reader that has gone as far met a change. */

ZC_OWN uint64_t zc_index_sequence;
static uint64_t reached; /* Its last even value.  A child of fork(2) goes on from there: what its
                          * thread has seen in the parent never holds again. */
static ZC_OWN struct zc_block *root;

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

/* Those of a higher rank are above.  One product would leave addresses that follow each other at
 * even steps in order. */
static uint64_t rank_of(const struct zc_block *block)
{
    uint64_t rank = (block->base ^ block->base >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return (rank ^ rank >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
}

/* One attempt of a look-up; false if a change interfered.  It does not branch on addresses, because
 * the way through a tree can't be predicted. */
static bool find_once(uint64_t address, struct zc_index_seen *seen)
{
    struct zc_block *near[2] = {NULL, NULL}; /* The next one above, and the last one not above. */
    uint64_t sequence = GET(zc_index_sequence), base = 0, end = 0;
    const struct zc_block *at = sequence & 1 ? NULL : GET(root);
    for (unsigned i = 0; at && i < HEIGHT; i++) {
        bool behind = GET(at->base) <= address;
        near[behind] = (struct zc_block *)at;
        at = GET(at->side[behind]);
    }
    if (near[1]) {
        base = GET(near[1]->base);
        end = zc_block_end(base, GET(near[1]->size));
    }
    if (address < end)
        *seen = (struct zc_index_seen){sequence, base, end - base, near[1]};
    else
        *seen = (struct zc_index_seen){sequence, end,
                                       (near[0] ? GET(near[0]->base) : UINT64_MAX) - end, NULL};
    return !at && !(sequence & 1) && GET(zc_index_sequence) == sequence;
}

bool zc_index_find(uint64_t address, struct zc_index_seen *seen_out)
{
    for (int i = 0; i < TRIES; i++)
        if (find_once(address, seen_out))
            return true;
    *seen_out = (struct zc_index_seen){0};
    return false;
}

struct zc_block *zc_index_next(uint64_t from)
{
    struct zc_block *near[2] = {NULL, NULL};
    for (struct zc_block *at = root; at; at = at->side[at->base < from])
        near[at->base < from] = at;
    return near[0];
}

/* The link to the block, or where it would be.  `near` gets the last one before it on the way
 * there, and the last one behind it. */
static struct zc_block **link_to(const struct zc_block *block, struct zc_block *near[2])
{
    struct zc_block **link = &root;
    uint64_t rank = rank_of(block);
    while (*link && rank_of(*link) > rank) {
        bool behind = (*link)->base > block->base;
        near[behind] = *link;
        link = &(*link)->side[!behind];
    }
    return link;
}

struct zc_block *zc_index_insert(struct zc_block *block)
{
    struct zc_block *near[2] = {NULL, NULL}, **link = link_to(block, near), *below = *link;
    for (struct zc_block *at = below; at; at = at->side[at->base <= block->base])
        near[at->base > block->base] = at;
    if (near[0] && zc_block_end(near[0]->base, near[0]->size) > block->base)
        return near[0];
    if (near[1] && near[1]->base < zc_block_end(block->base, block->size))
        return near[1];
    struct zc_block **part[2] = {&block->side[0], &block->side[1]};
    change_begin();
    while (below) { /* Parted: before the block, and behind it. */
        bool behind = below->base > block->base;
        SET(*part[behind], below);
        part[behind] = &below->side[!behind];
        below = below->side[!behind];
    }
    SET(*part[0], NULL);
    SET(*part[1], NULL);
    SET(*link, block);
    change_end();
    return NULL;
}

bool zc_index_remove(struct zc_block *block)
{
    struct zc_block *part[2] = {block->side[0], block->side[1]}, *near[2];
    struct zc_block **link = link_to(block, near);
    if (*link != block)
        return false;
    change_begin();
    while (part[0] && part[1]) {
        bool behind = rank_of(part[1]) > rank_of(part[0]);
        SET(*link, part[behind]);
        link = &part[behind]->side[!behind];
        part[behind] = *link;
    }
    SET(*link, part[0] ? part[0] : part[1]);
    change_end();
    return true;
}
