/* SPDX-License-Identifier: MIT */
/* Copies that are refused, with the rule that may be why; and those that the driver makes later. */
#include "hook_copy_test.h"

/* The driver may object to something else before it looks at a range. */
static void a_refusal_has_the_code_that_the_driver_has(void **state)
{
    static const struct {
        bool async, array;
        enum zc_shape shape;
        CUresult own, stream, desc, result;
    } rows[] = {
        {false, false, ZC_SHAPE_LINE, 0, 1, 2, CUDA_ERROR_INVALID_CONTEXT},
        {true, false, ZC_SHAPE_LINE, 0, 0, 2, CUDA_ERROR_INVALID_CONTEXT},
        {true, false, ZC_SHAPE_LINE, 0, CUDA_ERROR_INVALID_HANDLE, 2, CUDA_ERROR_INVALID_HANDLE},
        {false, true, ZC_SHAPE_LINE, 0, 1, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE},
        {false, true, ZC_SHAPE_LINE, 0, 1, 0, CUDA_ERROR_INVALID_CONTEXT},
        {false, true, ZC_SHAPE_STRIDED, 0, 1, 2, CUDA_ERROR_INVALID_CONTEXT},
        {true, true, ZC_SHAPE_LINE, 0, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
         CUDA_ERROR_INVALID_CONTEXT},
        {false, false, ZC_SHAPE_LINE, CUDA_ERROR_NOT_READY, 1, 2, CUDA_ERROR_NOT_READY}};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_copy c = ours();
        c.async = rows[i / 2].async;
        c.stream = STREAM;
        c.shape = rows[i / 2].shape;
        c.result = rows[i / 2].own;
        if (rows[i / 2].array)
            (i % 2 ? &c.src : &c.dst)->side = ZC_SIDE_ARRAY;
        has.stream = rows[i / 2].stream;
        has.array = rows[i / 2].desc;
        has.plan[0] = ZC_WAY_REFUSE;
        assert_true(zc_copy_begin(&c));
        assert_int_equal(c.result, rows[i / 2].result);
    }
}

/* Ends a copy that the driver has refused; whether a rule is named for that. */
static bool named(struct zc_copy *c, CUresult code)
{
    unsigned before = has.diagnosed + has.borders;
    c->result = code;
    assert_int_equal(zc_copy_end(c), code);
    assert_int_equal(has.recorded, 0);
    return has.diagnosed + has.borders > before;
}

#define NAMED(is, change)                                                                          \
    do {                                                                                           \
        anew(NULL);                                                                                \
        struct zc_copy c = ours();                                                                 \
        struct zc_operand *mine = &c.dst, *theirs = &c.src;                                        \
        (void)mine, (void)theirs;                                                                  \
        change;                                                                                    \
        assert_int_equal(named(&c, CUDA_ERROR_INVALID_VALUE), is);                                 \
    } while (0)

static void a_rule_is_named_where_the_driver_would_take_its_own_memory(void **state)
{
    (void)state;
    NAMED(true, ;);
    assert_int_equal(has.told, AT);
    NAMED(true, (near_block.flags = 0, far_block.flags = ZC_BLOCK_CONVERTED));
    assert_int_equal(has.told, FAR);
    NAMED(true, (has.border = FAR, theirs->side = ZC_SIDE_ARRAY));
    assert_true(has.told == FAR && has.borders == 1 && has.diagnosed == 0);
    NAMED(false, near_block.flags = 0);
    NAMED(false, c.answered = true);
    NAMED(false, c.bytes = 0);
    NAMED(false, theirs->side = ZC_SIDE_ARRAY);
    NAMED(false, (c.src = c.dst, c.dst.side = ZC_SIDE_ARRAY));
    NAMED(false, mine->span++);
    NAMED(false, theirs->span++);
    NAMED(false, far_block.flags = ZC_BLOCK_QUARANTINED);
    NAMED(false, near_block.flags |= ZC_BLOCK_QUARANTINED);
    NAMED(false, mine->in_margin = true);
    NAMED(false, theirs->in_margin = true);
    NAMED(false, has.refused_at = AT);
    NAMED(false, has.refused_at = FAR);
    NAMED(false, has.nobodys_at = AT);
    NAMED(false, has.nobodys_at = FAR);
    NAMED(false, c.shape = ZC_SHAPE_PREFETCH);
    NAMED(false, c.order = -1);
    NAMED(false, c.word = true);
    NAMED(true, (c.word = true, mine->real = ZC_KIND_MANAGED));
}

