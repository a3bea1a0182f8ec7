/* SPDX-License-Identifier: MIT */
/* Blocks that move between device and host memory: wherever a call fails, each one keeps its bytes,
 * is counted where it is, and nothing else stays behind. */
#include "vmm_move_test.h"

#include "../../shim/vmm/move.c"

static const char *why;

/* While it is waited for, the call that uses blocks leaves. */
static bool fake_wait_until(const uint32_t *word, uint32_t value, unsigned most_ms)
{
    assert_true(word == &move.users && value == 0 && most_ms > 0);
    assert_int_equal(move.moving, 1); /* Whoever comes now waits. */
    has.waits++;
    return !fails() && *word == value;
}

static void fake_wake(const uint32_t *word)
{
    assert_ptr_equal(word, &move.users);
    has.woken++;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&move, 0, sizeof(move));
    memset(blocks, 0, sizeof(blocks));
    memset(backings, 0, sizeof(backings));
    memset(mov, 0, sizeof(mov));
    memset(rules, 0, sizeof(rules));
    memset(&zc_vmm_counts, 0, sizeof(zc_vmm_counts));
    has.current = HOME;
    has.whole = true;
    has.handle[GUARD].live = true;
    rules[0].spill = rules[1].spill = ZC_SPILL_MOVE;
    rules[2].spill = ZC_SPILL_FETCH;
    real_without_driver();
    zc_real.cuStreamCreate = create_stream;
    zc_real.cuStreamDestroy_v2 = destroy_stream;
    zc_real.cuEventCreate = create_event;
    zc_real.cuEventDestroy_v2 = destroy_event;
    zc_real.cuEventRecord = record_event;
    zc_real.cuStreamWaitEvent = wait_event;
    zc_real.cuMemcpyDtoDAsync_v2 = copy_async;
    zc_real.cuMemcpyHtoDAsync_v2 = copy_from_pages;
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    why = "";
    return 0;
}

/* Blocks of one size, with guards or without: `place` has 'D' for one on the device, 'H' for one in
 * host memory, in their order. */
static void make(const char *place, unsigned rule, size_t own, bool guard)
{
    has.calls = 0;
    for (unsigned i = 0; place[i]; i++) {
        bool host = place[i] == 'H';
        struct zc_vmm *v = &mov[i].vmm;
        const struct zc_chunk edge = {GUARD, GRANULE};
        unsigned room = guard ? 3 : 1;
        blocks[i] =
            (struct zc_block){.base = 1,
                              .size = own - 5,
                              .device = DEVICE,
                              .rule = (int16_t)rule,
                              .backing = &backings[i],
                              .place = ZC_PLACE_VMM,
                              .flags = ZC_BLOCK_CONVERTED | (rule == 0 ? ZC_BLOCK_BUDGET : 0)};
        backings[i].vmm = v;
        backings[i].spilled = host ? blocks[i].size : 0;
        *v = (struct zc_vmm){.span = own + 2 * guard * GRANULE,
                             .rule = &rules[rule],
                             .granularity = GRANULE,
                             .guard = guard,
                             .moves = true,
                             .filled = rule == 2,
                             .lazy = host && rule == 2};
        unsigned r = new_range(&v->va, guard * GRANULE);
        v->va.device = DEVICE;
        v->va.context = HOME;
        v->va.base = has.range[r].base;
        v->va.size = v->span;
        v->chunks = (struct zc_chunks){fake_get(room * sizeof(struct zc_chunk)), room, room};
        v->chunks.list[0] = v->chunks.list[room - 1] = edge;
        v->chunks.list[guard].size = own;
        assert_int_equal(fake_handle(v, host, true, own, &v->chunks.list[guard].handle), 0);
        unsigned h = (unsigned)v->chunks.list[guard].handle;
        memset(has.handle[h].text, 'a' + (int)i, own / ZC_VA_UNIT);
        has.range[r].inner = v->lazy ? 0 : h;
        uint32_t from = guard ? GRANULE / ZC_VA_UNIT : 0;
        if (host)
            v->va.host = (struct zc_va_host){from, from + (uint32_t)(own / ZC_VA_UNIT), true};
        *(host ? &has.mapped : &has.vmm) += (int64_t)blocks[i].size;
        has.budget += !host && rule == 0 ? (int64_t)blocks[i].size : 0;
        has.spills += host;
        zc_vmm_counts.spilled += host;
    }
    has.calls = 0;
}

