/* SPDX-License-Identifier: MIT */
/* Copies and sets over borders: the driver gets each byte once, in the form of the program's call,
 * and none of its calls crosses a border. */
#include "hook_test.h"

#include "driver/copy.h"

#define PART 64u /* Bytes between two borders here. */
static CUdeviceptr fake_border(const struct zc_block *block, CUdeviceptr address)
{
    CUdeviceptr border = (address / PART + 1) * PART;
    return block && border < block->base + block->size ? border : 0;
}

#define zc_block_border fake_border
#include "../../shim/hook/parts.c"

#define TO HOOK_BLOCK(0)
#define FROM HOOK_BLOCK(1)
#define STREAM ((CUstream)0x5)
#define GRAPH ((CUgraph)0x61)
#define PROGRAMS ((CUgraph)0x62) /* The graph that the program adds a node to. */
#define CONTEXT ((CUcontext)0x63)
enum { ROUNDS = 3000 };

static struct {
    unsigned written[HOOK_BYTES]; /* 1 more than the source's byte, or the value; 0: untouched. */
    unsigned calls, fails;        /* `fails`: the call that does. */
    unsigned begun, ended, completes; /* `completes`: the part that libzc makes. */
    uint64_t bytes;
    enum zc_way way; /* That libzc goes with it. */
    bool waited, node_fails, child_fails;
} has;

static struct zc_block *guarded(CUdeviceptr address)
{
    struct zc_block *b = hook_find(address);
    return b && b->flags & ZC_BLOCK_KNOWN ? b : NULL;
}

/* The driver's copy or set, if `src` is 0: it may touch a part and no more. */
static CUresult touch(CUdeviceptr dst, size_t pitch, size_t slice, CUdeviceptr src,
                      size_t src_pitch, size_t src_slice, unsigned value, const size_t *n)
{
    size_t last = (n[2] - 1) * slice + (n[1] - 1) * pitch + n[0] - 1;
    size_t src_last = (n[2] - 1) * src_slice + (n[1] - 1) * src_pitch + n[0] - 1;
    assert_true(n[0] && n[1] && n[2]);
    if (guarded(dst))
        assert_int_equal(dst / PART, (dst + last) / PART);
    if (src && guarded(src))
        assert_int_equal(src / PART, (src + src_last) / PART);
    if (++has.calls == has.fails)
        return CUDA_ERROR_UNKNOWN;
    for (size_t z = 0; z < n[2]; z++)
        for (size_t y = 0; y < n[1]; y++)
            for (size_t x = 0; x < n[0]; x++) {
                size_t at = dst - TO + z * slice + y * pitch + x;
                assert_true(at < HOOK_BYTES && !has.written[at]);
                has.written[at] =
                    src ? (unsigned)(src - FROM + z * src_slice + y * src_pitch + x + 1) : value;
            }
    return CUDA_SUCCESS;
}

static CUresult line(const char *form, CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    tell("%s %llx<%llx+%zu", form, (unsigned long long)dst, (unsigned long long)src, n);
    return touch(dst, 0, 0, src, 0, 0, 0, (size_t[]){n, 1, 1});
}

static CUresult box3(const CUDA_MEMCPY3D *p)
{
    CUdeviceptr dst =
        p->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->dstHost : p->dstDevice;
    CUdeviceptr src =
        p->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->srcHost : p->srcDevice;
    /* A driver may refuse a slice of fewer rows than are copied. */
    if ((p->dstHeight && p->dstHeight < p->dstY + p->Height) ||
        (p->srcHeight && p->srcHeight < p->srcY + p->Height))
        return CUDA_ERROR_INVALID_VALUE;
    size_t slice = p->dstPitch * p->dstHeight, src_slice = p->srcPitch * p->srcHeight;
    return touch(dst + p->dstXInBytes + p->dstY * p->dstPitch + p->dstZ * slice, p->dstPitch, slice,
                 src + p->srcXInBytes + p->srcY * p->srcPitch + p->srcZ * src_slice, p->srcPitch,
                 src_slice, 0, (size_t[]){p->WidthInBytes, p->Height, p->Depth});
}

