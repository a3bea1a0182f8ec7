/* SPDX-License-Identifier: MIT */
/* hook/graph.c for its tests: graphs, the driver and what copies ask answer as they are told, and
 * tell what they are asked. */
#ifndef TESTS_UNIT_HOOK_GRAPH_TEST_H
#define TESTS_UNIT_HOOK_GRAPH_TEST_H

#include "hook_test.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/message.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/unknown.h"
#include "hook/copy.h"
#include "hook/graph.h"
#include "hook/request.h"
#include "host/source.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "log/ranges.h"
#include "place/migrate.h"

#define EXEC(n) ((CUgraphExec)(0x1000 * (uintptr_t)(n)))
#define NODE(n) ((CUgraphNode)(0x10 * (uintptr_t)(n)))
#define GRAPH ((CUgraph)0x61)
#define CHILD ((CUgraph)0x62) /* As it is named in GRAPH. */
#define OTHER ((CUgraph)0x63) /* Of the same shape. */
#define STREAM ((CUstream)0x5)
#define CONTEXT ((CUcontext)0x7)
#define OUTSIDE ((CUdeviceptr)0x8000)

static struct {
    bool locked, no_lock, no_memory, refuses, made, no_child, awaits, closing, quiet;
    int64_t live;    /* Bytes of the arena that are in use. */
    unsigned copies; /* Of GRAPH. */
    bool graph_awaits, graph_unknown, graph_named, other_type;
    CUresult value, prepared, drained, waited;
    CUdeviceptr stale, late; /* Addresses that can't be made ready; that are read at their turn. */
    uint64_t now;
    bool to_pageable, from_pageable; /* Of copies that are read or added. */
    CUdeviceptr frail;               /* The same. */
    CUcontext behind;
    size_t behind_count;
    int sources; /* That were told apart, and not yet counted. */
} has;
static struct zc_rule pageable = {.name = "host", .line = 7};

static bool fake_take(struct zc_lock *l)
{
    (void)l;
    assert_false(has.locked);
    return has.locked = !has.no_lock;
}

static void fake_give(struct zc_lock *l)
{
    (void)l;
    assert_true(has.locked);
    has.locked = false;
}

static void *fake_get(size_t bytes)
{
    void *p = has.no_memory ? NULL : zc_arena_get(bytes);
    has.live += p ? (int64_t)bytes : 0;
    return p;
}

static void fake_put(void *p, size_t bytes)
{
    has.live -= p ? (int64_t)bytes : 0;
    zc_arena_put(p, bytes);
}

static bool fake_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    size_t before = *room * bytes;
    if (has.no_memory || !zc_arena_extend(array, room, count, bytes, first))
        return false;
    has.live += (int64_t)(*room * bytes - before);
    return true;
}

static void fake_drop(struct zc_graph_nodes *nodes)
{
    fake_put(nodes->copy, nodes->cap * sizeof(*nodes->copy));
}

static void add(struct zc_graph_nodes *nodes, CUgraphNode id, CUdeviceptr dst, CUdeviceptr src,
                uint64_t bytes)
{
    if (fake_extend(&nodes->copy, &nodes->cap, nodes->count, sizeof(*nodes->copy), 8))
        nodes->copy[nodes->count++] = (struct zc_graph_copy){
            id,
            dst,
            src,
            zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_MANAGED),
            zc_flow(ZC_DIR_DTOD, has.from_pageable ? ZC_KIND_PAGEABLE : ZC_KIND_DEVICE,
                    has.to_pageable ? ZC_KIND_PAGEABLE : ZC_KIND_ARRAY),
            bytes,
            has.frail};
}