static void a_mapping_or_range_of_the_programs_may_be_what_is_refused(void **state)
{
    static const struct {
        unsigned long long rights;
        bool to, from; /* A rule is named for a copy to it, and from it. */
    } rows[] = {{CU_MEM_ACCESS_FLAGS_PROT_NONE, false, false},
                {CU_MEM_ACCESS_FLAGS_PROT_READ, false, true},
                {CU_MEM_ACCESS_FLAGS_PROT_READWRITE, true, true}};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        NAMED(rows[i].from, (has.access_code = 0, has.rights = rows[i].rights));
        NAMED(rows[i].to, (has.access_code = 0, has.rights = rows[i].rights, near_block.flags = 0,
                           far_block.flags = ZC_BLOCK_CONVERTED));
        NAMED(true, (has.access_code = 0, has.rights = rows[i].rights,
                     has.get_device = CUDA_ERROR_INVALID_CONTEXT));
        NAMED(true, (has.access_code = 0, has.rights = rows[i].rights,
                     far_block.flags = ZC_BLOCK_CONVERTED));
        NAMED(true,
              (has.access_code = 0, has.rights = rows[i].rights, theirs->side = ZC_SIDE_NONE));
    }
    NAMED(true, (has.range_code = 0, has.range = FAR - 16, has.range_size = SIZE + 16));
    NAMED(false, (has.range_code = 0, has.range = FAR - 16, has.range_size = SIZE + 15));
    NAMED(true, (has.range = FAR - 16, has.range_size = SIZE + 15));
}

static void what_a_capture_forbids_it_forbids_in_every_place(void **state)
{
    static const struct {
        CUresult code;
        bool async;
        CUstream stream;
        enum zc_flavour flavour;
        bool named;
    } rows[] = {{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, true, STREAM, ZC_LEGACY, false},
                {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, false, NULL, ZC_LEGACY, false},
                {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, true, STREAM, ZC_LEGACY, true},
                {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, false, STREAM, ZC_LEGACY, false},
                {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, true, CU_STREAM_LEGACY, ZC_PER_THREAD, false},
                {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, true, NULL, ZC_LEGACY, false},
                {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, true, NULL, ZC_PER_THREAD, true},
                {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true, NULL, ZC_LEGACY, true},
                {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, false, NULL, ZC_LEGACY, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_copy c = ours();
        c.async = rows[i].async;
        c.stream = rows[i].stream;
        c.flavour = rows[i].flavour;
        assert_int_equal(named(&c, rows[i].code), rows[i].named);
    }
}

static void a_graph_that_takes_no_node_is_what_refuses(void **state)
{
    static const CUgraphEdgeData edges[1];
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct zc_behind behind = {.graph = (CUgraph)0x66, .edges = i & 1 ? edges : NULL};
        NAMED(!(i & 2),
              (c.behind = &behind, has.ended = i & 2 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS));
        assert_int_equal(has.edges, i & 1 ? 1 : 100);
        assert_int_equal(has.destroyed, !(i & 2));
    }
}

static void a_call_that_reaches_out_of_a_block_is_told(void **state)
{
    (void)state;
    struct zc_copy c = ours();
    c.on = false;
    c.dst.span++;
    assert_true(zc_copy_reaches(&c));
    assert_int_equal(has.resolved, 0);
    c.on = true;
    assert_false(zc_copy_reaches(&c));
    assert_int_equal(has.resolved, 1);
    c.bytes = 0;
    assert_true(zc_copy_reaches(&c));
    c = ours();
    assert_true(zc_copy_reaches(&c));
    far_block.flags = ZC_BLOCK_CONVERTED;
    c.src.span++;
    assert_false(zc_copy_reaches(&c));
}