static CUresult box3_async(const CUDA_MEMCPY3D *p, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    return box3(p);
}

static CUresult box2(const CUDA_MEMCPY2D *p)
{
    return touch((CUdeviceptr)p->dstHost + p->dstXInBytes + p->dstY * p->dstPitch, p->dstPitch, 0,
                 p->srcDevice + p->srcXInBytes + p->srcY * p->srcPitch, p->srcPitch, 0, 0,
                 (size_t[]){p->WidthInBytes, p->Height, 1});
}

/* Both forms have one layout. */
static CUresult peer3(const CUDA_MEMCPY3D_PEER *p)
{
    assert_true(p->dstContext == CONTEXT && p->srcContext == HOOK_HOME);
    return box3((const CUDA_MEMCPY3D *)p);
}

#define SET_OF(bits, type)                                                                         \
    static CUresult set##bits(CUdeviceptr dst, type value, size_t n)                               \
    {                                                                                              \
        return touch(dst, 0, 0, 0, 0, 0, value, (size_t[]){n * sizeof(type), 1, 1});               \
    }                                                                                              \
    static CUresult rows##bits(CUdeviceptr dst, size_t pitch, type value, size_t n, size_t rows)   \
    {                                                                                              \
        return touch(dst, pitch, 0, 0, 0, 0, value, (size_t[]){n * sizeof(type), rows, 1});        \
    }
SET_OF(8, unsigned char)
SET_OF(16, unsigned short)
SET_OF(32, unsigned)

static CUresult set8_async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    assert_ptr_equal(stream, STREAM);
    return set8(dst, value, n);
}

