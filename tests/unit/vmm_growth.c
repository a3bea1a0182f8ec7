/* SPDX-License-Identifier: MIT */
/* The step of a growing array: whose addresses a block takes, what two blocks have in common, and
 * how much is allocated ahead. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "memory/limits.h"
#include "vmm/access.h"
#include "vmm/vmm.h"

#define MIB ((size_t)1 << 20)
#define CONTEXT(i) ((CUcontext)(uintptr_t)(0x1000 * ((i) + 1)))

enum { BLOCKS = 70 };

/* The neighbours. */
static struct {
    char trace[300];
    CUresult unmap;
    bool no_record, bound;
    unsigned gets, puts, removed;
    struct zc_vmm_facts facts;
} has;
static struct zc_vmm vmm[BLOCKS];    /* New ones. */
static struct zc_vmm former[BLOCKS]; /* Those whose addresses they keep. */
static struct zc_block entries[BLOCKS];

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t n = strlen(has.trace);
    vsnprintf(has.trace + n, sizeof(has.trace) - n, fmt, args);
    va_end(args);
}

/* Which block it is, and "old" of one whose addresses are kept. */
static const char *name(const struct zc_vmm *v)
{
    static char text[4][16];
    static unsigned next;
    char *out = text[next++ % 4];
    if (v >= former && v < former + BLOCKS)
        snprintf(out, 16, "old%d", (int)(v - former));
    else
        snprintf(out, 16, "%d", (int)(v - vmm));
    return out;
}

static const struct zc_vmm *of_va(const struct zc_va *va)
{
    return (const struct zc_vmm *)((const char *)va - offsetof(struct zc_vmm, va));
}

static CUresult fake_unmap(struct zc_va *va)
{
    say("unmap %s ", name(of_va(va)));
    return has.unmap;
}

static void fake_move(struct zc_va *to, struct zc_va *from)
{
    say("move %s<-%s ", name(of_va(to)), name(of_va(from)));
}

static void fake_drop(struct zc_vmm *v)
{
    say("drop %s ", name(v));
}

static CUresult fake_give_back(struct zc_vmm *v)
{
    say("give %s ", name(v));
    return CUDA_SUCCESS;
}

static void *fake_get(size_t bytes)
{
    has.gets += !has.no_record;
    return has.no_record ? NULL : zc_arena_get(bytes);
}

static void fake_put(void *memory, size_t bytes)
{
    has.puts += memory != NULL;
    zc_arena_put(memory, bytes);
}

static void fake_remove(struct zc_block *block)
{
    assert_true(block >= entries && block < entries + BLOCKS);
    assert_non_null(block->backing);
    has.removed++;
}

static struct zc_vmm *fake_of(const struct zc_block *block)
{
    const struct zc_backing *backing = block->backing;
    return backing ? backing->vmm : NULL;
}

static const struct zc_vmm_facts *fake_facts(int device)
{
    assert_int_equal(device, 3);
    return &has.facts;
}

static void fake_each(void (*visit)(struct zc_block *block, void *arg), void *arg)
{
    for (unsigned i = 0; i < 4; i++)
        visit(&entries[i], arg);
}

#define zc_va_unmap fake_unmap
#define zc_va_move fake_move
#define zc_vmm_drop fake_drop
#define zc_vmm_give_back fake_give_back
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_block_remove fake_remove
#define zc_vmm_of fake_of
#define zc_vmm_facts fake_facts
#define zc_limits_device_bound() has.bound
#define zc_block_each fake_each
#include "../../shim/vmm/growth.c"

static struct zc_rule rule;
static const char *why;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&growth, 0, sizeof(growth));
    memset(vmm, 0, sizeof(vmm));
    memset(former, 0, sizeof(former));
    memset(entries, 0, sizeof(entries));
    memset(&rule, 0, sizeof(rule));
    has.facts.total = (size_t)64 << 30;
    for (unsigned i = 0; i < BLOCKS; i++) {
        vmm[i].va.device = former[i].va.device = 3;
        vmm[i].va.context = CONTEXT(0);
        vmm[i].va.size = former[i].va.size = 4096 * MIB;
        vmm[i].span = vmm[i].held = 10 * MIB;
        vmm[i].granularity = 2 * MIB;
        vmm[i].rule = &rule;
        vmm[i].grows = vmm[i].lazy = true;
    }
    return 0;
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    has.trace[0] = 0;
}