/* The description of values that a stream is to write and to wait for. */
static struct zc_copy values(unsigned count, const CUstreamBatchMemOpParams *p)
{
    struct zc_copy c = {.fn = ZC_FN_cuMemcpy, .on = true};
    has.found[0] = &near_block;
    near_block.flags = ZC_BLOCK_CONVERTED;
    zc_describe_values(&c, count, p, STREAM);
    assert_true(c.async && c.stream == STREAM);
    return c;
}

static CUstreamBatchMemOpParams value(CUstreamBatchMemOpType op, CUdeviceptr address,
                                      unsigned flags)
{
    CUstreamBatchMemOpParams p = {.operation = op};
    p.waitValue.address = address;
    if (op == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op == CU_STREAM_MEM_OP_WAIT_VALUE_64)
        p.waitValue.flags = flags;
    else
        p.writeValue.flags = flags;
    return p;
}

static void of_several_values_the_one_that_counts_is_described(void **state)
{
    static const struct {
        CUstreamBatchMemOpType op;
        unsigned bytes;
    } ops[] = {{CU_STREAM_MEM_OP_WAIT_VALUE_32, 4},
               {CU_STREAM_MEM_OP_WAIT_VALUE_64, 8},
               {CU_STREAM_MEM_OP_WRITE_VALUE_32, 4},
               {CU_STREAM_MEM_OP_WRITE_VALUE_64, 8}};
    CUstreamBatchMemOpParams p[4];
    struct zc_copy c;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool waits = i < 2;
        p[0] = value(CU_STREAM_MEM_OP_BARRIER, 0, 0);
        p[1] = value(ops[i].op, FAR, 0); /* The driver's. */
        p[2] = value(ops[i].op, AT + 16, 0);
        p[3] = value(ops[i].op, AT + 32, 0);
        c = values(4, p);
        assert_true(c.dst.address == AT + 16 && c.bytes == ops[i].bytes && c.word && !c.unknown);
        p[3] = value(ops[i].op, AT + SIZE - ops[i].bytes / 2, 0); /* Leaves the block. */
        c = values(4, p);
        assert_int_equal(c.dst.address, AT + SIZE - ops[i].bytes / 2);
        p[1] = value(ops[i].op, FAR + 2, 0); /* Is not aligned. */
        c = values(4, p);
        assert_int_equal(c.dst.address, FAR + 2);
        p[1] = value(ops[i].op, FAR, 1u << 20); /* Flags that nobody knows. */
        c = values(4, p);
        assert_int_equal(c.dst.address, FAR);
        p[1] = value(ops[i].op, FAR, waits ? CU_STREAM_WAIT_VALUE_FLUSH : ZC_WRITE_FLAGS);
        c = values(3, p);
        assert_int_equal(c.dst.address, AT + 16);
        c = values(2, p);
        assert_int_equal(c.shape, ZC_SHAPE_NONE);
        c = values(1, p + 2);
        assert_int_equal(c.dst.address, AT + 16);
    }
    c = values(4, NULL);
    assert_int_equal(c.shape, ZC_SHAPE_NONE);
    p[0] = value(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0, 0);
    p[1] = value((CUstreamBatchMemOpType)77, AT, 0);
    c = values(2, p);
    assert_true(c.unknown);
    c = values(1, p);
    assert_false(c.unknown);
}