#define LINE(name, d, s)                                                                           \
    static CUresult name(d dst, s src, size_t n)                                                   \
    {                                                                                              \
        return line(#name, (CUdeviceptr)dst, (CUdeviceptr)src, n);                                 \
    }                                                                                              \
    static CUresult name##_async(d dst, s src, size_t n, CUstream stream)                          \
    {                                                                                              \
        assert_ptr_equal(stream, STREAM);                                                          \
        return line(#name "Async", (CUdeviceptr)dst, (CUdeviceptr)src, n);                         \
    }
LINE(HtoD, CUdeviceptr, const void *)
LINE(DtoH, void *, CUdeviceptr)
LINE(DtoD, CUdeviceptr, CUdeviceptr)
LINE(any, CUdeviceptr, CUdeviceptr)

static CUresult HtoD_ptds(CUdeviceptr dst, const void *src, size_t n)
{
    return line("HtoD_ptds", dst, (CUdeviceptr)src, n);
}

static CUresult peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n)
{
    assert_ptr_equal(to, CONTEXT);
    return line(from ? "peer" : "peer of none", dst, src, n);
}

/* An array is the other side: its bytes lie where the program's array has them. */
static CUresult HtoA(CUarray array, size_t at, const void *src, size_t n)
{
    (void)array;
    return line("HtoA", TO + at, (CUdeviceptr)src, n);
}
static CUresult AtoH(void *dst, CUarray array, size_t at, size_t n)
{
    (void)array;
    return line("AtoH", (CUdeviceptr)dst, FROM + at, n);
}
static CUresult DtoA(CUarray array, size_t at, CUdeviceptr src, size_t n)
{
    (void)array;
    return line("DtoA", TO + at, src, n);
}
static CUresult AtoD(CUdeviceptr dst, CUarray array, size_t at, size_t n)
{
    (void)array;
    return line("AtoD", dst, FROM + at, n);
}

/* Bytes from its first to its last one. */
static size_t spanned(const struct zc_copy *part)
{
    const size_t *n = part->extent;
    return (n[2] - 1) * part->dst.slice + (n[1] - 1) * part->dst.pitch + n[0];
}

static bool begin(struct zc_copy *part)
{
    has.begun++;
    assert_true(part->facts == 0 && part->way == ZC_WAY_FORWARD && !part->held && !part->planned);
    assert_true(!part->dst.block && !part->dst.extent && !part->dst.staged && part->start > 1);
    if (part->dst.side == ZC_SIDE_ARRAY)
        assert_int_equal(part->dst.address, 0);
    else
        assert_int_equal(part->dst.span, spanned(part));
    assert_true(part->continues == (has.begun > 1));
    has.bytes += part->bytes;
    if (part->shape == ZC_SHAPE_STRIDED)
        assert_int_equal(part->bytes, part->extent[0] * part->extent[1] * part->extent[2]);
    if (has.begun != has.completes)
        return false;
    part->way = has.way;
    part->result = CUDA_SUCCESS;
    return true;
}

static CUresult end(struct zc_copy *part)
{
    has.ended++;
    has.waited = part->way == ZC_WAY_FORWARD_WAIT;
    return part->result;
}

static const struct zc_parts_calls calls = {begin, end};

static CUresult create(CUgraph *graph, unsigned flags)
{
    assert_int_equal(flags, 0);
    tell("graph");
    *graph = GRAPH;
    return has.node_fails ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult destroy(CUgraph graph)
{
    assert_ptr_equal(graph, GRAPH);
    tell("destroyed");
    return CUDA_SUCCESS;
}

static CUresult add_copy(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                         const CUDA_MEMCPY3D *p, CUcontext context)
{
    assert_true(node && graph == GRAPH && !nodes && !count && context == CONTEXT);
    return box3(p);
}

static CUresult add_set(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                        const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    assert_true(node && graph == GRAPH && !nodes && !count && context == CONTEXT);
    return touch(p->dst, p->pitch, 0, 0, 0, 0, p->value,
                 (size_t[]){p->width * p->elementSize, p->height, 1});
}

static CUresult add_child(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                          CUgraph child)
{
    assert_true(node && graph == PROGRAMS && child == GRAPH);
    tell("child behind %zu%s", count, nodes ? "" : " of none");
    return has.child_fails ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult add_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes,
                       const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    assert_true(edges && params->type == CU_GRAPH_NODE_TYPE_GRAPH);
    tell("edges");
    return add_child(node, graph, nodes, count, params->graph.graph);
}

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    hook_hosted(0);
    hook_hosted(1);
    zc_real.cuMemcpy3D_v2 = box3;
    zc_real.cuMemcpy3DAsync_v2 = box3_async;
    zc_real.cuMemcpy3DPeer = peer3;
    zc_real.cuMemcpy2DUnaligned_v2 = box2;
    zc_real.cuMemsetD8_v2 = set8;
    zc_real.cuMemsetD16_v2 = set16;
    zc_real.cuMemsetD32_v2 = set32;
    zc_real.cuMemsetD2D8_v2 = rows8;
    zc_real.cuMemsetD2D16_v2 = rows16;
    zc_real.cuMemsetD2D32_v2 = rows32;
    zc_real.cuMemsetD8Async = set8_async;
    zc_real.cuMemcpyHtoD_v2 = HtoD;
    zc_real.cuMemcpyHtoD_v2_ptds = HtoD_ptds;
    zc_real.cuMemcpyHtoDAsync_v2 = HtoD_async;
    zc_real.cuMemcpyDtoH_v2 = DtoH;
    zc_real.cuMemcpyDtoHAsync_v2 = DtoH_async;
    zc_real.cuMemcpyDtoD_v2 = DtoD;
    zc_real.cuMemcpyDtoDAsync_v2 = DtoD_async;
    zc_real.cuMemcpy = any;
    zc_real.cuMemcpyAsync = any_async;
    zc_real.cuMemcpyPeer = peer;
    zc_real.cuMemcpyHtoA_v2 = HtoA;
    zc_real.cuMemcpyAtoH_v2 = AtoH;
    zc_real.cuMemcpyDtoA_v2 = DtoA;
    zc_real.cuMemcpyAtoD_v2 = AtoD;
    zc_real.cuGraphCreate = create;
    zc_real.cuGraphDestroy = destroy;
    zc_real.cuGraphAddMemcpyNode = add_copy;
    zc_real.cuGraphAddMemsetNode = add_set;
    zc_real.cuGraphAddChildGraphNode = add_child;
    zc_real.cuGraphAddNode_v2 = add_v2;
    return 0;
}

static unsigned seed = 1;
static size_t up_to(unsigned most)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % (most + 1);
}

