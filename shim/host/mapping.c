/* SPDX-License-Identifier: MIT */
/* The table of mappings: a treap by address, under a lock. */
#include "host/mapping.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>

#include "base/lock.h"
#include "base/memory.h"
#include "base/module.h"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif

#define STEP ((size_t)64 << 10) /* Records are made in steps of this many bytes. */

/* A mapping, or what is left of one.  Everything changes under the lock. */
struct mapping {
    uintptr_t base, end;
    uintptr_t low, high;          /* Between them lie all copies so far. */
    struct mapping *left, *right; /* Lower and higher ones; `right` links spare records. */
    uint64_t order;               /* Above those of both children. */
    enum zc_source source;
};

static ZC_LOCK(lock, ZC_RANK_MAPPING);
static struct mapping *root, *spare;
static uint64_t orders; /* Last random number. */
static bool any;        /* There may be mappings.  Atomic. */
static bool missed;     /* A change was not noted.  Atomic. */

/* Returns those that begin below `key`, and the others. */
static void split(struct mapping *t, uintptr_t key, struct mapping **low, struct mapping **high)
{
    while (t) {
        if (t->base < key) {
            *low = t;
            low = &t->right;
            t = t->right;
        } else {
            *high = t;
            high = &t->left;
            t = t->left;
        }
    }
    *low = *high = NULL;
}

/* All of `low` lie below those of `high`. */
static struct mapping *join(struct mapping *low, struct mapping *high)
{
    struct mapping *joined, **at = &joined;
    while (low && high) {
        if (low->order > high->order) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low ? low : high;
    return joined;
}

static struct mapping *last_of(struct mapping *t)
{
    while (t && t->right)
        t = t->right;
    return t;
}

/* The records stay for good: a child of fork(2) finds them where they were. */
static bool make_records(void)
{
    struct mapping *made =
        zc_memory_map(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return false;
    for (size_t i = 0; i < STEP / sizeof(*made); i++) {
        made[i].right = spare;
        spare = &made[i];
    }
    return true;
}

/* A record of its own, not in the table.  NULL without memory: then the pages are not known. */
static struct mapping *record(uintptr_t base, uintptr_t end, enum zc_source source)
{
    if (!spare && !make_records())
        return NULL;
    struct mapping *m = spare;
    spare = m->right;
    orders = orders * UINT64_C(6364136223846793005) + 1442695040888963407;
    *m = (struct mapping){
        .base = base, .end = end, .low = UINTPTR_MAX, .order = orders >> 1, .source = source};
    return m;
}

static void drop_all(struct mapping *t)
{
    while (t) {
        struct mapping *gone = t;
        t = join(t->left, t->right);
        gone->right = spare;
        spare = gone;
    }
}

/* What lies from `at` on in a mapping, which the caller shortens, as one of its own. */
static struct mapping *rest_of(const struct mapping *m, uintptr_t at)
{
    struct mapping *rest = record(at, m->end, m->source);
    if (rest) {
        rest->low = m->low;
        rest->high = m->high;
    }
    return rest;
}

static void remove_range(uintptr_t low, uintptr_t high)
{
    struct mapping *below, *inside, *above;
    split(root, low, &below, &inside);
    split(inside, high, &inside, &above);
    struct mapping *before = last_of(below), *last = last_of(inside);
    if (last && last->end > high)
        above = join(rest_of(last, high), above);
    if (before && before->end > high)
        above = join(rest_of(before, high), above);
    if (before && before->end > low)
        before->end = low;
    drop_all(inside);
    root = join(below, above);
}

static void insert(struct mapping *m)
{
    struct mapping *below, *above;
    remove_range(m->base, m->end);
    split(root, m->base, &below, &above);
    root = join(join(below, m), above);
}

static struct mapping *find(uintptr_t address)
{
    struct mapping *found = NULL;
    for (struct mapping *t = root; t;) {
        if (t->base <= address)
            found = t;
        t = t->base <= address ? t->right : t->left;
    }
    return found && address < found->end ? found : NULL;
}

/* False in a handler that interrupted the table.  A change that it could not note makes all that is
 * in the table doubtful. */
static bool enter(void)
{
    if (!zc_lock_take(&lock))
        return false;
    if (__atomic_exchange_n(&missed, false, __ATOMIC_RELAXED)) {
        drop_all(root);
        root = NULL;
    }
    return true;
}

static enum zc_source source_of(int flags, int fd)
{
    struct statfs stat;
    if (flags & MAP_ANONYMOUS)
        return ZC_SOURCE_ANONYMOUS;
    if (fstatfs(fd, &stat) != 0)
        return ZC_SOURCE_FILE;
    return stat.f_type == TMPFS_MAGIC || stat.f_type == (__typeof__(stat.f_type))HUGETLBFS_MAGIC
               ? ZC_SOURCE_SHM
               : ZC_SOURCE_FILE;
}

static void enter_mapping(uintptr_t base, size_t n, enum zc_source source)
{
    if (!enter()) {
        __atomic_store_n(&missed, true, __ATOMIC_RELAXED);
        return;
    }
    struct mapping *m = record(base, zc_page_end(base + n), source);
    if (m) {
        insert(m);
        __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    }
    zc_lock_drop(&lock);
}

void zc_mapping_note(const void *at, size_t n, int flags, int fd)
{
    int saved = errno;
    enter_mapping((uintptr_t)at, n, source_of(flags, fd));
    errno = saved;
}

void zc_mapping_forget(const void *at, size_t n)
{
    uintptr_t low = (uintptr_t)at, high = zc_page_end(low + n);
    if (high <= low || !__atomic_load_n(&any, __ATOMIC_RELAXED))
        return;
    if (!enter()) {
        __atomic_store_n(&missed, true, __ATOMIC_RELAXED);
        return;
    }
    remove_range(low, high);
    zc_lock_drop(&lock);
}

struct zc_mapping_move zc_mapping_moving(const void *at, size_t n)
{
    struct zc_mapping_move move = {ZC_SOURCE_NONE};
    if (!__atomic_load_n(&any, __ATOMIC_RELAXED) || !enter())
        return move;
    const struct mapping *m = find((uintptr_t)at);
    if (m)
        move.source = m->source;
    zc_lock_drop(&lock);
    zc_mapping_forget(at, n);
    return move;
}

void zc_mapping_moved(const struct zc_mapping_move *move, const void *at, size_t n)
{
    int saved = errno;
    if (move->source != ZC_SOURCE_NONE && n)
        enter_mapping((uintptr_t)at, n, move->source);
    errno = saved;
}

enum zc_source zc_mapping_use(uint64_t address, uint64_t bytes, bool *again)
{
    enum zc_source source = ZC_SOURCE_NONE;
    if (!__atomic_load_n(&any, __ATOMIC_RELAXED) || !enter())
        return source;
    struct mapping *m = find(address);
    if (m) {
        source = m->source;
        *again = address < m->high && address + bytes > m->low;
        if (m->low > address)
            m->low = address;
        if (m->high < address + bytes)
            m->high = address + bytes;
    }
    zc_lock_drop(&lock);
    return source;
}

ZC_LOCK_FOR_FORKS(lock)

const struct zc_module zc_module_mapping = {.before_fork = before_fork, .after_fork = after_fork};