/* The block keeps the addresses of `former`. */
static void keep(unsigned i)
{
    struct zc_backing *backing = fake_get(sizeof(*backing));
    *backing = (struct zc_backing){.vmm = &former[i]};
    entries[i].backing = backing;
    keep_addresses(&vmm[i], &entries[i]);
}

static unsigned records(void)
{
    return has.gets - has.puts;
}

static void a_block_takes_kept_addresses_that_fit(void **state)
{
    enum { FITS, DEVICE, CONTEXT_, LARGER, TOO_LONG, LACKS, GROWS, EXACT, LONGEST, GUARDS };
    (void)state;
    for (unsigned i = FITS; i <= GUARDS; i++) {
        anew(NULL);
        keep(5);
        struct zc_vmm *v = &vmm[0], *b = &vmm[5];
        struct zc_growth step = {.new = &vmm[6], .old = b};
        v->span = 20 * MIB;
        if (i == DEVICE)
            v->va.device = 2;
        if (i == CONTEXT_)
            v->va.context = CONTEXT(1);
        if (i == LARGER || i == EXACT)
            v->span = (i == LARGER ? 8 : 10) * MIB;
        if (i == TOO_LONG || i == LONGEST)
            former[5].va.size = v->span - (i == TOO_LONG);
        if (i == LACKS)
            b->held--;
        if (i == GROWS)
            b->as_old = &step;
        if (i == GUARDS) { /* Of the array's own bytes. */
            b->guard = true;
            v->span = 6 * MIB;
        }
        zc_growth_enter(v);
        bool takes = i == FITS || i >= EXACT;
        expect(takes ? "move 0<-old5 drop old5 " : "");
        assert_int_equal(v->as_new != NULL, takes);
        assert_int_equal(growth.keepers, !takes);
        assert_ptr_equal(b->kept, takes ? NULL : &entries[5]);
        assert_int_equal(has.removed, takes);
        if (takes) {
            assert_true(v->as_new == b->as_old && v->as_new->new == v && v->as_new->old == b);
            assert_true(v->as_new->mapped && !v->as_new->pending);
            assert_int_equal(records(), 1); /* The step's; that of the backing is given back. */
        }
    }
}

static void the_largest_and_then_the_first_gives_its_addresses(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 4; i++)
        keep(i);
    vmm[2].span = vmm[3].span = vmm[2].held = vmm[3].held = 12 * MIB;
    vmm[0].span = vmm[5].span = 20 * MIB;
    has.no_record = true;
    zc_growth_enter(&vmm[0]);
    expect("");
    assert_true(growth.keepers == 4 && !vmm[0].as_new);
    has.no_record = false;
    zc_growth_enter(&vmm[0]);
    expect("move 0<-old2 drop old2 ");
    zc_growth_enter(&vmm[5]);
    expect("move 5<-old3 drop old3 ");
    assert_true(growth.keepers == 2 && growth.keeper[0] == &vmm[1]);
    assert_ptr_equal(growth.keeper[1], &vmm[4]);
}

static void so_many_blocks_keep_addresses_and_the_first_gives_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KEEPERS; i++)
        keep(i);
    expect("");
    assert_int_equal(growth.keepers, KEEPERS);
    keep(KEEPERS);
    expect("give old0 ");
    assert_true(growth.keepers == KEEPERS && growth.keeper[0] == &vmm[1] && !vmm[0].kept);
    assert_ptr_equal(growth.keeper[KEEPERS - 1], &vmm[KEEPERS]);
    zc_growth_leave(&vmm[10]);
    expect("give old10 ");
    assert_true(growth.keepers == KEEPERS - 1 && growth.keeper[8] == &vmm[9]);
    assert_true(growth.keeper[9] == &vmm[11] && has.removed == 2);
    assert_int_equal(records(), KEEPERS - 1);
}