/* Which sides have borders. */
static void with_borders(struct zc_copy *c, unsigned which)
{
    hook_block[0].flags = which & 1 ? ZC_BLOCK_CONVERTED : 0;
    hook_block[1].flags = which & 2 ? ZC_BLOCK_CONVERTED : 0;
    c->dst.block = which & 1 ? &hook_block[0] : NULL;
    c->src.block = which & 2 ? &hook_block[1] : NULL;
}

static struct zc_copy a_copy(void)
{
    struct zc_copy c;
    zc_copy_init(&c, ZC_FN_cuMemcpy, ZC_LEGACY);
    c.facts = ZC_FACT_CAPTURE;
    c.way = ZC_WAY_SPLIT;
    c.planned = c.held = c.dst.staged = true;
    c.dst.extent = (struct zc_extent *)&has;
    c.start = 1;
    return c;
}

/* Each byte of the box, from where the program said, and nothing else. */
static void assert_box(const CUDA_MEMCPY3D *p)
{
    size_t left = 0, rows = p->dstHeight ? p->dstHeight : p->Height;
    size_t src_rows = p->srcHeight ? p->srcHeight : p->Height;
    for (size_t z = 0; z < p->Depth; z++)
        for (size_t y = 0; y < p->Height; y++)
            for (size_t x = 0; x < p->WidthInBytes; x++) {
                size_t at = p->dstXInBytes + x + (y + p->dstY + (z + p->dstZ) * rows) * p->dstPitch;
                size_t of =
                    p->srcXInBytes + x + (y + p->srcY + (z + p->srcZ) * src_rows) * p->srcPitch;
                assert_int_equal(has.written[at], of + 1);
                has.written[at] = 0;
            }
    for (size_t i = 0; i < HOOK_BYTES; i++)
        left += has.written[i] != 0;
    assert_int_equal(left, 0);
    has.calls = has.begun = 0;
}

static CUDA_MEMCPY3D random_box(bool flat)
{
    CUDA_MEMCPY3D p = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = TO,
                       .dstXInBytes = up_to(9),
                       .dstY = up_to(2),
                       .srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = (void *)FROM,
                       .srcXInBytes = up_to(9),
                       .srcY = up_to(2),
                       .WidthInBytes = 1 + up_to(99),
                       .Height = 1 + up_to(4),
                       .Depth = 1};
    p.dstPitch = p.dstXInBytes + p.WidthInBytes + up_to(40);
    p.srcPitch = p.srcXInBytes + p.WidthInBytes + up_to(40);
    if (p.Height == 1 && !p.dstY && up_to(1))
        p.dstPitch = 0; /* One row needs none. */
    else if (!flat && up_to(2)) {
        p.Depth = 1 + up_to(3);
        p.dstHeight = p.dstY + p.Height + up_to(2);
        p.srcHeight = p.srcY + p.Height + up_to(2);
        p.dstZ = up_to(2);
        p.srcZ = up_to(2);
    }
    return p;
}

static void each_byte_of_a_box_is_copied_once_by_calls_that_cross_no_border(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUDA_MEMCPY3D p = random_box(false);
        struct zc_copy c = a_copy();
        zc_describe_3d(&c, &p);
        with_borders(&c, i % 4);
        if (i % 2)
            zc_copy_on_stream(&c, STREAM);
        has.bytes = 0;
        zc_parts_copy(&c, &calls);
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_int_equal(has.bytes, p.WidthInBytes * p.Height * p.Depth);
        assert_box(&p);
    }
}

