/* SPDX-License-Identifier: MIT */
/* The table of blocks that stay with libc although a rule matched: buckets by address. */
#include "host/passthrough.h"

#include "base/message.h"

#define BUCKETS 512u
#define BUCKET 8u
#define FILLING 1u /* The entry is being filled; no block has this address. */

/* All fields are atomics.  A reader that finds the same base before and after has read one
 * block. */
static struct {
    uintptr_t base; /* 0: the entry is free. */
    size_t bytes;
    const struct zc_rule *rule;
} table[BUCKETS][BUCKET];

static uint32_t kept; /* Entries in use; atomic. */
static const struct zc_rule
    *crowded; /* Rule of a block that found no room, until the message is printed.  Atomic. */

static unsigned bucket_of(const void *p)
{
    return (unsigned)(((uintptr_t)p >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % BUCKETS;
}

void zc_passthrough_note(const void *p, size_t bytes, const struct zc_rule *rule)
{
    unsigned bucket = bucket_of(p);
    for (unsigned i = 0; i < BUCKET; i++) {
        uintptr_t none = 0;
        if (!__atomic_compare_exchange_n(&table[bucket][i].base, &none, FILLING, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&table[bucket][i].bytes, bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&table[bucket][i].rule, rule, __ATOMIC_RELAXED);
        __atomic_store_n(&table[bucket][i].base, (uintptr_t)p, __ATOMIC_RELEASE);
        __atomic_fetch_add(&kept, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&crowded, rule, __ATOMIC_RELAXED);
}

void zc_passthrough_forget(const void *p)
{
    unsigned bucket = bucket_of(p);
    if (!p || !__atomic_load_n(&kept, __ATOMIC_RELAXED))
        return;
    for (unsigned i = 0; i < BUCKET; i++) {
        uintptr_t base = (uintptr_t)p;
        if (__atomic_load_n(&table[bucket][i].base, __ATOMIC_RELAXED) == base &&
            __atomic_compare_exchange_n(&table[bucket][i].base, &base, 0, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
            __atomic_fetch_sub(&kept, 1, __ATOMIC_RELAXED);
            return;
        }
    }
}

/* Not printed in malloc: a process that never calls CUDA must print nothing. */
static void tell_crowded(void)
{
    const struct zc_rule *rule = __atomic_load_n(&crowded, __ATOMIC_RELAXED);
    if (rule && zc_message_first("pageable_copy"))
        zc_message(ZC_WARN, "fallback",
                   "some blocks of rule %s are copied as [defaults] says: its pageable_copy is "
                   "kept for %u blocks at most",
                   rule->name, BUCKETS * BUCKET);
}

const struct zc_rule *zc_passthrough_rule(uint64_t address)
{
    if (!__atomic_load_n(&kept, __ATOMIC_RELAXED))
        return NULL;
    tell_crowded();
    for (unsigned b = 0; b < BUCKETS; b++)
        for (unsigned i = 0; i < BUCKET; i++) {
            uintptr_t base = __atomic_load_n(&table[b][i].base, __ATOMIC_ACQUIRE);
            if (base > FILLING &&
                address - base < __atomic_load_n(&table[b][i].bytes, __ATOMIC_RELAXED))
                return __atomic_load_n(&table[b][i].rule, __ATOMIC_RELAXED);
        }
    return NULL;
}