static void a_call_that_gives_the_driver_a_copy_for_later_is_made_ready_for(void **state)
{
    static const struct {
        bool off, unknown, leaves, border, behind, late;
        CUresult value, drained, launched;
        unsigned retreat_fails;
        CUresult result;
        unsigned unknowns, retreats, graphs, drains, launches, nodes;
    } rows[] = {
        {.result = 0, .retreats = 2, .graphs = 1, .launches = 1},
        {.off = true, .leaves = true, .unknown = true, .graphs = 1, .launches = 1},
        {.unknown = true, .unknowns = 1, .retreats = 2, .graphs = 1, .launches = 1},
        {.unknown = true, .value = 2, .result = 2, .unknowns = 1},
        {.leaves = true, .result = CUDA_ERROR_INVALID_VALUE},
        {.border = true, .result = CUDA_ERROR_INVALID_VALUE, .retreats = 2},
        {.border = true, .behind = true, .retreats = 2, .graphs = 1, .launches = 1, .nodes = 1},
        {.late = true, .behind = true, .retreats = 2, .graphs = 1, .launches = 1, .nodes = 1},
        {.behind = true, .retreats = 2, .graphs = 1, .launches = 1},
        {.retreat_fails = 1, .result = CUDA_ERROR_UNKNOWN, .retreats = 1},
        {.retreat_fails = 2, .result = CUDA_ERROR_UNKNOWN, .retreats = 2},
        {.launched = 2, .result = 2, .retreats = 2, .graphs = 1, .launches = 1},
        {.launched = 2,
         .border = true,
         .behind = true,
         .result = 2,
         .retreats = 2,
         .graphs = 1,
         .launches = 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_behind behind = {.graph = (CUgraph)0x66};
        struct zc_copy c = ours();
        c.on = !rows[i].off;
        c.unknown = rows[i].unknown;
        c.dst.span += rows[i].leaves;
        c.behind = rows[i].behind ? &behind : NULL;
        has.border = rows[i].border ? AT : 0;
        has.late_border = rows[i].late ? AT : 0;
        has.unknown = rows[i].value;
        has.launched = rows[i].launched;
        has.retreat_fails = rows[i].retreat_fails;
        assert_int_equal(zc_copy_before_node(&c), rows[i].result);
        assert_int_equal(has.unknowns, rows[i].unknowns);
        assert_int_equal(has.retreats, rows[i].retreats);
        assert_int_equal(has.graphs, rows[i].graphs);
        assert_int_equal(has.launches, rows[i].launches);
        assert_int_equal(has.part_nodes, rows[i].nodes);
        assert_int_equal(c.made, rows[i].nodes);
        assert_int_equal(has.borders, rows[i].border && !rows[i].behind);
        assert_int_equal(has.awaited, 0);
    }
}

static void a_call_that_may_wait_for_the_cpu_ends_what_would_wait_for_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        struct zc_copy c = ours();
        c.fn = ZC_FN_cuStreamWaitValue32;
        has.drained = i ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        assert_int_equal(zc_copy_before_node(&c), has.drained);
        assert_true(has.awaited == 1 && has.launches == !i);
    }
    anew(NULL);
    struct zc_copy c = ours();
    c.bytes = 0; /* Nothing crosses a border then. */
    has.border = AT;
    assert_int_equal(zc_copy_before_node(&c), CUDA_SUCCESS);
    assert_int_equal(has.launches, 1);
}

static void a_node_that_is_refused_for_its_memory_names_the_rule(void **state)
{
    (void)state;
    struct zc_copy c = ours();
    assert_int_equal(zc_copy_after_node(&c, CUDA_SUCCESS), CUDA_SUCCESS);
    assert_int_equal(zc_copy_after_node(&c, CUDA_ERROR_NOT_READY), CUDA_ERROR_NOT_READY);
    assert_int_equal(has.diagnosed, 0);
    assert_int_equal(zc_copy_after_node(&c, CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.diagnosed, 1);
    c.on = false;
    assert_int_equal(zc_copy_after_node(&c, CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.diagnosed, 1);
    anew(NULL); /* The parts' graph may be refused, too. */
    struct zc_behind behind = {.graph = (CUgraph)0x66};
    c = ours();
    c.behind = &behind;
    has.border = AT;
    has.added = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_copy_before_node(&c), CUDA_ERROR_INVALID_VALUE);
    assert_true(has.borders == 1 && c.made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_refusal_has_the_code_that_the_driver_has),
        TEST(a_rule_is_named_where_the_driver_would_take_its_own_memory),
        TEST(a_mapping_or_range_of_the_programs_may_be_what_is_refused),
        TEST(what_a_capture_forbids_it_forbids_in_every_place),
        TEST(a_graph_that_takes_no_node_is_what_refuses),
        TEST(a_call_that_reaches_out_of_a_block_is_told),
        TEST(of_several_values_the_one_that_counts_is_described),
        TEST(a_call_that_gives_the_driver_a_copy_for_later_is_made_ready_for),
        TEST(a_call_that_may_wait_for_the_cpu_ends_what_would_wait_for_it),
        TEST(a_node_that_is_refused_for_its_memory_names_the_rule),
    };
    return RUN_TESTS(tests);
}