static void what_two_blocks_share_is_unmapped_once(void **state)
{
    (void)state;
    assert_int_equal(zc_growth_detach(&vmm[0], &why), CUDA_SUCCESS);
    struct zc_growth *g = zc_growth_begin(&vmm[0], &vmm[1]);
    assert_true(g && vmm[0].as_new == g && vmm[1].as_old == g && !g->mapped && !g->pending);
    assert_int_equal(zc_growth_detach(&vmm[0], &why), CUDA_SUCCESS);
    expect("");
    g->mapped = true;
    has.unmap = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_growth_detach(&vmm[0], &why), CUDA_ERROR_UNKNOWN);
    assert_string_equal(why, "what is mapped in its addresses can't be unmapped");
    assert_true(vmm[0].as_new == g && g->mapped);
    has.unmap = CUDA_SUCCESS;
    g->pending = true;
    assert_int_equal(zc_growth_detach(&vmm[0], &why), CUDA_SUCCESS);
    expect("unmap 0 unmap 0 ");
    assert_true(vmm[0].as_new == g && !g->mapped);
    g->mapped = true;
    zc_growth_end(g);
    assert_true(!g->pending && vmm[0].as_new == g);
    assert_int_equal(zc_growth_detach(&vmm[0], &why), CUDA_SUCCESS);
    assert_true(!vmm[0].as_new && !vmm[1].as_old && records() == 0);
    g = zc_growth_begin(&vmm[0], &vmm[1]);
    g->pending = true;
    zc_growth_end(g);
    assert_true(!vmm[0].as_new && !vmm[1].as_old && records() == 0);
}

static void a_block_is_in_one_step_on_either_side(void **state)
{
    (void)state;
    struct zc_growth *g = zc_growth_begin(&vmm[0], &vmm[1]);
    assert_ptr_equal(zc_growth_begin(&vmm[0], &vmm[1]), g);
    assert_int_equal(records(), 1);
    g->mapped = true;
    has.unmap = CUDA_ERROR_UNKNOWN;
    assert_null(zc_growth_begin(&vmm[0], &vmm[2])); /* The new one has another. */
    assert_null(zc_growth_begin(&vmm[3], &vmm[1])); /* The old one has. */
    expect("unmap 0 unmap 0 ");
    assert_true(vmm[0].as_new == g && !vmm[2].as_old && !vmm[3].as_new);
    has.unmap = CUDA_SUCCESS;
    struct zc_growth *other = zc_growth_begin(&vmm[3], &vmm[1]);
    expect("unmap 0 ");
    assert_true(!vmm[0].as_new && vmm[1].as_old == other && vmm[3].as_new == other);
    other->mapped = true;
    assert_non_null(zc_growth_begin(&vmm[3], &vmm[4]));
    expect("unmap 3 ");
    assert_true(!vmm[1].as_old && vmm[4].as_old == vmm[3].as_new && records() == 1);
    has.no_record = true;
    assert_null(zc_growth_begin(&vmm[5], &vmm[6]));
    assert_true(!vmm[5].as_new && !vmm[6].as_old);
}

