/* SPDX-License-Identifier: MIT */
/* Which host blocks ZC_POLICY=auto places, by what earlier ones of their call path were worth. */
#include "place/lessons.h"

#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "host/hostheap.h"
#include "ledger/profile.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "log/summary.h"

#define PART 16u    /* Of a block's bytes so many are copied, or it tells nothing. */
#define TRIED 2u    /* Of smaller blocks of a call path, at first. */
#define LOSSES 2u   /* After so many in turn no more are placed. */
#define SWITCHES 8u /* Of a call path, that the log tells. */

#define LOOSE_MOST ((size_t)64 << 20) /* Bytes behind blocks that are registered with them. */

struct lesson {
    uint32_t requests;
    uint32_t switches;
    uint8_t losses; /* One after the other. */
    uint8_t other;  /* 1: not as at first: larger blocks are libc's, smaller ones are placed. */
};

static ZC_OWN struct lesson by_site[2][ZC_COUNTERS_SITES]; /* [1]: smaller ones.  Atomic. */
static const struct zc_rule *base; /* The file's for blocks of any call path, */
static uint64_t large;             /* from so many bytes on.  0: nothing is learned.  Atomic. */

/* That of the preset, behind what a profile has learned. */
static const struct zc_rule *find_base(const struct zc_policy *policy)
{
    for (size_t i = policy->rule_count; i-- > 0;)
        if (strcmp(policy->rules[i].name, "host-buffers") == 0 && policy->rules[i].size.count == 1)
            return &policy->rules[i];
    return NULL;
}

bool zc_lessons_start(void)
{
    if (zc_profile_learns())
        base = find_base(zc_rules());
    if (base)
        __atomic_store_n(&large, base->size.item[0].low, __ATOMIC_RELEASE);
    return base;
}

static bool is_small(uint64_t size)
{
    return size < __atomic_load_n(&large, __ATOMIC_ACQUIRE);
}

bool zc_lessons_concern(const struct zc_rule *rule, enum zc_api api, size_t size)
{
    if (!__atomic_load_n(&large, __ATOMIC_ACQUIRE))
        return false;
    if (!is_small(size))
        return rule == base;
    return !rule && api != ZC_API_realloc && api != ZC_API_reallocarray;
}

const struct zc_rule *zc_lessons_rule(const struct zc_rule *rule, size_t size, uint32_t site)
{
    bool small = is_small(size);
    struct lesson *l = &by_site[small][site];
    if (!site)
        return rule;
    uint32_t before = __atomic_fetch_add(&l->requests, 1, __ATOMIC_RELAXED);
    bool placed = small == __atomic_load_n(&l->other, __ATOMIC_RELAXED);
    /* A block that is tried in vain costs pages and a registration, so they become rarer: the
     * first two, the 16th, the 32nd, the 64th. */
    bool tried = !(before & (before + 1)) && (before < TRIED || before >= PART - 1);
    return placed || tried ? base : NULL;
}

/* The worth of a block of the host heap: 1 where it paid, -1 where it lost, 0 where it tells
 * nothing.  Memory that an earlier block had registered costs nothing any more. */
static int lessons_worth(const struct zc_block *b, uint64_t copied)
{
    if (copied < b->size / PART || __atomic_load_n(&b->real, __ATOMIC_RELAXED) != ZC_KIND_PINNED)
        return is_small(b->size) ? -1 : 0;
    if (b->flags & ZC_BLOCK_CAME_PINNED)
        return 1;
    return copied >= (is_small(b->size) ? b->size * 2 : b->size / 2) ? 1 : -1;
}

/* True if the blocks of a call path are treated otherwise from now on. */
static bool lessons_learn(struct lesson *l, bool placed, int was)
{
    uint8_t losses = was > 0 ? 0 : __atomic_add_fetch(&l->losses, 1, __ATOMIC_RELAXED);
    if (placed ? losses < LOSSES : was < 0) {
        __atomic_store_n(&l->losses, losses % LOSSES, __ATOMIC_RELAXED);
        return false;
    }
    /* A choice that was wrong once is wrong again after the next loss. */
    __atomic_store_n(&l->losses, LOSSES - 1, __ATOMIC_RELAXED);
    __atomic_fetch_xor(&l->other, 1, __ATOMIC_RELAXED);
    return true;
}

static void lessons_tell(struct lesson *l, const struct zc_block *b, uint64_t copied, bool placed)
{
    char buf[256];
    struct zc_text text = zc_text_on(buf, sizeof(buf));
    uint32_t times = __atomic_add_fetch(&l->switches, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&zc_log_decisions, 1, __ATOMIC_RELAXED);
    if (times > SWITCHES)
        return;
    zc_text_fmt(&text,
                "blocks %s %B of call path %X are %s from now on: of one of %B %B were copied%s",
                is_small(b->size) ? "below" : "from", large, zc_site_id(b->site),
                placed ? "pinned" : "libc's", b->size, copied,
                times < SWITCHES ? "" : "; later decisions about it are not told");
    zc_log_warn(ZC_NOTE, "auto", zc_text_cstr(&text));
}

/* Bytes of all copies to and from a block. */
static uint64_t copied_bytes(const struct zc_block *b)
{
    struct zc_cell sum[ZC_DIR_COUNT] = {0};
    uint64_t bytes = 0;
    zc_cell_sum_all(sum, b->cell);
    for (unsigned i = 0; i < ZC_DIR_COUNT * ZC_OUTCOME_COUNT; i++)
        bytes += sum[i / ZC_OUTCOME_COUNT].by[i % ZC_OUTCOME_COUNT].bytes;
    return bytes;
}

void zc_lessons_end(const void *p)
{
    if (!__atomic_load_n(&large, __ATOMIC_ACQUIRE))
        return;
    const struct zc_block *b = zc_block_find((uint64_t)(uintptr_t)p);
    if (!b || !b->site || b->rule != base - zc_rules()->rules)
        return;
    uint64_t copied = copied_bytes(b);
    struct lesson *l = &by_site[is_small(b->size)][b->site];
    bool placed = is_small(b->size) == __atomic_load_n(&l->other, __ATOMIC_RELAXED);
    int was = lessons_worth(b, copied);
    if (was && lessons_learn(l, placed, was))
        lessons_tell(l, b, copied, !placed);
}

bool zc_lessons_may_round(size_t size)
{
    return size >= ZC_LESSONS_MOST || zc_hostheap_loose() < LOOSE_MOST || !zc_profile_asked();
}