static bool is_host(unsigned i)
{
    return zc_vmm_spilled(&mov[i].vmm) > 0;
}

/* Its content is whole, at its addresses or where the next call that touches it looks for it. */
static void assert_whole(unsigned i, size_t own)
{
    const struct zc_vmm *v = &mov[i].vmm;
    unsigned r = range_of(&v->va), h = (unsigned)v->chunks.list[v->guard].handle;
    uint32_t from = v->guard ? GRANULE / ZC_VA_UNIT : 0;
    assert_true(has.handle[h].live);
    assert_int_equal(has.handle[h].host, is_host(i));
    for (size_t at = 0; at < own / ZC_VA_UNIT; at++)
        if (has.handle[h].text[at] != 'a' + (int)i)
            fail_msg("block %u has '%c' at %zu", i, has.handle[h].text[at], at);
    assert_int_equal(v->chunks.count, v->guard ? 3 : 1);
    if (is_host(i))
        assert_true(v->va.host.from == from && v->va.host.to == from + own / ZC_VA_UNIT &&
                    v->va.host.closed);
    if (has.range[r].inner)
        assert_int_equal(has.range[r].inner, h);
    else
        assert_true(v->lazy);
    if (mov[i].alias)
        assert_int_equal(has.range[range_of(mov[i].alias)].inner, h);
}

/* All that is neither behind a block nor kept has gone, and what is there is counted. */
static void assert_balanced(unsigned count, size_t own)
{
    int64_t host = 0, device = 0, kept = 0, budget = 0, spilled = 0;
    unsigned live = 1, aliases = 0, handles = 0, lists = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t size = (int64_t)blocks[i].size;
        bool copy = mov[i].host_copy.chunks.count;
        assert_whole(i, own);
        assert_int_equal(backings[i].spilled, is_host(i) ? blocks[i].size : 0);
        assert_int_equal(mov[i].host_copy_bytes, copy ? blocks[i].size : 0);
        host += is_host(i) || copy ? size : 0;
        device += is_host(i) ? 0 : size;
        budget += !is_host(i) && blocks[i].flags & ZC_BLOCK_BUDGET ? size : 0;
        spilled += is_host(i);
        live += 1 + copy;
        lists += 1 + copy;
        aliases += (mov[i].alias != NULL) + (mov[i].host_copy.alias != NULL);
    }
    for (unsigned i = 0; i < move.cached; i++) {
        assert_true(move.cache[i].behind.host.to > 0);
        kept += (int64_t)own;
        live++;
        lists++;
        aliases += move.cache[i].behind.alias != NULL;
    }
    for (unsigned i = 0; i < HANDLES; i++)
        handles += has.handle[i].live;
    assert_int_equal(handles, live);
    assert_int_equal(has.aliases, aliases);
    assert_int_equal(has.arena, lists + aliases);
    assert_int_equal(has.mapped, host);
    assert_int_equal(has.vmm, device);
    assert_int_equal(has.kept, kept);
    assert_int_equal(has.budget, budget);
    assert_int_equal(has.spills, spilled);
    assert_int_equal(zc_vmm_counts.spilled, spilled);
    assert_int_equal(has.live_events, 0);
    assert_int_equal(has.streams, move.copying[DEVICE].in != NULL);
    assert_int_equal(has.done, has.queued);
}

static void a_block_leaves_the_device_and_comes_back(void **state)
{
    (void)state;
    for (unsigned guard = 0; guard < 2; guard++) {
        anew(NULL);
        make("D", 0, 4 * MIB, guard);
        has.others = 1;
        mov[0].vmm.va.devices = 1 | 2 | 1 << DEVICE; /* Device 1 has made a copy. */
        assert_true(zc_move(&blocks[0], NULL, NULL, &why));
        assert_true(is_host(0) && !mov[0].vmm.lazy);
        assert_int_equal(mov[0].vmm.va.devices, 1 | 1 << DEVICE);
        assert_balanced(1, 4 * MIB);
        assert_int_equal(has.copies, 2); /* Pieces of 2 MiB, at least. */
        assert_int_equal(has.out_bytes, 4 * MIB);
        assert_int_equal(has.in_bytes, 0);
        assert_int_equal(has.moved, 0); /* Only bytes that come say what a move costs. */
        assert_true(zc_move(NULL, &blocks[0], NULL, &why));
        assert_false(is_host(0));
        assert_balanced(1, 4 * MIB);
        assert_int_equal(has.copies, 3);
        assert_int_equal(has.in_bytes, 4 * MIB);
        assert_int_equal(has.moved, 1);
        assert_int_equal(has.moved_bytes, 4 * MIB);
        assert_int_equal(has.whole_waits, 0);
        assert_int_equal(move.cached, 1);
    }
}