static void each_byte_of_rows_is_copied_once_in_their_own_form(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUDA_MEMCPY3D p = random_box(true);
        CUDA_MEMCPY2D flat = {.dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = (void *)TO,
                              .dstXInBytes = p.dstXInBytes,
                              .dstY = p.dstY,
                              .dstPitch = p.dstPitch,
                              .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = FROM,
                              .srcXInBytes = p.srcXInBytes,
                              .srcY = p.srcY,
                              .srcPitch = p.srcPitch,
                              .WidthInBytes = p.WidthInBytes,
                              .Height = p.Height};
        struct zc_copy c = a_copy();
        zc_describe_2d(&c, &flat);
        with_borders(&c, i % 4);
        zc_parts_copy(&c, &calls);
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_box(&p);
    }
}

static void boxes_between_contexts_stay_such(void **state)
{
    (void)state;
    CUDA_MEMCPY3D_PEER p = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = TO,
                            .dstContext = CONTEXT,
                            .dstPitch = 100,
                            .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = FROM,
                            .srcContext = HOOK_HOME,
                            .srcPitch = 90,
                            .WidthInBytes = 80,
                            .Height = 2,
                            .Depth = 1};
    struct zc_copy c = a_copy();
    zc_describe_3d_peer(&c, &p);
    with_borders(&c, 1);
    zc_parts_copy(&c, &calls);
    assert_int_equal(c.result, CUDA_SUCCESS);
    assert_int_equal(has.calls, 4); /* Two rows that hold a border each. */
}

static void assert_set(size_t pitch, size_t width, size_t rows, unsigned value)
{
    for (size_t i = 0; i < HOOK_BYTES; i++)
        assert_int_equal(has.written[i], i % pitch < width && i / pitch < rows ? value : 0);
    memset(&has, 0, sizeof(has));
}

static void each_byte_of_a_set_is_set_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned unit = 1u << i % 3, value = unit == 1 ? 0xab : unit == 2 ? 0xabcd : 0xabcdef01;
        size_t width = 1 + up_to(40), rows = up_to(4), pitch = (width + up_to(30)) * unit;
        struct zc_copy c = a_copy();
        if (rows)
            zc_describe_set_2d(&c, TO, pitch, value, (uint8_t)unit, width, rows);
        else
            zc_describe_set(&c, TO, value, (uint8_t)unit, width);
        with_borders(&c, 1);
        zc_parts_copy(&c, &calls);
        assert_int_equal(c.result, CUDA_SUCCESS);
        assert_int_equal(has.bytes, width * unit * (rows ? rows : 1));
        assert_set(pitch, width * unit, rows ? rows : 1, value);
    }
    struct zc_copy c = a_copy();
    zc_describe_set(&c, TO, 7, 1, 100);
    zc_copy_on_stream(&c, STREAM);
    with_borders(&c, 1);
    zc_parts_copy(&c, &calls);
    assert_int_equal(c.result, CUDA_SUCCESS);
    assert_set(100, 100, 1, 7);
}

/* A line of 100 bytes between these sides. */
static CUresult lines(struct zc_copy *c, enum zc_side to, enum zc_side from, unsigned borders)
{
    memset(has.written, 0, sizeof(has.written));
    zc_describe_line(c, to, to == ZC_SIDE_ARRAY ? 0 : TO, from, from == ZC_SIDE_ARRAY ? 0 : FROM,
                     100);
    with_borders(c, borders);
    has.begun = 0;
    zc_parts_copy(c, &calls);
    return c->result;
}

static void a_line_is_copied_by_the_call_that_the_program_made(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_told("HtoD 10000000<20000000+64; HtoD 10000040<20000040+36");
    c = a_copy();
    lines(&c, ZC_SIDE_HOST, ZC_SIDE_DEVICE, 2);
    assert_told("DtoH 10000000<20000000+64; DtoH 10000040<20000040+36");
    c = a_copy();
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_DEVICE, 2);
    assert_told("DtoD 10000000<20000000+64; DtoD 10000040<20000040+36");
    c = a_copy();
    lines(&c, ZC_SIDE_ANY, ZC_SIDE_ANY, 2);
    assert_told("any 10000000<20000000+64; any 10000040<20000040+36");
    c = a_copy();
    c.flavour = ZC_PER_THREAD;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_told("HtoD_ptds 10000000<20000000+64; HtoD_ptds 10000040<20000040+36");
    zc_real.cuMemcpyHtoD_v2_ptds = NULL; /* An older driver. */
    c = a_copy();
    c.flavour = ZC_PER_THREAD;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_told("HtoD 10000000<20000000+64; HtoD 10000040<20000040+36");
}

