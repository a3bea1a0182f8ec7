/* SPDX-License-Identifier: MIT */
/* hook/copy.c for its tests: plans, makers of copies and the driver answer as they are told, and
 * count what they are asked. */
#ifndef TESTS_UNIT_HOOK_COPY_TEST_H
#define TESTS_UNIT_HOOK_COPY_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "hook/copy.h"
#include "copy/cpu.h"
#include "copy/links.h"
#include "copy/parallel.h"
#include "copy/staged.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "driver/unknown.h"
#include "hook/diagnose.h"
#include "hook/parts.h"
#include "hook/request.h"
#include "host/source.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "real_test.h"

#define STREAM ((CUstream)0x77)
#define AT ((CUdeviceptr)0x100000)
#define FAR ((CUdeviceptr)0x900000)
#define SIZE ((size_t)8192)

static struct zc_block near_block, far_block; /* Of the destination and of the source. */

static struct {
    /* Answers of the neighbours. */
    enum zc_way plan[8];
    uint32_t answers;
    unsigned retries; /* Times that a plan is out of date. */
    bool pair, idle_pair, threads, linked, staged, large, side_refused, side_nobodys, captured;
    bool on, site_is_new, remaps, padded;
    CUresult stale, unknown, stream, array, refusal, waited, drained, launched, added;
    unsigned retreat_fails;                     /* Which of the two. */
    CUdeviceptr late_border;                    /* Until then it may move. */
    CUdeviceptr border, refused_at, nobodys_at; /* Sides that are that. */
    struct zc_block *found[2];
    int level;
    bool no_cells;
    unsigned changes; /* Looks that find the index changed. */
    struct zc_cell cell;
    /* The driver's words. */
    CUresult get_device, access_code, range_code, ended;
    unsigned long long rights;
    CUdeviceptr range;
    size_t range_size;
    /* Their calls. */
    uint32_t facts[8];
    unsigned looks, plans, asked, resolved, held, visited, kept, released, left, ended_sides,
        tidied, small;
    unsigned parts, cpu, ring, threaded, over_links, pair_copies, stales, unknowns, waits, notes;
    unsigned recorded, sources, sites, logged, diagnosed, borders, edges, nodes, graphs, awaited;
    unsigned launches, retreats, part_nodes, destroyed, refusals;
    struct zc_transfer last[4];
    CUdeviceptr told;
} has;

static struct zc_block *fake_find(uint64_t address)
{
    for (unsigned i = 0; i < 2; i++)
        if (has.found[i] && address - has.found[i]->base < has.found[i]->size)
            return has.found[i];
    return NULL;
}

/* Between blocks each address is a range of its own. */
static struct zc_index_seen fake_see(uint64_t address)
{
    struct zc_block *b = fake_find(address);
    has.looks++;
    if (has.changes)
        zc_index_sequence += 2, has.changes--;
    return (struct zc_index_seen){zc_index_sequence, b ? b->base : address, b ? b->size : 1,
                                  b ? &b->node : NULL};
}

/* A thread may have no cells of its own. */
static bool fake_cells(struct zc_plain_copy *c)
{
    c->cell[0] = c->dst ? &has.cell : NULL;
    return !has.no_cells;
}

static void fake_resolve(struct zc_copy *c)
{
    has.resolved++;
    if (c->shape == ZC_SHAPE_SET)
        c->dst.block = fake_find(c->dst.address);
}

static enum zc_way fake_plan(uint32_t facts)
{
    assert_true(has.plans < 8);
    has.facts[has.plans] = facts;
    return has.plan[has.plans++];
}

static uint32_t fake_answer(struct zc_copy *c, enum zc_way question)
{
    (void)c;
    assert_true(question > ZC_WAY_COUNT - 1);
    has.asked++;
    return has.answers;
}

static bool fake_keep(struct zc_copy *c)
{
    (void)c;
    has.kept++;
    return !has.retries || !has.retries--;
}

static bool fake_pair_copy(struct zc_copy *c)
{
    (void)c;
    return ++has.pair_copies > has.idle_pair;
}

static bool fake_refused(const struct zc_operand *b)
{
    return has.refused_at && b->address == has.refused_at;
}

static bool fake_nobodys(const struct zc_operand *b)
{
    return has.nobodys_at && b->address == has.nobodys_at;
}

static const struct zc_operand *fake_side(const struct zc_copy *c)
{
    return has.border && c->dst.address == has.border   ? &c->dst
           : has.border && c->src.address == has.border ? &c->src
                                                        : NULL;
}

static void fake_parts(struct zc_copy *c, const struct zc_parts_calls *calls)
{
    assert_true(calls->begin == zc_copy_begin && calls->end == zc_copy_end);
    assert_int_equal(has.left, 1);
    c->result = CUDA_SUCCESS;
    has.parts++;
}