static void a_new_block_inherits_the_chunks_and_keeps_the_addresses(void **state)
{
    static struct zc_chunk list[2];
    (void)state;
    keep(1); /* The old one keeps its own predecessor's addresses until now. */
    struct zc_growth *g = zc_growth_begin(&vmm[0], &vmm[1]);
    g->mapped = true;
    vmm[0].held = 0;
    vmm[0].span = 16 * MIB;
    vmm[1].held = 24 * MIB;
    vmm[1].chunks = (struct zc_chunks){.list = list, .count = 2, .room = 2};
    growth.headroom[3] = 14 * MIB; /* It has. */
    zc_growth_inherit(g, &entries[2]);
    expect("give old1 ");
    assert_true(vmm[0].chunks.list == list && vmm[0].chunks.count == 2);
    assert_true(vmm[0].held == 24 * MIB && vmm[1].held == 0);
    assert_true(!vmm[1].chunks.list && !vmm[1].chunks.count && !vmm[1].chunks.room);
    assert_true(!g->mapped && vmm[0].kept == &entries[2] && !vmm[1].kept);
    assert_true(growth.keepers == 1 && growth.keeper[0] == &vmm[0]);
    assert_int_equal(growth.headroom[3], 8 * MIB);
}

static void a_block_that_goes_leaves_its_steps(void **state)
{
    (void)state;
    for (unsigned refused = 0; refused < 2; refused++) {
        anew(NULL);
        struct zc_growth *out = zc_growth_begin(&vmm[0], &vmm[1]);
        struct zc_growth *in = zc_growth_begin(&vmm[1], &vmm[2]);
        assert_true(out && in);
        out->mapped = true;
        has.unmap = refused ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        keep(1);
        growth.headroom[3] = 5 * MIB;
        vmm[1].held = 12 * MIB;
        zc_growth_leave(&vmm[1]);
        expect("unmap 0 give old1 ");
        assert_true(!vmm[1].as_old && !vmm[1].as_new && !vmm[2].as_old);
        assert_ptr_equal(vmm[0].as_new, refused ? out : NULL);
        assert_int_equal(growth.headroom[3], 3 * MIB);
        assert_int_equal(records(), refused);
        if (refused)
            assert_null(out->old);
        if (refused)
            zc_growth_leave(&vmm[0]); /* With nothing of an old one. */
        assert_true(!vmm[0].as_new && records() == 0);
    }
    anew(NULL);
    growth.headroom[3] = 5 * MIB;
    vmm[1].held = 8 * MIB;
    zc_growth_leave(&vmm[1]);
    assert_int_equal(growth.headroom[3], 5 * MIB);
    expect("");
}

static void headroom_is_counted_by_what_is_beyond_the_block(void **state)
{
    static const struct {
        size_t before, after;
        int change;
    } rows[] = {{10, 10, 0}, {0, 10, 0}, {10, 14, 4}, {0, 14, 4}, {14, 10, -4}, {16, 12, -4}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        growth.headroom[3] = 50 * MIB;
        vmm[0].held = rows[i].after * MIB;
        zc_growth_count(&vmm[0], rows[i].before * MIB);
        assert_int_equal(growth.headroom[3] / MIB, 50 + rows[i].change);
    }
    assert_int_equal(growth.headroom[2], 0);
}

/* All in MiB; of a device whose 256th is 1024. */
static void headroom_is_for_arrays_that_have_grown(void **state)
{
    static const struct {
        size_t span, held, size, taken, more;
    } rows[] = {
        {10, 0, 4096, 0, 502},
        {510, 0, 4096, 0, 2},
        {511, 0, 4096, 0, 0},
        {512, 512, 4096, 0, 64},
        {512, 449, 4096, 0, 64},
        {512, 448, 4096, 0, 0},
        {512, 0, 4096, 0, 0},
        {10, 0, 4096, 1000, 24},
        {10, 0, 4096, 1023, 0},
        {10, 0, 4096, 1024, 0},
        {10, 0, 4096, 2000, 0},
        {10, 0, 20, 0, 10},
        {10, 0, 15, 0, 4},
        {10, 0, 10, 0, 0},
        {10, 0, 4096, 523, 500},
        {10, 0, 511, 523, 500},
        {10, 0, 509, 523, 498},
        {1024, 1000, 1100, 0, 76},
        {1024, 1000, 4096, 901, 122},
        {1024, 1000, 4096, 896, 128},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.facts.total = (size_t)1024 * 256 * MIB;
        vmm[0].kept = &entries[0];
        vmm[0].span = rows[i].span * MIB;
        vmm[0].held = rows[i].held * MIB;
        vmm[0].va.size = rows[i].size * MIB;
        growth.headroom[3] = rows[i].taken * MIB;
        if (zc_growth_headroom(&vmm[0]) != rows[i].more * MIB)
            fail_msg("row %u: %zu MiB", i, zc_growth_headroom(&vmm[0]) / MIB);
    }
}