static void memory_that_there_is_not_is_the_reason(void **state)
{
    (void)state;
    make("DH", 1, 4 * MIB, true);
    has.no_handle = true;
    assert_false(zc_move(&blocks[0], NULL, NULL, &why));
    assert_string_equal(why, "the driver refuses host memory");
    assert_false(zc_move(NULL, &blocks[1], NULL, &why));
    assert_string_equal(why, "the device has no memory for it");
    assert_balanced(2, 4 * MIB);
    has.no_handle = false;
    has.no_unmap = true;
    assert_false(zc_move(&blocks[0], NULL, NULL, &why));
    assert_string_equal(why, "cuMemUnmap refuses");
    assert_false(zc_move(NULL, &blocks[1], NULL, &why));
    assert_string_equal(why, "cuMemUnmap refuses");
    mov[1].vmm.rule = &rules[2];
    mov[1].vmm.filled = true;
    assert_false(zc_move(NULL, &blocks[1], NULL, &why));
    assert_string_equal(why, "cuMemUnmap refuses");
    mov[1].vmm.rule = &rules[1];
    assert_balanced(2, 4 * MIB);
    has.no_unmap = false;
    has.no_copy = true;
    assert_false(zc_move(&blocks[0], NULL, NULL, &why));
    assert_string_equal(why, "the driver refuses the copy");
    assert_false(zc_move(NULL, &blocks[1], NULL, &why));
    assert_string_equal(why, "the driver refuses the copy");
    assert_balanced(2, 4 * MIB);
}

static void two_blocks_change_places_in_pieces(void **state)
{
    static const struct {
        size_t own;
        unsigned pieces;
    } rows[] = {{2 * MIB, 1}, {6 * MIB, 3}, {32 * MIB, 16}, {34 * MIB, 9}, {64 * MIB, 16}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        make("DH", 0, rows[i].own, true);
        assert_true(zc_move(&blocks[0], &blocks[1], NULL, &why));
        assert_true(is_host(0) && !is_host(1));
        assert_balanced(2, rows[i].own);
        assert_int_equal(has.copies, 2 * rows[i].pieces);
        assert_int_equal(has.out_bytes, rows[i].own);
        assert_int_equal(has.in_bytes, rows[i].own);
        assert_int_equal(has.moved, 1);
        assert_true(zc_move(&blocks[1], &blocks[0], NULL, &why));
        assert_balanced(2, rows[i].own);
    }
}

static unsigned asked, carries; /* Copies, and a bit for each of them that is made. */
static CUresult carried_so;

static bool carry(struct zc_copy *c, struct zc_va *const *va)
{
    bool in = c->dst.asked == ZC_KIND_DEVICE, makes = carries >> asked++ & 1;
    assert_true(c->async && c->bytes == 32 * MIB);
    assert_true(c->src.address - va[0]->base == c->dst.address - va[1]->base);
    assert_int_equal(in, asked > 2);
    assert_true(va[0]->context == va[in]->context && va[0]->device == va[in]->device);
    if (makes && carried_so == CUDA_SUCCESS)
        copy_async(c->dst.address, c->src.address, c->bytes, c->stream);
    c->result = carried_so;
    return makes;
}

static void other_links_are_asked_to_carry_pieces_that_are_large_enough(void **state)
{
    (void)state;
    for (carries = 0; carries < 16; carries++)
        for (int fails = 0; fails < 2; fails++) {
            anew(NULL);
            asked = 0;
            carried_so = fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
            make("DH", 0, 64 * MIB, true);
            bool moved = zc_move(&blocks[0], &blocks[1], carry, &why);
            assert_int_equal(moved, !fails || !carries);
            if (moved) {
                assert_int_equal(asked, 4);
                assert_int_equal(has.copies, 4);
                assert_true(is_host(0) && !is_host(1));
            } else {
                assert_string_equal(why, "the driver refuses the copy");
                assert_true(is_host(1));
            }
            assert_balanced(2, 64 * MIB);
        }
}