static void fake_read(struct zc_graph_nodes *nodes, CUgraph named, CUgraph given)
{
    assert_false(has.locked);
    if (named == CHILD) { /* Its nodes are the first ones of GRAPH. */
        add(nodes, NODE(1), HOOK_BLOCK(2), 0, given == OTHER ? 99 : 98);
        add(nodes, NODE(2), HOOK_BLOCK(2), 0, 97);
        return;
    }
    for (unsigned i = 0; i < has.copies; i++)
        add(nodes, NODE(i + (named == OTHER ? 11 : 1)), HOOK_BLOCK(0) + i,
            i ? HOOK_BLOCK(1) + i : OUTSIDE, 10 + i);
    nodes->awaits = has.graph_awaits;
    nodes->unknown = has.graph_unknown;
    if (has.graph_named)
        nodes->launch = (struct zc_launch_graph){.count = 1, .address = {HOOK_BLOCK(2)}};
}

static void fake_add(struct zc_graph_nodes *nodes, CUgraphNode id, struct zc_copy *c)
{
    add(nodes, id, c->dst.address, c->src.address, c->bytes);
}

static CUresult fake_before(struct zc_copy *c)
{
    tell("before %d", (int)c->bytes);
    has.behind = c->behind ? c->behind->context : NULL;
    has.behind_count = c->behind ? c->behind->count : 0;
    c->made = has.made;
    return has.refuses ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static CUresult fake_after(struct zc_copy *c, CUresult result)
{
    if (result != CUDA_SUCCESS || c->behind)
        tell("after %d%s", result, c->answered ? ", explained" : "");
    return result;
}

static CUresult fake_frail(enum zc_fn fn, CUdeviceptr made, CUdeviceptr then, CUresult code)
{
    (void)fn;
    assert_false(has.locked);
    tell("frail by %llx, then %llx: %d", (unsigned long long)made, (unsigned long long)then, code);
    return code;
}

static const CUgraphNodeParams *fake_if(CUgraphNode node, const CUgraphNodeParams *params)
{
    (void)node;
    return has.other_type ? NULL : params;
}

static void fake_foreign(const struct zc_entry *entry, enum zc_api api, CUdeviceptr address,
                         size_t bytes, enum zc_kind kind)
{
    (void)entry;
    assert_true(api == ZC_API_cuGraphAddMemAllocNode && kind == ZC_KIND_DEVICE);
    tell("tracks %llx+%zx", (unsigned long long)address, bytes);
}

static int number(const struct zc_block *block)
{
    return block ? (int)block->id : 0;
}

static void fake_tell(struct zc_transfer *t, uint64_t dst, uint64_t src)
{
    assert_false(has.locked);
    assert_int_equal(number(t->dst), number(hook_find(dst)));
    assert_int_equal(number(t->src), src ? number(hook_find(src)) : 0);
    has.sources++;
}

static void fake_record(const struct zc_transfer *t)
{
    assert_int_equal(t->asked, zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_MANAGED));
    assert_int_equal(t->real, zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_ARRAY));
    assert_true(t->outcome == ZC_MOVED && t->copies == 1);
    assert_int_equal(has.sources--, 1);
    tell("counts %d of %d to %d, %d ticks%s", (int)t->bytes, number(t->src), number(t->dst),
         (int)t->ticks, t->call ? ", site" : "");
}

static void fake_line(const struct zc_transfer *t, const struct zc_log_call *call)
{
    assert_string_equal(call->function, "cuGraphLaunch");
    assert_true(call->stream == ZC_STREAM_CREATED && call->handle == (uintptr_t)STREAM);
    tell("line %llx<%llx+%d", (unsigned long long)call->dst, (unsigned long long)call->src,
         (int)t->bytes);
}

static uint32_t fake_site(void *frame, void *pc)
{
    (void)frame, (void)pc;
    return 5;
}

static CUresult fake_value(enum zc_fn fn)
{
    (void)fn;
    tell("unknown value");
    return has.value;
}