static void fake_ring(struct zc_copy *c)
{
    (void)c;
    has.ring++;
}

static bool fake_threads(struct zc_copy *c)
{
    (void)c;
    has.threaded++;
    return has.threads;
}

static bool fake_links(struct zc_copy *c)
{
    (void)c;
    has.over_links++;
    return has.linked;
}

static CUresult fake_stale(const struct zc_copy *c)
{
    (void)c;
    has.stales++;
    return has.stale;
}

static void fake_cpu(struct zc_copy *c)
{
    (void)c;
    has.cpu++;
}

static CUresult fake_unknown(enum zc_fn fn)
{
    assert_int_equal(fn, ZC_FN_cuMemcpy);
    has.unknowns++;
    return has.unknown;
}

static CUresult fake_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device)
{
    (void)flavour;
    assert_ptr_equal(stream, STREAM);
    *device = 0;
    return has.stream;
}

static CUresult fake_refusal(void)
{
    has.refusals++;
    return has.refusal;
}

static CUresult fake_wait(const struct zc_copy *c)
{
    (void)c;
    assert_int_equal(has.released, 1);
    has.waits++;
    return has.waited;
}

static CUresult fake_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    assert_int_equal(fn, ZC_FN_cuMemcpy);
    has.diagnosed++;
    has.told = address;
    return code;
}

static CUresult fake_border(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    assert_int_equal(fn, ZC_FN_cuMemcpy);
    has.borders++;
    has.told = address;
    return code;
}

static void fake_record(const struct zc_transfer *t)
{
    assert_true(has.recorded < 4);
    has.last[has.recorded++] = *t;
}

static void fake_tell(struct zc_transfer *t, uint64_t dst, uint64_t src)
{
    (void)t;
    assert_true(dst == AT && src == FAR);
    has.sources++;
}

static struct zc_transfer fake_transfer(const struct zc_copy *c)
{
    return (struct zc_transfer){
        .bytes = c->bytes, .ticks = 5, .call = 3, .outcome = ZC_OUTCOME_COUNT};
}

static struct zc_log_call fake_call(const struct zc_copy *c)
{
    (void)c;
    return (struct zc_log_call){.function = "cuMemcpy"};
}

static void fake_log_transfer(const struct zc_transfer *t, const struct zc_log_call *call)
{
    assert_string_equal(call->function, "cuMemcpy");
    assert_int_equal(t->bytes, has.last[has.recorded - 1].bytes);
    has.logged++;
}

static bool fake_asks(CUstream stream, enum zc_flavour flavour)
{
    (void)stream, (void)flavour;
    return has.captured;
}