/* Each call fails once, and the next move does what that one did not. */
static void fail_at_each_call(const char *place, unsigned rule, bool guard, int leaves, int comes)
{
    unsigned count = (unsigned)strlen(place), failed = 0;
    for (unsigned n = 1;; n++) {
        anew(NULL);
        make(place, rule, 6 * MIB, guard);
        if (leaves >= 0 && is_host((unsigned)leaves)) /* A fetched one, which is to come first. */
            assert_true(zc_move(NULL, &blocks[leaves], NULL, &why));
        has.calls = 0;
        has.fails = n;
        why = "";
        bool moved = zc_move(leaves < 0 ? NULL : &blocks[leaves], comes < 0 ? NULL : &blocks[comes],
                             NULL, &why);
        has.fails = 0;
        assert_balanced(count, 6 * MIB);
        if (moved) {
            assert_true(leaves < 0 || is_host((unsigned)leaves));
            assert_true(comes < 0 || !is_host((unsigned)comes));
        } else {
            failed++;
            assert_true(why[0]);
            assert_true(comes < 0 || is_host((unsigned)comes));
        }
        if (!has.refused)
            break;
        bool gone = leaves >= 0 && is_host((unsigned)leaves);
        if (!moved)
            assert_true(zc_move(leaves < 0 || gone ? NULL : &blocks[leaves],
                                comes < 0 ? NULL : &blocks[comes], NULL, &why) ||
                        (gone && comes < 0));
        assert_balanced(count, 6 * MIB);
    }
    assert_true(failed >= 5);
}

static void whatever_call_fails_a_block_that_leaves_keeps_its_bytes(void **state)
{
    (void)state;
    fail_at_each_call("D", 0, true, 0, -1);
    fail_at_each_call("D", 1, false, 0, -1);
}

static void whatever_call_fails_a_block_that_comes_keeps_its_bytes(void **state)
{
    (void)state;
    fail_at_each_call("H", 0, true, -1, 0);
    fail_at_each_call("H", 1, false, -1, 0);
}

static void whatever_call_fails_blocks_that_change_places_keep_theirs(void **state)
{
    (void)state;
    fail_at_each_call("DH", 0, true, 0, 1);
    fail_at_each_call("DH", 1, false, 0, 1);
}

static void whatever_call_fails_a_fetched_block_keeps_its_bytes(void **state)
{
    (void)state;
    fail_at_each_call("H", 2, true, -1, 0);
    fail_at_each_call("H", 2, false, -1, 0);
    fail_at_each_call("HH", 2, true, 0, 1);
}

static void a_fetched_block_that_can_not_leave_is_on_the_device(void **state)
{
    (void)state;
    for (unsigned n = 1; n == 1 || has.refused; n++) {
        anew(NULL);
        make("H", 2, 6 * MIB, true);
        assert_true(zc_move(NULL, &blocks[0], NULL, &why));
        has.calls = 0;
        has.fails = n;
        why = "";
        bool left = zc_move(&blocks[0], NULL, NULL, &why);
        assert_int_equal(left, is_host(0));
        assert_int_equal(left, mov[0].host_copy.chunks.count == 0);
        assert_true(left || (has.refused && why[0]));
        assert_balanced(1, 6 * MIB);
    }
}

/* Launches may not write it: so it needs no copy to leave. */
static void a_fetched_block_comes_behind_a_mark_and_leaves_without_a_copy(void **state)
{
    (void)state;
    make("H", 2, 6 * MIB, true);
    mov[0].vmm.lazy = false; /* As one that is filled after it was mapped. */
    has.range[range_of(&mov[0].vmm.va)].inner = (unsigned)mov[0].vmm.chunks.list[1].handle;
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_balanced(1, 6 * MIB);
    assert_true(mov[0].vmm.va.reads && mov[0].vmm.lazy && mov[0].came);
    assert_int_equal(has.range[range_of(&mov[0].vmm.va)].inner, 0);
    assert_true(mov[0].host_copy.host.closed && mov[0].host_copy.chunks.count == 3);
    assert_int_equal(has.copies, 1);
    assert_int_equal(has.updates, 1);
    assert_int_equal(has.moved, 0); /* The copy may be under way still. */
    assert_true(zc_move(&blocks[0], NULL, NULL, &why));
    assert_balanced(1, 6 * MIB);
    assert_true(is_host(0) && !mov[0].vmm.va.reads && !mov[0].came);
    assert_int_equal(has.range[range_of(&mov[0].vmm.va)].inner, 0);
    assert_int_equal(has.copies, 1);
    assert_int_equal(has.out_bytes, 0);
}