static CUresult fake_side(CUdeviceptr address, enum zc_fn fn, const struct zc_rule **late)
{
    (void)fn;
    tell("ready %llx%s", (unsigned long long)address, late ? ", read" : "");
    if (late && has.late && address == has.late)
        *late = &pageable;
    return has.stale && address == has.stale ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_drain(enum zc_fn fn)
{
    (void)fn;
    tell("drained");
    return has.drained;
}

static CUresult fake_prepare(const struct zc_launch *launch)
{
    assert_true(launch->kernels && launch->stream == STREAM);
    tell("prepare%s", launch->graph ? " for its blocks" : "");
    return has.prepared;
}

static void fake_done(const struct zc_launch *launch)
{
    assert_ptr_equal(launch->stream, STREAM);
    tell("done");
}

static bool fake_holds(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_LEGACY);
    return hook.capture;
}

static CUresult fake_wait(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_LEGACY);
    tell("waits");
    return has.waited;
}

static bool fake_first(const char *code)
{
    assert_string_equal(code, "graph sources");
    return !has.quiet;
}

__attribute__((format(printf, 3, 4))) static void
fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    assert_true(severity == ZC_WARN && strstr(text, "rule host (policy:7)"));
    tell("message %s", code);
}

static void fake_keep(enum zc_fn fn)
{
    (void)fn;
    tell("all stay");
}

#define zc_lock_take fake_take
#define zc_lock_drop fake_give
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_arena_extend fake_extend
#define zc_graph_drop fake_drop
#define zc_graph_read fake_read
#define zc_graph_add fake_add
#define zc_copy_before_node fake_before
#define zc_copy_after_node fake_after
#define zc_diagnose_frail fake_frail
#define zc_describe_if fake_if
#define zc_track_foreign fake_foreign
#define zc_source_tell fake_tell
#define zc_traffic_record fake_record
#define zc_log_transfer fake_line
#define zc_site_here fake_site
#define zc_unknown_value fake_value
#define zc_side_launched fake_side
#define zc_place_drain fake_drain
#define zc_launch_prepare fake_prepare
#define zc_launch_done fake_done
#define zc_capture_holds fake_holds
#define zc_life_closing() (has.closing)
#define zc_await_any() (has.awaits)
#define zc_stream_drain fake_wait
#define zc_message_first fake_first
#define zc_message fake_message
#define zc_migrate_keep_all fake_keep
#define zc_ticks() (has.now)
#include "../../shim/hook/graph.c"

static const struct zc_entry entry = {.fn = ZC_FN_cuGraphLaunch};
static CUresult launch_it(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    assert_false(has.locked);
    has.now += 300;
    tell("driver");
    return hook.driver;
}

static CUresult set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext c)
{
    (void)exec, (void)node, (void)p, (void)c;
    assert_false(has.locked);
    tell("driver sets");
    return hook.driver;
}

static CUresult get_child(CUgraphNode node, CUgraph *graph)
{
    (void)node;
    *graph = CHILD;
    return has.no_child ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    struct exec *x, *next;
    HASH_ITER(hh, execs, x, next) HASH_DELETE(hh, execs, x);
    hook_anew();
    memset(&has, 0, sizeof(has));
    has.copies = 2;
    zc_launch_watch = 0;
    zc_log_level_now = ZC_LOG_SUMMARY;
    zc_rules_read.file = "policy";
    zc_real.cuGraphChildGraphNodeGetGraph = get_child;
    return 0;
}

static CUresult launch(CUgraphExec exec)
{
    return zc_do_cuGraphLaunch(launch_it, &entry, exec, STREAM);
}

/* The copies that a launch counts, and nothing else. */
static const char *counted(CUgraphExec exec)
{
    hook_told[0] = '\0';
    assert_int_equal(launch(exec), CUDA_SUCCESS);
    char *at = strstr(hook_told, "driver");
    char *from = at ? strstr(at, "counts") : NULL;
    return from ? from : "";
}

#define READY "ready 10000000; ready 8000, read; ready 10000001; ready 20000001, read; "
#define BOTH "counts 10 of 0 to 1, 300 ticks; counts 11 of 2 to 1, 0 ticks"

#endif
