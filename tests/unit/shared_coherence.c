/* SPDX-License-Identifier: MIT */
/*
 * The pages of pairs against two plain memories: random accesses of the CPU, of copies, sets,
 * kernels and frees.  Every byte that is read must be the one that the plain memory has, or the
 * access is a conflict that kernels have made possible.  The views are simulated: pages are 512
 * bytes, and moving one is copying it.  ZC_MODEL_STEPS says how many steps each of eight
 * seeds has, ZC_MODEL_SEED chooses another one alone.
 */
#define ZC_HOST_UNIT_SHIFT 9

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../shim/shared/coherence.c"

#define PAGES 7u
#define UNIT ((uint32_t)ZC_HOST_UNIT)
#define SPAN (PAGES * UNIT)
#define SEEDS 8u

/* The simulated views: what the CPU finds at the address and at the shadow, and which of them is
 * the GPU's page. */
static _Alignas(64) unsigned char at[SPAN], shadow[SPAN];
static int rights[PAGES];     /* PROT_* of the CPU at the address. */
static bool gpu_aside[PAGES]; /* The GPU's page is at the shadow. */
static unsigned fail_after;   /* Pages until a view refuses; 0: never. */

uint64_t zc_block_shadow;

/* The plain memories. */
static unsigned char h[SPAN], d[SPAN];
static bool h_known[SPAN], d_known[SPAN];
static bool one[PAGES];     /* h and d were made equal, and nothing was written since. */
static bool exposed[PAGES]; /* A kernel ran while they were. */
static bool kept[PAGES];    /* The driver read it by itself. */

static struct zc_coherent c;
static unsigned char states[PAGES];
static struct zc_page_back back[PAGES];
static uint64_t seed, done[18];

static uint32_t below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static uint32_t page_at(uintptr_t address)
{
    return (uint32_t)((address - (uintptr_t)at) / UNIT);
}

static bool refuses(void)
{
    return fail_after && --fail_after == 0;
}

bool zc_view_protect(uintptr_t address, size_t n, int protection)
{
    if (address - (uintptr_t)at < SPAN)
        for (uint32_t p = page_at(address); n; p++, n -= UNIT)
            rights[p] = protection;
    return true;
}

bool zc_view_expose(uintptr_t address, size_t n, int protection)
{
    return zc_view_protect(address, n, protection);
}

/* Fresh pages come where the CPU's own are. */
int zc_memory_advise(void *address, size_t n, int advice)
{
    assert_int_equal(advice, MADV_DONTNEED);
    memset(address, 0, n);
    return 0;
}

size_t zc_view_aside(uintptr_t address, size_t n)
{
    size_t moved = 0;
    for (uint32_t p = page_at(address); moved < n; p++, moved += UNIT) {
        if (refuses())
            return moved;
        assert_false(gpu_aside[p]);
        memcpy(shadow + p * UNIT, at + p * UNIT, UNIT);
        memset(at + p * UNIT, 0, UNIT);
        gpu_aside[p] = true;
        rights[p] = PROT_NONE;
    }
    return moved;
}

size_t zc_view_part(uintptr_t address, size_t n, bool copy)
{
    size_t parted = zc_view_aside(address, n);
    for (uint32_t p = page_at(address); p < page_at(address + parted); p++) {
        if (copy)
            memcpy(at + p * UNIT, shadow + p * UNIT, UNIT);
        rights[p] = PROT_READ | PROT_WRITE;
    }
    for (uint32_t p = page_at(address + parted); p < page_at(address + n); p++)
        rights[p] = PROT_READ;
    return parted;
}

size_t zc_view_merge(uintptr_t address, size_t n)
{
    size_t moved = 0;
    for (uint32_t p = page_at(address); moved < n; p++, moved += UNIT) {
        if (refuses())
            return moved;
        assert_true(gpu_aside[p]);
        memcpy(at + p * UNIT, shadow + p * UNIT, UNIT);
        gpu_aside[p] = false;
        rights[p] = PROT_READ;
    }
    return moved;
}

void zc_view_forget(uintptr_t address, size_t n)
{
    for (uint32_t p = page_at(address); n; p++, n -= UNIT)
        gpu_aside[p] = false;
}