static void without_a_mark_a_fetched_block_is_there_at_once(void **state)
{
    (void)state;
    make("H", 2, 6 * MIB, true);
    has.no_mark = true;
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_null(mov[0].came);
    assert_int_equal(has.moved, 1);
    assert_balanced(1, 6 * MIB);
}

static void fetched_blocks_change_places_in_one_copy(void **state)
{
    (void)state;
    make("HH", 2, 32 * MIB, false);
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_true(zc_move(&blocks[0], &blocks[1], NULL, &why));
    assert_true(is_host(0) && !is_host(1));
    assert_balanced(2, 32 * MIB);
    assert_int_equal(has.copies, 2);
    assert_int_equal(has.whole_waits, 0);
}

static void host_memory_that_was_left_is_taken_again(void **state)
{
    (void)state;
    make("HHHHHH", 0, 2 * MIB, true);
    for (unsigned i = 0; i < 6; i++)
        assert_true(zc_move(NULL, &blocks[i], NULL, &why));
    assert_int_equal(move.cached, 4); /* The oldest ones were given back. */
    assert_balanced(6, 2 * MIB);
    for (unsigned left = 4; left-- > 0;) {
        assert_true(zc_move(&blocks[left], NULL, NULL, &why));
        assert_int_equal(move.cached, left);
    }
    assert_balanced(6, 2 * MIB);
    assert_true(zc_move(&blocks[5], NULL, NULL, &why)); /* There is none left. */
    assert_balanced(6, 2 * MIB);
}

static void what_is_kept_serves_only_blocks_of_its_size_rule_device_and_guards(void **state)
{
    (void)state;
    make("DH", 0, 4 * MIB, true);
    assert_true(zc_move(NULL, &blocks[1], NULL, &why));
    assert_int_equal(move.cached, 1);
    struct cached *c = &move.cache[0];
    const struct cached kept = *c;
    c->rule = &rules[1];
    assert_true(zc_move(&blocks[0], NULL, NULL, &why));
    assert_int_equal(move.cached, 1);
    *c = kept;
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_int_equal(move.cached, 2);
    move.cache[0].device = move.cache[1].device = DEVICE + 1;
    assert_true(zc_move(&blocks[0], NULL, NULL, &why));
    assert_int_equal(move.cached, 2);
    move.cache[0].device = DEVICE;
    struct zc_backed out;
    mov[1].vmm.span -= GRANULE;
    assert_false(find_cached(&mov[1].vmm, &out));
    mov[1].vmm.guard = false;
    mov[1].vmm.span = 4 * MIB;
    assert_false(find_cached(&mov[1].vmm, &out));
    mov[1].vmm.guard = true;
    mov[1].vmm.span = 8 * MIB;
    assert_true(find_cached(&mov[1].vmm, &out));
    assert_int_equal(move.cached, 1);
    assert_int_equal(move.cache[0].device, DEVICE + 1);
    fake_drop_backed(&out);
    drop_cached(0);
    assert_balanced(2, 4 * MIB);
}

static void what_no_limit_keeps_is_given_back(void **state)
{
    (void)state;
    make("H", 0, 4 * MIB, true);
    has.no_kept = true;
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_int_equal(move.cached, 0);
    assert_balanced(1, 4 * MIB);
}

/* Host memory that is only kept makes room for a block that leaves. */
static void what_is_kept_goes_where_a_limit_is_reached(void **state)
{
    (void)state;
    make("HD", 0, 4 * MIB, true);
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_int_equal(move.cached, 1);
    has.calls = 0;
    has.fails = 1;
    assert_true(zc_move(&blocks[1], NULL, NULL, &why));
    assert_int_equal(has.refused, 1);
    assert_int_equal(move.cached, 0);
    assert_balanced(2, 4 * MIB);
    has.calls = 0;
    has.fails = 1;
    assert_false(zc_move(NULL, &blocks[1], NULL, &why)); /* The budget. */
    assert_string_equal(why, "over its budget");
    assert_balanced(2, 4 * MIB);
}