static void a_line_of_a_stream_stays_in_its_order(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    zc_copy_on_stream(&c, STREAM);
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_told("HtoDAsync 10000000<20000000+64; HtoDAsync 10000040<20000040+36");
    c = a_copy();
    zc_copy_on_stream(&c, STREAM);
    lines(&c, ZC_SIDE_HOST, ZC_SIDE_DEVICE, 1);
    assert_told("DtoHAsync 10000000<20000000+64; DtoHAsync 10000040<20000040+36");
    c = a_copy();
    zc_copy_on_stream(&c, STREAM);
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_DEVICE, 2);
    assert_told("DtoDAsync 10000000<20000000+64; DtoDAsync 10000040<20000040+36");
    c = a_copy();
    zc_copy_on_stream(&c, STREAM);
    lines(&c, ZC_SIDE_ANY, ZC_SIDE_ANY, 1);
    assert_told("anyAsync 10000000<20000000+64; anyAsync 10000040<20000040+36");
}

static void lines_of_arrays_and_of_two_contexts_keep_what_they_name(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    c.array_at = 8;
    lines(&c, ZC_SIDE_ARRAY, ZC_SIDE_HOST, 2);
    assert_told("HtoA 10000008<20000000+64; HtoA 10000048<20000040+36");
    c = a_copy();
    c.array_at = 8;
    lines(&c, ZC_SIDE_HOST, ZC_SIDE_ARRAY, 1);
    assert_told("AtoH 10000000<20000008+64; AtoH 10000040<20000048+36");
    c = a_copy();
    lines(&c, ZC_SIDE_ARRAY, ZC_SIDE_DEVICE, 2);
    assert_told("DtoA 10000000<20000000+64; DtoA 10000040<20000040+36");
    c = a_copy();
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_ARRAY, 1);
    assert_told("AtoD 10000000<20000000+64; AtoD 10000040<20000040+36");
    c = a_copy();
    c.dst.context = CONTEXT;
    c.src.context = HOOK_HOME;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_DEVICE, 1);
    assert_told("peer 10000000<20000000+64; peer 10000040<20000040+36");
    c = a_copy();
    c.dst.context = CONTEXT;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_DEVICE, 1);
    assert_told("peer of none 10000000<20000000+64; peer of none 10000040<20000040+36");
}

static void a_part_that_fails_is_the_last_and_has_been_explained(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    has.fails = 1;
    assert_int_equal(lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1), CUDA_ERROR_UNKNOWN);
    assert_true(c.answered);
    assert_true(has.calls == 1 && has.ended == 1);
    c = a_copy();
    has.calls = 0;
    c.array_at = 8;
    assert_int_equal(lines(&c, ZC_SIDE_ARRAY, ZC_SIDE_HOST, 2), CUDA_ERROR_UNKNOWN);
    assert_false(c.answered); /* It may be the border's fault. */
    c = a_copy();
    has.calls = 0;
    assert_int_equal(lines(&c, ZC_SIDE_HOST, ZC_SIDE_ARRAY, 1), CUDA_ERROR_UNKNOWN);
    assert_false(c.answered);
    c = a_copy();
    has.fails = 0;
    assert_int_equal(lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1), CUDA_SUCCESS);
    assert_true(c.continues && !c.answered);
}

static void a_part_that_libzc_makes_is_not_given_to_the_driver(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    has.completes = 1;
    has.way = ZC_WAY_CPU;
    c.order = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    assert_int_equal(lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1), CUDA_SUCCESS);
    assert_told("HtoD 10000040<20000040+36");
    assert_true(has.waited); /* The driver reads its part in the order of the stream. */
    has.completes = 2;
    c = a_copy();
    c.order = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_false(has.waited);
    has.completes = 0;
    c = a_copy();
    c.order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    lines(&c, ZC_SIDE_DEVICE, ZC_SIDE_HOST, 1);
    assert_false(has.waited);
}