void zc_workers_copy(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

void zc_workers_zeroes(const void *memory, size_t n, size_t unit, bool *zero_out)
{
    const unsigned char *byte = memory;
    for (size_t i = 0; i < n; i++)
        zero_out[i / unit] = (i % unit == 0 || zero_out[i / unit]) && !byte[i];
}

static unsigned char *gpu(uint32_t offset)
{
    return (gpu_aside[offset / UNIT] ? shadow : at) + offset;
}

/* Copies and sets find a device block that is alone, whatever was refused. */
static void check_alone(void)
{
    for (uint32_t i = 0; i < SPAN; i++) {
        uint64_t end;
        assert_ptr_equal(zc_coherent_alias(&c, i, SPAN, &end), gpu(i));
        if (!gpu_aside[i / UNIT])
            assert_int_equal(rights[i / UNIT], PROT_READ | PROT_WRITE);
        if (d_known[i])
            assert_int_equal(*gpu(i), d[i]);
    }
}

/* A new pair.  A host block that comes later finds a device block with or without content. */
static void begin(void)
{
    bool later = below(3) == 0, written = later && below(2);
    memset(&c, 0, sizeof(c));
    memset(states, 0, sizeof(states));
    memset(back, 0, sizeof(back));
    for (uint32_t p = 0; p < PAGES; p++) {
        rights[p] = PROT_READ | PROT_WRITE;
        gpu_aside[p] = one[p] = exposed[p] = kept[p] = false;
    }
    for (uint32_t i = 0; i < SPAN; i++) {
        at[i] = (unsigned char)(below(4) ? 0 : below(256));
        h_known[i] = d_known[i] = false;
    }
    c = (struct zc_coherent){.base = (uintptr_t)at,
                             .pages = PAGES,
                             .bytes = SPAN - below(2) * 100,
                             .writable = below(3) != 0,
                             .host = !later,
                             .device = true,
                             .state = states,
                             .back = back,
                             .count = {PAGES}};
    fail_after = 0;
    if (!later)
        return;
    for (uint32_t i = 0; written && i < SPAN; i++) {
        d[i] = at[i];
        d_known[i] = true;
    }
    fail_after = written && below(2) ? 1 + below(PAGES) : 0;
    if (fail_after) {
        assert_int_equal(zc_coherent_join(&c, true), ZC_EFFECT_REFUSED);
        check_alone();
    }
    assert_int_equal(zc_coherent_join(&c, written), ZC_EFFECT_DONE);
}

/* False: what the program did cannot be done without a loss, and the run ends here. */
static bool settle_step(enum zc_effect effect, uint64_t where)
{
    if (effect == ZC_EFFECT_CONFLICT) {
        uint32_t page = (uint32_t)(where / UNIT);
        assert_true(c.writable && exposed[page] && !kept[page]);
        done[17]++;
    } else {
        assert_int_equal(effect, ZC_EFFECT_REFUSED);
    }
    return false;
}

static bool cpu_access(uint32_t offset, bool write)
{
    uint32_t page = offset / UNIT;
    int need = write ? PROT_WRITE : PROT_READ;
    for (int tries = 0; !(rights[page] & need); tries++) {
        assert_true(tries < 4);
        enum zc_effect effect = zc_coherent_touch(&c, offset, write);
        if (effect != ZC_EFFECT_DONE && !settle_step(effect, offset))
            return false;
    }
    if (write) {
        at[offset] = h[offset] = (unsigned char)below(256);
        h_known[offset] = true;
        one[page] = false;
    } else if (h_known[offset]) {
        assert_int_equal(at[offset], h[offset]);
    }
    return true;
}

static void note_equal(uint32_t low, uint32_t high, bool any_part)
{
    for (uint32_t p = low / UNIT; p * UNIT < high; p++) {
        uint64_t end = (p + 1) * UNIT < c.bytes ? (p + 1) * UNIT : c.bytes;
        bool all = low <= p * UNIT && high >= end;
        one[p] = one[p] || all || any_part;
        if (all)
            exposed[p] = exposed[p] && any_part;
    }
}

static bool copy_in(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    uint64_t where = low;
    enum zc_effect effect;
    while ((effect = zc_coherent_to_device(&c, where, high, &moved, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    memcpy(d + low, h + low, high - low);
    memcpy(d_known + low, h_known + low, high - low);
    note_equal(low, high, true);
    return true;
}

static bool copy_out(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    uint64_t where = low;
    enum zc_effect effect;
    while ((effect = zc_coherent_to_host(&c, where, high, &moved, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    memcpy(h + low, d + low, high - low);
    memcpy(h_known + low, d_known + low, high - low);
    note_equal(low, high, false);
    return true;
}

/* Something else reads or writes h: another copy of the program's. */
static bool other_host(uint32_t low, uint32_t high, bool write)
{
    uint64_t where = low;
    enum zc_effect effect;
    while ((effect = zc_coherent_host(&c, where, high, write, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    for (uint32_t i = low; i < high; i++) {
        assert_true(rights[i / UNIT] & (write ? PROT_WRITE : PROT_READ));
        if (write) {
            at[i] = h[i] = (unsigned char)below(256);
            h_known[i] = true;
        } else if (h_known[i]) {
            assert_int_equal(at[i], h[i]);
        }
    }
    for (uint32_t p = low / UNIT; write && p * UNIT < high; p++)
        one[p] = false;
    return true;
}

static bool drop(uint32_t low, uint32_t high)
{
    uint64_t where = low;
    enum zc_effect effect;
    while ((effect = zc_coherent_discard(&c, where, high, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    for (uint32_t i = low; i < high; i++) {
        assert_int_equal(at[i], 0);
        h[i] = 0;
        h_known[i] = true;
    }
    for (uint32_t p = low / UNIT; p * UNIT < high; p++)
        one[p] = false;
    return true;
}

/* Other mappings come, which the program then fills. */
static bool replace(uint32_t low, uint32_t high, bool keep)
{
    uint64_t where = low;
    enum zc_effect effect;
    while ((effect = zc_coherent_exile(&c, where, high, keep, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    for (uint32_t i = low; i < high; i++) {
        assert_true(gpu_aside[i / UNIT]);
        if (keep && h_known[i])
            assert_int_equal(at[i], h[i]);
        at[i] = h[i] = (unsigned char)below(256);
        h_known[i] = true;
    }
    for (uint32_t p = low / UNIT; p * UNIT < high; p++)
        one[p] = false;
    return true;
}

static bool other_device(uint32_t low, uint32_t high, bool write)
{
    uint64_t where = low, end;
    enum zc_effect effect;
    while ((effect = zc_coherent_device(&c, where, high, write, &where)) != ZC_EFFECT_DONE)
        if (!settle_step(effect, where))
            return false;
    for (uint64_t i = low; i < high; i = end) {
        unsigned char *alias = (unsigned char *)zc_coherent_alias(&c, i, high, &end);
        for (uint64_t j = i; j < end; j++) {
            if (write) {
                alias[j - i] = d[j] = (unsigned char)below(256);
                d_known[j] = true;
            } else if (d_known[j]) {
                assert_int_equal(alias[j - i], d[j]);
            }
        }
    }
    for (uint32_t p = low / UNIT; write && p * UNIT < high; p++)
        one[p] = false;
    return true;
}

static bool kernel(uint32_t low, uint32_t high, bool write)
{
    if (zc_coherent_exposed(&c) && zc_coherent_launch(&c) != ZC_EFFECT_DONE)
        return false;
    for (uint32_t p = 0; p < PAGES; p++)
        exposed[p] = exposed[p] || one[p];
    for (uint32_t i = low; i < high; i++) {
        if (d_known[i])
            assert_int_equal(*gpu(i), d[i]);
        if (write && c.writable) {
            *gpu(i) = d[i] = (unsigned char)below(256);
            d_known[i] = true;
        }
    }
    for (uint32_t p = low / UNIT; write && c.writable && p * UNIT < high; p++)
        one[p] = false;
    return true;
}

/* The driver reads h by itself: it meets what the program wrote, and no later step closes that. */
static bool driver_read(uint32_t low, uint32_t high)
{
    uint64_t where = low;
    enum zc_effect effect;
    do {
        effect = zc_coherent_keep(&c, where, high, &where);
        for (uint32_t p = low / UNIT; p * UNIT < high; p++)
            kept[p] = states[p] == ZC_PAGE_KEPT;
        if (effect != ZC_EFFECT_DONE && !settle_step(effect, where))
            return false;
    } while (effect != ZC_EFFECT_DONE);
    for (uint32_t i = low; i < high; i++) {
        assert_true(rights[i / UNIT] & PROT_READ);
        assert_int_equal(kept[i / UNIT], c.writable);
        if (h_known[i])
            assert_int_equal(at[i], h[i]);
    }
    return true;
}

/* A result is copied back in two parts, and a kernel may run in between. */
static bool copied_back_in_parts(void)
{
    uint32_t low = below(PAGES - 1) * UNIT, middle = low + 1 + below(UNIT - 1), high = low + UNIT;
    bool first = below(2);
    return copy_in(0, (uint32_t)c.bytes) && kernel(low, high, true) &&
           copy_out(first ? low : middle, first ? middle : high) &&
           (below(2) || kernel(low, high, true)) &&
           copy_out(first ? middle : low, first ? high : middle) && other_host(low, high, false);
}

/* The counts and the views are what the states say. */
static void check_states(void)
{
    uint32_t count[ZC_PAGE_STATES] = {0};
    for (uint32_t p = 0; p < PAGES; p++) {
        count[states[p]]++;
        assert_int_equal(gpu_aside[p], zc_coherent_shadowed(states[p]));
        assert_int_equal(states[p] == ZC_PAGE_KEPT, kept[p]);
        if (kept[p])
            assert_int_equal(rights[p], PROT_READ | PROT_WRITE);
        if (states[p] == ZC_PAGE_SAME)
            assert_false(rights[p] & PROT_WRITE);
        if (states[p] == ZC_PAGE_AHEAD || states[p] == ZC_PAGE_AWAY)
            assert_int_equal(rights[p], PROT_NONE);
    }
    assert_memory_equal(count, c.count, sizeof(count));
}

/* After one side is freed the other goes on as if it had always been alone. */
static void finish(void)
{
    fail_after = below(4) ? 0 : 1 + below(PAGES);
    if (below(2)) {
        zc_coherent_host_gone(&c);
        assert_int_equal(zc_coherent_launch(&c), ZC_EFFECT_DONE);
        check_alone();
        return;
    }
    fail_after = 0;
    bool lost[PAGES];
    for (uint32_t p = 0; p < PAGES; p++)
        lost[p] = states[p] == ZC_PAGE_AHEAD || states[p] == ZC_PAGE_AWAY;
    zc_coherent_device_gone(&c);
    for (uint32_t i = 0; i < c.bytes; i++) {
        uint32_t page = i / UNIT;
        assert_int_equal(zc_coherent_touch(&c, i, true) == ZC_EFFECT_CONFLICT, lost[page]);
        if (!lost[page] && h_known[i])
            assert_int_equal(at[i], h[i]);
    }
}

/* One step of the program's; false when the run has ended with a conflict or a refusal. */
static bool step(void)
{
    uint32_t low = below((uint32_t)c.bytes), high = low + 1 + below((uint32_t)c.bytes - low);
    unsigned what = below(20);
    if (what == 19 && !below(2))
        what = 20 + below(4);
    if (below(2)) { /* Programs mostly copy all. */
        low = 0;
        high = (uint32_t)c.bytes;
    }
    done[what < 8 ? what % 2 : what - 7]++;
    switch (what) {
    case 8:
    case 9:
        return copy_in(low, high);
    case 10:
    case 11:
        return copy_out(low, high);
    case 12:
    case 13:
        return other_host(low, high, what == 12);
    case 14:
    case 15:
        return other_device(low, high, what == 14);
    case 16:
    case 17:
        return kernel(low, high, what == 16);
    case 18:
        return !zc_coherent_cooling(&c) || zc_coherent_cool(&c) == ZC_EFFECT_DONE;
    case 19:
        fail_after = below(400) ? 0 : 1 + below(5);
        return true;
    case 20:
        return driver_read(low, low + 1 + below(high - low < UNIT ? high - low : UNIT));
    case 21:
        return copied_back_in_parts();
    case 22:
        return drop(low, high);
    case 23:
        return below(20) || replace(low, high, below(2));
    default:
        return cpu_access(low, what % 2);
    }
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void run_model(uint64_t first, uint64_t steps)
{
    uint64_t ended = 0;
    seed = first;
    memset(done, 0, sizeof(done));
    begin();
    for (uint64_t i = 0; i < steps; i++) {
        bool goes_on = step();
        check_states();
        if (goes_on && below(200))
            continue;
        ended++;
        if (goes_on) /* Else a step was done in part. */
            finish();
        begin();
    }
    print_message("# seed %llu: %llu steps, %llu runs, %llu conflicts\n", (unsigned long long)first,
                  (unsigned long long)steps, (unsigned long long)ended,
                  (unsigned long long)done[17]);
    for (unsigned i = 0; i < 17; i++)
        assert_true(done[i] > 0);
    assert_true(done[17] > 0);
}

static void two_memories_and_shared_pages_never_differ(void **unused)
{
    (void)unused;
    uint64_t steps = number("ZC_MODEL_STEPS", 500000), one_seed = number("ZC_MODEL_SEED", 0);
    zc_block_shadow = (uintptr_t)shadow - (uintptr_t)at;
    for (uint64_t i = 1; i <= SEEDS && !one_seed; i++)
        run_model(i, steps);
    if (one_seed)
        run_model(one_seed, steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_memories_and_shared_pages_never_differ),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