static void kept_memory_is_given_back_where_the_host_is_short(void **state)
{
    (void)state;
    make("HH", 0, 4 * MIB, true);
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_true(zc_move(NULL, &blocks[1], NULL, &why));
    assert_int_equal(zc_module_move.reclaim(ZC_PLACE_VMM), 0);
    has.locked_out = true;
    assert_int_equal(zc_module_move.reclaim(ZC_PLACE_MAPPED), 0);
    has.locked_out = false;
    assert_int_equal(move.cached, 2);
    assert_int_equal(zc_module_move.reclaim(ZC_PLACE_MAPPED), 2);
    assert_int_equal(has.locked, 0);
    assert_balanced(2, 4 * MIB);
    assert_true(zc_move(&blocks[0], NULL, NULL, &why) && zc_move(NULL, &blocks[0], NULL, &why));
    assert_int_equal(zc_module_move.reclaim(ZC_PLACE_COUNT), 1);
    assert_int_equal(zc_module_move.reclaim(ZC_PLACE_COUNT), 0);
    assert_balanced(2, 4 * MIB);
}

static void a_context_that_goes_takes_the_stream_of_copies_along(void **state)
{
    CUstream first = NULL, again = NULL;
    (void)state;
    make("H", 0, 4 * MIB, true);
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    assert_int_equal(copy_stream(&first), CUDA_SUCCESS);
    assert_int_equal(has.streams, 1);
    zc_module_move.context_gone((CUcontext)0x60);
    assert_int_equal(move.cached, 0);
    assert_int_equal(copy_stream(&again), CUDA_SUCCESS);
    assert_ptr_equal(again, first);
    has.current = (CUcontext)0x60;
    assert_int_equal(copy_stream(&again), CUDA_SUCCESS);
    assert_ptr_not_equal(again, first);
    assert_int_equal(has.streams, 1);
    zc_module_move.context_gone((CUcontext)0x60);
    has.streams = 0;
    assert_int_equal(copy_stream(&again), CUDA_SUCCESS);
    assert_int_equal(has.streams, 1);
}

static void blocks_change_places_only_where_each_fits_into_the_other(void **state)
{
    (void)state;
    make("DH", 0, 4 * MIB, true);
    assert_true(zc_move_fits(&blocks[0], &blocks[1]));
    blocks[1].size--;
    assert_false(zc_move_fits(&blocks[0], &blocks[1]));
    blocks[1].size++;
    blocks[1].flags = ZC_BLOCK_CONVERTED;
    assert_false(zc_move_fits(&blocks[0], &blocks[1]));
    blocks[0].flags =
        ZC_BLOCK_CONVERTED | ZC_BLOCK_SYNC_MEMOPS; /* Another one, which both need not have. */
    assert_true(zc_move_fits(&blocks[0], &blocks[1]));
    mov[1].vmm.span += GRANULE;
    assert_false(zc_move_fits(&blocks[0], &blocks[1]));
    mov[1].vmm.span -= 3 * GRANULE;
    mov[1].vmm.guard = false;
    assert_false(zc_move_fits(&blocks[0], &blocks[1]));
    mov[1].vmm.span += 2 * GRANULE;
    mov[1].vmm.guard = true;
    mov[0].vmm.va.reads = true;
    assert_false(zc_move_fits(&blocks[0], &blocks[1]));
    mov[1].vmm.rule = &rules[2];
    mov[1].vmm.filled = true;
    assert_true(zc_move_fits(&blocks[0], &blocks[1]));
}

static void the_pages_of_a_block_are_copied_to_its_device_memory(void **state)
{
    (void)state;
    for (unsigned n = 0;; n++) {
        anew(NULL);
        make("D", 1, 4 * MIB, false);
        has.fails = n;
        CUresult result = zc_move_in(&mov[0].vmm, 3 * MIB, &why);
        assert_int_equal(result == CUDA_SUCCESS, n == 0 || !has.refused);
        assert_int_equal(has.in_bytes,
                         has.copies && result == CUDA_SUCCESS ? 3 * MIB : has.in_bytes);
        if (result == CUDA_SUCCESS)
            assert_int_equal(has.moved_bytes, 3 * MIB);
        else
            assert_true(why[0]);
        assert_balanced(1, 4 * MIB);
        if (n && !has.refused)
            break;
    }
}