static void what_the_driver_would_refuse_is_not_divided(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    CUDA_MEMCPY3D p = random_box(false);
    zc_describe_3d(&c, &p);
    c.given = NULL;
    zc_parts_copy(&c, &calls);
    assert_int_equal(c.result, CUDA_ERROR_INVALID_VALUE);
    c = a_copy();
    zc_describe_set(&c, TO + 1, 1, 4, 40); /* Not aligned. */
    zc_parts_copy(&c, &calls);
    assert_int_equal(c.result, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(has.calls, 0);
    assert_int_equal(has.begun, 0);
}

static CUgraphNode added, behind[2];
static const CUgraphEdgeData edges[2];
static struct zc_behind at = {&added, PROGRAMS, behind, NULL, 2, CONTEXT};

static void a_node_over_a_border_is_a_graph_of_its_parts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUDA_MEMCPY3D p = random_box(false);
        struct zc_copy c = a_copy();
        zc_describe_3d(&c, &p);
        with_borders(&c, i % 4);
        c.behind = &at;
        at.edges = i % 2 ? edges : NULL;
        assert_int_equal(zc_parts_node(&c), CUDA_SUCCESS);
        assert_told(i % 2 ? "graph; edges; child behind 2; destroyed"
                          : "graph; child behind 2; destroyed");
        assert_box(&p);
    }
    struct zc_copy c = a_copy();
    zc_describe_set_2d(&c, TO, 120, 0x1234, 2, 50, 3);
    with_borders(&c, 1);
    c.behind = &at;
    assert_int_equal(zc_parts_node(&c), CUDA_SUCCESS);
    assert_set(120, 100, 3, 0x1234);
}

static void a_node_whose_graph_can_t_be_made_leaves_nothing_behind(void **state)
{
    (void)state;
    struct zc_copy c = a_copy();
    zc_describe_set(&c, TO, 1, 4, 40);
    with_borders(&c, 1);
    c.behind = &at;
    at.edges = edges;
    has.fails = 2;
    assert_int_equal(zc_parts_node(&c), CUDA_ERROR_UNKNOWN);
    at.edges = NULL;
    has.calls = 0;
    memset(has.written, 0, sizeof(has.written));
    assert_int_equal(zc_parts_node(&c), CUDA_ERROR_UNKNOWN);
    assert_told("graph; destroyed; graph; destroyed");
    has.fails = 0;
    memset(has.written, 0, sizeof(has.written));
    has.child_fails = true;
    assert_int_equal(zc_parts_node(&c), CUDA_ERROR_NOT_SUPPORTED);
    assert_told("graph; child behind 2; destroyed");
    has.node_fails = true;
    assert_int_equal(zc_parts_node(&c), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("graph");
    c.dst.address++; /* The driver refuses such a set. */
    assert_int_equal(zc_parts_node(&c), CUDA_ERROR_INVALID_VALUE);
    assert_told("");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_byte_of_a_box_is_copied_once_by_calls_that_cross_no_border),
        TEST(each_byte_of_rows_is_copied_once_in_their_own_form),
        TEST(boxes_between_contexts_stay_such),
        TEST(each_byte_of_a_set_is_set_once),
        TEST(a_line_is_copied_by_the_call_that_the_program_made),
        TEST(a_line_of_a_stream_stays_in_its_order),
        TEST(lines_of_arrays_and_of_two_contexts_keep_what_they_name),
        TEST(a_part_that_fails_is_the_last_and_has_been_explained),
        TEST(a_part_that_libzc_makes_is_not_given_to_the_driver),
        TEST(what_the_driver_would_refuse_is_not_divided),
        TEST(a_node_over_a_border_is_a_graph_of_its_parts),
        TEST(a_node_whose_graph_can_t_be_made_leaves_nothing_behind),
    };
    return RUN_TESTS(tests);
}