static CUresult fake_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps,
                             const char *why)
{
    assert_true(keeps && block == (has.retreats ? &far_block : &near_block));
    (void)fn;
    assert_string_equal(why, has.retreats == 0 ? ZC_RETREAT_WRITTEN : ZC_RETREAT_GRAPH);
    has.border = has.late_border ? has.late_border : has.border;
    return ++has.retreats == has.retreat_fails ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_drain(enum zc_fn fn)
{
    (void)fn;
    has.awaited++;
    return has.drained;
}

static CUresult fake_launch(enum zc_fn fn, enum zc_flavour flavour, CUstream stream)
{
    (void)fn, (void)flavour, (void)stream;
    has.launches++;
    return has.launched;
}

static CUresult fake_node(struct zc_copy *c)
{
    (void)c;
    has.part_nodes++;
    return has.added;
}

static int nothing(void)
{
    return 0;
}

#define zc_copy_resolve fake_resolve
#define zc_plan fake_plan
#define zc_sides_answer fake_answer
#define zc_sides_keep fake_keep
#define zc_sides_hold(c) (has.held++)
#define zc_sides_visit(c) (has.visited++)
#define zc_sides_leave(c) (has.left++)
#define zc_sides_release(c) (has.released++)
#define zc_sides_end(c) (has.ended_sides++)
#define zc_sides_note(c) (has.notes++)
#define zc_sides_pair(c) (has.pair)
#define zc_sides_copy fake_pair_copy
#define zc_sides_by_threads fake_threads
#define zc_sides_end_stale fake_stale
#define zc_sides_in_graph(c) (has.graphs++, CUDA_SUCCESS)
#define zc_side_refused fake_refused
#define zc_side_nobodys fake_nobodys
#define zc_parts_side fake_side
#define zc_parts_copy fake_parts
#define zc_parts_node fake_node
#define zc_staged_send fake_ring
#define zc_staged_wait fake_wait
#define zc_links_copy(copy, va) (assert_null(va), fake_links(copy))
#define zc_links_small() (has.small++)
#define zc_parallel_large(c) (has.large)
#define zc_cpu_copy fake_cpu
#define zc_unknown_value fake_unknown
#define zc_stream_device fake_stream_device
#define zc_stream_refusal fake_refusal
#define zc_diagnose fake_diagnose
#define zc_diagnose_border fake_border
#define zc_traffic_record fake_record
#define zc_source_tell fake_tell
#define zc_copy_transfer fake_transfer
#define zc_copy_call fake_call
#define zc_log_transfer fake_log_transfer
#define zc_log_site(site) (has.sites++)
#define zc_site_is_new(site) (has.site_is_new)
#define zc_log_level() ((enum zc_log_level)has.level)
#define zc_capture_asks fake_asks
#define zc_capture_holds(stream, flavour) (zc_captures && fake_asks(stream, flavour))
#define zc_copy_staged(c) (has.staged)
#define zc_place_retreat fake_retreat
#define zc_place_drain fake_drain
#define zc_place_tidy() (has.tidied++)
#define zc_move_enter() (nothing() != 0)
#define zc_move_leave(held) (void)(held)
#define zc_launch_before fake_launch
#define zc_block_see fake_see
#define zc_traffic_cells fake_cells
#include "../../shim/hook/copy.c"

static CUresult get_device(CUdevice *out)
{
    *out = 1;
    return has.get_device;
}

static CUresult get_access(unsigned long long *out, const CUmemLocation *where, CUdeviceptr p)
{
    (void)p;
    assert_true(where->type == CU_MEM_LOCATION_TYPE_DEVICE && where->id == 1);
    *out = has.rights;
    return has.access_code;
}

static CUresult get_range(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    (void)p;
    *base = has.range;
    *size = has.range_size;
    return has.range_code;
}

static CUresult get_descriptor(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    (void)out;
    assert_ptr_equal(array, (CUarray)0x55);
    return has.array;
}

static CUresult add_empty(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind, size_t count)
{
    assert_true(graph == (CUgraph)0x66 && !behind && count == 0);
    *node = (CUgraphNode)0x67;
    has.edges += 100;
    return has.ended;
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind,
                         const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    assert_true(graph == (CUgraph)0x66 && !behind && edges && count == 0);
    assert_int_equal(params->type, CU_GRAPH_NODE_TYPE_EMPTY);
    *node = (CUgraphNode)0x67;
    has.edges++;
    return has.ended;
}

static CUresult destroy_node(CUgraphNode node)
{
    assert_ptr_equal(node, (CUgraphNode)0x67);
    has.destroyed++;
    return CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuMemGetAccess = get_access;
    zc_real.cuMemGetAddressRange_v2 = get_range;
    zc_real.cuArray3DGetDescriptor_v2 = get_descriptor;
    zc_real.cuGraphAddEmptyNode = add_empty;
    zc_real.cuGraphAddNode_v2 = add_node;
    zc_real.cuGraphDestroyNode = destroy_node;
    has.access_code = has.range_code = CUDA_ERROR_INVALID_VALUE;
    has.refusal = CUDA_ERROR_INVALID_CONTEXT;
    has.waited = CUDA_ERROR_ECC_UNCORRECTABLE;
    has.level = ZC_LOG_SUMMARY;
    zc_life_state = ZC_LIFE_ON;
    zc_index_sequence += 2;
    zc_captures = 0;
    zc_rules_read.links = ZC_LINKS_OWN;
    near_block = (struct zc_block){.base = AT, .size = SIZE, .asked = ZC_KIND_DEVICE};
    near_block.real = ZC_KIND_DEVICE;
    far_block = near_block;
    far_block.base = FAR;
    return 0;
}

/* A copy between two blocks of device memory, that of the destination of libzc's. */
static struct zc_copy ours(void)
{
    struct zc_copy c = {.fn = ZC_FN_cuMemcpy,
                        .on = true,
                        .bytes = SIZE,
                        .shape = ZC_SHAPE_LINE,
                        .array = (CUarray)0x55,
                        .dst = {.side = ZC_SIDE_DEVICE,
                                .address = AT,
                                .span = SIZE,
                                .block = &near_block,
                                .asked = ZC_KIND_DEVICE,
                                .real = ZC_KIND_DEVICE},
                        .src = {.side = ZC_SIDE_DEVICE,
                                .address = FAR,
                                .span = SIZE,
                                .block = &far_block,
                                .asked = ZC_KIND_DEVICE,
                                .real = ZC_KIND_DEVICE}};
    near_block.flags = ZC_BLOCK_CONVERTED;
    return c;
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

#endif