static void a_copy_that_can_not_be_waited_for_is_waited_for_with_all_else(void **state)
{
    (void)state;
    unsigned waited = 0, drains = 0;
    for (unsigned n = 1; n == 1 || has.refused; n++) {
        anew(NULL);
        make("D", 1, 4 * MIB, false);
        has.fails = n;
        if (zc_move_in(&mov[0].vmm, 3 * MIB, &why) != CUDA_SUCCESS) {
            waited += has.whole_waits;
            drains++;
            assert_int_equal(has.moved, has.in_bytes != 0);
        }
    }
    assert_int_equal(waited, 1);
    assert_true(drains > 3);
}

static void a_block_that_stays_is_mapped_whole_and_open_to_the_cpu(void **state)
{
    (void)state;
    make("HD", 1, 4 * MIB, true);
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_false(mov[0].stays); /* None is known to move. */
    zc_vmm_counts.movable = 1;
    has.locked_out = true;
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_true(mov[0].stays);
    assert_int_equal(has.opened, 1);
    has.locked_out = false;
    mov[1].vmm.moves = false;
    assert_int_equal(zc_move_never(&blocks[1], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_false(mov[1].stays);
    assert_int_equal(has.opened, 1);
    mov[1].vmm.moves = true;
    assert_int_equal(zc_move_never(&blocks[1], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_true(mov[1].stays);
    assert_int_equal(has.locked, 0);
    assert_int_equal(has.attached, 0);
    has.calls = 0;
    has.fails = 1;
    assert_int_equal(zc_move_never(&blocks[1], ZC_FN_cuGraphLaunch), CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.diagnosed, 0);
}

static void a_fetched_block_that_stays_may_be_written_on_the_device(void **state)
{
    (void)state;
    make("H", 2, 6 * MIB, true);
    zc_vmm_counts.movable = 1;
    assert_true(zc_move(NULL, &blocks[0], NULL, &why));
    has.whole = false;
    has.calls = 0;
    has.fails = 1;
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.diagnosed, 1);
    assert_int_equal(has.attached, mov[0].vmm.span);
    assert_true(mov[0].vmm.va.reads);
    has.calls = 0;
    has.fails = 2;
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.diagnosed, 2);
    assert_true(mov[0].vmm.va.reads);
    assert_int_equal(has.dropped_copies, 0);
    has.fails = 0;
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_false(mov[0].vmm.va.reads);
    assert_int_equal(has.dropped_copies, 1);
    assert_int_equal(has.relaxed, 0);
    assert_int_equal(has.locked, 0);
    assert_int_equal(has.opened, 1);
    assert_int_equal(zc_move_never(&blocks[0], ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    assert_int_equal(has.dropped_copies, 1);
}

/* The mover ends while the call waits for its lock. */
static void a_call_that_uses_blocks_waits_for_the_mover(void **state)
{
    (void)state;
    assert_false(zc_move_enter()); /* Nothing moves. */
    assert_int_equal(move.users, 0);
    zc_vmm_counts.movable = 1;
    assert_true(zc_move_enter());
    assert_int_equal(move.users, 1);
    zc_move_leave(false);
    assert_int_equal(move.users, 1);
    zc_move_leave(true);
    assert_int_equal(move.users, 0);
    assert_int_equal(has.woken, 1);
    move.moving = 1;
    has.ends_move = &move.moving;
    assert_true(zc_move_enter());
    assert_int_equal(move.users, 1);
    assert_int_equal(has.locked, 0);
    assert_int_equal(has.woken, 2);
    move.moving = 1;
    has.locks = 0;
    has.moves_again = 3; /* Each time it has the lock again. */
    assert_true(zc_move_enter());
    assert_true(has.locks == 1 && has.locked == 0 && move.users == 2 && move.moving == 1);
    zc_move_leave(true);
    has.ends_move = NULL;
    has.locked_out = true; /* A signal handler of the mover's thread. */
    assert_false(zc_move_enter());
    assert_int_equal(move.users, 1);
}

static CUresult copy_state;

static CUresult query_copy(CUevent event)
{
    assert_ptr_equal(event, (CUevent)5);
    return copy_state;
}

static void a_copy_to_the_device_is_under_way_until_its_event_has_passed(void **state)
{
    (void)state;
    zc_real.cuEventQuery = query_copy;
    make("H", 2, 6 * MIB, true);
    zc_vmm_counts.movable = 1;
    assert_false(zc_move_under_way(NULL));
    assert_false(zc_move_under_way(&blocks[0]));
    mov[0].came = (CUevent)5;
    copy_state = CUDA_ERROR_NOT_READY;
    assert_true(zc_move_under_way(&blocks[0]));
    copy_state = CUDA_ERROR_ILLEGAL_ADDRESS; /* Whoever waits for it hears of that. */
    assert_false(zc_move_under_way(&blocks[0]));
}

static void blocks_move_while_the_gpu_rests_and_no_call_uses_them(void **state)
{
    (void)state;
    assert_true(zc_move_begin(HOME, 7));
    assert_int_equal(move.moving, 1);
    assert_true(has.rests == 2 && has.drains == 1 && has.waits == 1);
    zc_move_end();
    assert_int_equal(move.moving, 0);
    assert_true(zc_move_begin(NULL, 7));
    assert_true(has.rests == 2 && has.drains == 2 && has.waits == 2);
    zc_move_end();
    for (unsigned n = 1; n <= 4; n++) {
        has.calls = 0;
        has.fails = n;
        assert_false(zc_move_begin(HOME, 7));
        assert_int_equal(move.moving, 0);
    }
    has.fails = 0;
    move.users = 1;
    assert_false(zc_move_begin(HOME, 7));
    assert_int_equal(move.moving, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_block_leaves_the_device_and_comes_back, anew),
        cmocka_unit_test_setup(memory_that_there_is_not_is_the_reason, anew),
        cmocka_unit_test_setup(a_fetched_block_that_can_not_leave_is_on_the_device, anew),
        cmocka_unit_test_setup(two_blocks_change_places_in_pieces, anew),
        cmocka_unit_test_setup(other_links_are_asked_to_carry_pieces_that_are_large_enough, anew),
        cmocka_unit_test_setup(whatever_call_fails_a_block_that_leaves_keeps_its_bytes, anew),
        cmocka_unit_test_setup(whatever_call_fails_a_block_that_comes_keeps_its_bytes, anew),
        cmocka_unit_test_setup(whatever_call_fails_blocks_that_change_places_keep_theirs, anew),
        cmocka_unit_test_setup(whatever_call_fails_a_fetched_block_keeps_its_bytes, anew),
        cmocka_unit_test_setup(a_fetched_block_comes_behind_a_mark_and_leaves_without_a_copy, anew),
        cmocka_unit_test_setup(without_a_mark_a_fetched_block_is_there_at_once, anew),
        cmocka_unit_test_setup(fetched_blocks_change_places_in_one_copy, anew),
        cmocka_unit_test_setup(host_memory_that_was_left_is_taken_again, anew),
        cmocka_unit_test_setup(what_is_kept_serves_only_blocks_of_its_size_rule_device_and_guards,
                               anew),
        cmocka_unit_test_setup(what_no_limit_keeps_is_given_back, anew),
        cmocka_unit_test_setup(what_is_kept_goes_where_a_limit_is_reached, anew),
        cmocka_unit_test_setup(kept_memory_is_given_back_where_the_host_is_short, anew),
        cmocka_unit_test_setup(a_context_that_goes_takes_the_stream_of_copies_along, anew),
        cmocka_unit_test_setup(blocks_change_places_only_where_each_fits_into_the_other, anew),
        cmocka_unit_test_setup(the_pages_of_a_block_are_copied_to_its_device_memory, anew),
        cmocka_unit_test_setup(a_copy_that_can_not_be_waited_for_is_waited_for_with_all_else, anew),
        cmocka_unit_test_setup(a_block_that_stays_is_mapped_whole_and_open_to_the_cpu, anew),
        cmocka_unit_test_setup(a_fetched_block_that_stays_may_be_written_on_the_device, anew),
        cmocka_unit_test_setup(a_call_that_uses_blocks_waits_for_the_mover, anew),
        cmocka_unit_test_setup(a_copy_to_the_device_is_under_way_until_its_event_has_passed, anew),
        cmocka_unit_test_setup(blocks_move_while_the_gpu_rests_and_no_call_uses_them, anew)};
    return RUN_TESTS(tests);
}