static void nobody_gets_headroom_that_has_not_grown_or_is_limited(void **state)
{
    (void)state;
    vmm[0].kept = &entries[0];
    vmm[0].va.size = 4096 * MIB;
    assert_true(zc_growth_headroom(&vmm[0]) > 0);
    vmm[0].kept = NULL;
    assert_int_equal(zc_growth_headroom(&vmm[0]), 0);
    vmm[0].kept = &entries[0];
    rule.chunk = 2 * MIB;
    assert_int_equal(zc_growth_headroom(&vmm[0]), 0);
    rule.chunk = 0;
    rule.budget.kind = ZC_LIMIT_PERCENT;
    assert_int_equal(zc_growth_headroom(&vmm[0]), 0);
    rule.budget.kind = ZC_LIMIT_NONE;
    has.bound = true;
    assert_int_equal(zc_growth_headroom(&vmm[0]), 0);
    has.bound = false;
    assert_true(zc_growth_headroom(&vmm[0]) > 0);
}

static void the_most_that_can_be_taken_over_is_the_largest_that_fits(void **state)
{
    static struct zc_backing of[4];
    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* The fourth one has no such memory. */
        of[i].vmm = &vmm[i];
        entries[i].backing = &of[i];
        vmm[i].span = vmm[i].held = (10 + 10 * i) * MIB;
    }
    struct zc_vmm *b = &vmm[1];
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 40 * MIB), 30 * MIB);
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 29 * MIB), 20 * MIB);
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 20 * MIB), 20 * MIB);
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 20 * MIB - 1), 10 * MIB);
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 9 * MIB), 0);
    assert_int_equal(zc_growth_largest(2, CONTEXT(0), 20 * MIB), 0);
    assert_int_equal(zc_growth_largest(3, CONTEXT(1), 20 * MIB), 0);
    assert_int_equal(zc_growth_largest(3, NULL, SIZE_MAX), 30 * MIB);
    b->held = 28 * MIB; /* Headroom is taken as far as there is use for it. */
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 20 * MIB), 20 * MIB);
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 26 * MIB), 26 * MIB);
    vmm[2].held = 0;
    assert_int_equal(zc_growth_largest(3, NULL, SIZE_MAX), 20 * MIB);
    b->held = 13 * MIB;
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 26 * MIB), 13 * MIB);
    b->grows = false;
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 26 * MIB), 10 * MIB);
    b->grows = true;
    b->lazy = false;
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 26 * MIB), 10 * MIB);
    b->lazy = true;
    b->guard = true;
    b->held = 20 * MIB;
    assert_int_equal(zc_growth_largest(3, CONTEXT(0), 16 * MIB), 16 * MIB);
    assert_int_equal(zc_growth_largest(3, NULL, SIZE_MAX), 16 * MIB);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_block_takes_kept_addresses_that_fit),
        TEST(the_largest_and_then_the_first_gives_its_addresses),
        TEST(so_many_blocks_keep_addresses_and_the_first_gives_way),
        TEST(what_two_blocks_share_is_unmapped_once),
        TEST(a_block_is_in_one_step_on_either_side),
        TEST(a_new_block_inherits_the_chunks_and_keeps_the_addresses),
        TEST(a_block_that_goes_leaves_its_steps),
        TEST(headroom_is_counted_by_what_is_beyond_the_block),
        TEST(headroom_is_for_arrays_that_have_grown),
        TEST(nobody_gets_headroom_that_has_not_grown_or_is_limited),
        TEST(the_most_that_can_be_taken_over_is_the_largest_that_fits),
    };
    return RUN_TESTS(tests);
}
