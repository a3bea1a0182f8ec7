/* SPDX-License-Identifier: MIT */
/*
 * The ordered index of blocks: a treap, that is a search tree by addresses in which each node has a
 * priority that no node below it exceeds.  A priority is a hash of the address, so the tree is as
 * flat as one of blocks that came in random order, and nothing has to be kept for balance.
 *
 * Many threads read it while one writes.  A sequence counter, odd during a change, tells readers to
 * try again.  Every word that readers see is stored with release and loaded with acquire order.  A
 * reader that saw a word of a change therefore also sees the odd counter that was stored before it.
 * So no fence is needed, which ThreadSanitizer would not understand.
 */
#include "ledger/index.h"

#include <stddef.h>

#include "base/own.h"

#define TRIES 64 /* Attempts of a lock-free look-up. */
/* More nodes than on any path: a reader comes to more if a change interferes. */
#define DEPTH 256

ZC_OWN uint64_t zc_index_sequence;
static uint64_t reached; /* Its last even value.  A child of fork(2) goes on from there: what its
                          * thread has seen in the parent never holds again. */
static ZC_OWN struct zc_index_node *root;

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

/* Different for each address, and without the order of addresses that are a step apart. */
static uint64_t priority(const struct zc_index_node *node)
{
    uint64_t mixed = node->base * UINT64_C(0x9e3779b97f4a7c15);
    return (mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t end_of(const struct zc_index_node *node)
{
    uint64_t base = GET(node->base), size = GET(node->size);
    size = size != 0 ? size : 1;
    return size < UINT64_MAX - base ? base + size : UINT64_MAX;
}

/* The nodes on both sides of an address: *low_out begins at or below it, *high_out above.  False if
 * the search did not come to an end. */
static bool search(uint64_t address, struct zc_index_node **low_out,
                   struct zc_index_node **high_out)
{
    struct zc_index_node *node = GET(root), *ends[2] = {NULL, NULL};
    for (unsigned i = 0; node != NULL && i < DEPTH; i++) {
        bool over = address >= GET(node->base);
        ends[!over] = node;
        node = GET(node->side[over]);
    }
    *low_out = ends[0];
    *high_out = ends[1];
    return node == NULL;
}

/* One attempt of a look-up; false if a change interfered. */
static bool find_once(uint64_t address, struct zc_index_seen *seen)
{
    uint64_t sequence = GET(zc_index_sequence);
    struct zc_index_node *low, *high;
    bool whole = search(address, &low, &high);
    uint64_t end = low != NULL ? end_of(low) : 0;
    bool inside = address < end;
    *seen = (struct zc_index_seen){.sequence = sequence, .node = inside ? low : NULL};
    seen->base = inside ? GET(low->base) : end;
    seen->bytes = (inside ? end : high != NULL ? GET(high->base) : UINT64_MAX) - seen->base;
    return whole && !(sequence & 1) && GET(zc_index_sequence) == sequence;
}

bool zc_index_find(uint64_t address, struct zc_index_seen *seen_out)
{
    for (int i = 0; i < TRIES; i++)
        if (find_once(address, seen_out))
            return true;
    *seen_out = (struct zc_index_seen){0};
    return false;
}

struct zc_index_node *zc_index_insert(struct zc_index_node *node)
{
    struct zc_index_node **link = &root, *rest, *low, *high;
    struct zc_index_node **end[2] = {&node->side[0], &node->side[1]};
    search(node->base, &low, &high);
    if (low != NULL && node->base < end_of(low))
        return low;
    if (high != NULL && high->base < end_of(node))
        return high;
    while (*link != NULL && priority(*link) > priority(node))
        link = &(*link)->side[node->base >= (*link)->base];
    change_begin();
    /* The nodes whose place it takes go to its two sides. */
    for (rest = *link; rest != NULL;) {
        bool over = rest->base > node->base;
        SET(*end[over], rest);
        end[over] = &rest->side[!over];
        rest = *end[over];
    }
    SET(*end[0], NULL);
    SET(*end[1], NULL);
    SET(*link, node);
    change_end();
    return NULL;
}

bool zc_index_remove(struct zc_index_node *node)
{
    struct zc_index_node **link = &root, *left[2] = {node->side[0], node->side[1]};
    while (*link != NULL && *link != node)
        link = &(*link)->side[node->base >= (*link)->base];
    if (*link == NULL)
        return false;
    change_begin();
    /* Those on its two sides take its place, by their priorities. */
    while (left[0] != NULL && left[1] != NULL) {
        bool over = priority(left[1]) > priority(left[0]);
        SET(*link, left[over]);
        link = &left[over]->side[!over];
        left[over] = *link;
    }
    SET(*link, left[left[0] == NULL]);
    change_end();
    return true;
}

struct zc_index_node *zc_index_next(uint64_t from)
{
    struct zc_index_node *low, *high;
    search(from, &low, &high);
    return low != NULL && low->base == from ? low : high;
}
