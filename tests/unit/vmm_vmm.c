/* SPDX-License-Identifier: MIT */
/* The memory behind vmm blocks: chunks that are created, mapped and given back, whichever call
 * fails. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/arena.h"
#include "base/message.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "real_test.h"

#define zc_va_lock fake_lock /* Also where a header calls them. */
#define zc_va_unlock fake_unlock
#include "vmm/vmm.h"

#define GRANULE ((size_t)2 << 20)
enum { MOST = 64 };

/* A driver whose handles are numbers from 1 on, and the neighbours; each call may fail. */
static struct {
    CUmemAllocationProp prop[MOST];
    size_t size[MOST];
    bool live[MOST];
    unsigned handles, fails, refused, puts; /* `fails`: so many calls from now; 0: none. */
    size_t granularity;
    uint64_t attributes; /* A bit for each question: 1 VMM, 2 file descriptors, 4 RDMA. */
    int node;
    unsigned gives_way, reclaimed; /* Times that zc_reclaim() finds something. */
    CUresult unmap, freed;
    int64_t kept, given;
    unsigned dropped, told, locked;
    size_t from, to;
    unsigned mapped; /* Chunks at the last map. */
} has;

static bool fails(void)
{
    return has.fails && --has.fails == 0;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    assert_true(flags == 0 && size % GRANULE == 0 && size > 0);
    if (fails()) {
        has.refused++;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = ++has.handles;
    assert_true(*handle < MOST);
    has.prop[*handle] = *prop;
    has.size[*handle] = size;
    has.live[*handle] = true;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    assert_true(handle < MOST && has.live[handle]);
    has.live[handle] = false;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult get_granularity(size_t *out, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags option)
{
    assert_true(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(option, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    *out = has.granularity;
    return fails() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult get_total(size_t *total, CUdevice device)
{
    *total = 100 + (size_t)device;
    return CUDA_SUCCESS;
}

static bool fake_has(int device, CUdevice_attribute attribute)
{
    assert_true(device >= 0 && device < ZC_DEVICES);
    return attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? has.attributes & 1
           : attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
               ? has.attributes & 2
               : has.attributes & 4;
}

static int fake_node(int device)
{
    assert_int_equal(device, 3);
    return has.node;
}

static bool fake_reclaim(struct zc_reclaim *request)
{
    (void)request;
    has.reclaimed++;
    return has.gives_way && has.gives_way--;
}

static bool fake_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    return !fails() && zc_arena_extend(array, room, count, bytes, first);
}

static void fake_put(void *memory, size_t bytes)
{
    has.puts += memory != NULL;
    zc_arena_put(memory, bytes);
}

static CUresult fake_map(struct zc_va *va, const struct zc_chunks *chunks, size_t from, size_t to,
                         const char **why)
{
    (void)va;
    has.from = from;
    has.to = to;
    has.mapped = chunks->count;
    if (!fails())
        return CUDA_SUCCESS;
    *why = "cuMemMap refuses";
    return CUDA_ERROR_UNKNOWN;
}

static CUresult fake_unmap(struct zc_va *va)
{
    (void)va;
    return has.unmap;
}

static CUresult fake_free(struct zc_va *va)
{
    (void)va;
    return has.freed;
}

static CUresult fake_drop(struct zc_va *va)
{
    has.dropped += va != NULL;
    return CUDA_SUCCESS;
}

bool fake_lock(void)
{
    has.locked++;
    return true;
}

void fake_unlock(void)
{
    has.locked--;
}

static void fake_keep(int device, int64_t bytes)
{
    assert_int_equal(device, 3);
    has.kept += bytes;
}

static void fake_give(enum zc_place_id place, int device, size_t bytes)
{
    assert_true(place == ZC_PLACE_MAPPED && device == ZC_LIMITS_KEPT);
    has.given += (int64_t)bytes;
}

static bool fake_first(const char *code)
{
    assert_string_equal(code, "release");
    has.told++;
    return false;
}

#define zc_device_has fake_has
#define zc_node_of_device fake_node
#define zc_reclaim(request) fake_reclaim(request)
#define zc_arena_extend fake_extend
#define zc_arena_put fake_put
#define zc_va_map fake_map
#define zc_va_unmap fake_unmap
#define zc_va_free fake_free
#define zc_va_drop fake_drop
#define zc_limits_keep fake_keep
#define zc_limits_give fake_give
#define zc_message_first fake_first
#include "../../shim/vmm/vmm.c"

static struct zc_rule rule;
static const char *why;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(facts, 0, sizeof(facts));
    memset(&own, 0, sizeof(own));
    memset(&zc_vmm_counts, 0, sizeof(zc_vmm_counts));
    memset(&rule, 0, sizeof(rule));
    has.granularity = GRANULE;
    has.attributes = 7;
    has.node = -1;
    real_without_driver();
    zc_real.cuMemCreate = create;
    zc_real.cuMemRelease = release;
    zc_real.cuMemGetAllocationGranularity = get_granularity;
    zc_real.cuDeviceTotalMem_v2 = get_total;
    assert_non_null(zc_vmm_facts(3));
    return 0;
}

static struct zc_vmm *block(size_t granules)
{
    struct zc_vmm *v = zc_arena_get(zc_vmm_record(&rule));
    memset(v, 0, zc_vmm_record(&rule));
    v->va.device = 3;
    v->span = granules * GRANULE;
    v->granularity = GRANULE;
    v->rule = &rule;
    return v;
}

static unsigned live(void)
{
    unsigned n = 0;
    for (unsigned i = 1; i <= has.handles; i++)
        n += has.live[i];
    return n;
}

static void facts_are_asked_once_of_devices_that_map_memory(void **state)
{
    (void)state;
    const struct zc_vmm_facts *f = zc_vmm_facts(3);
    assert_true(f->known && f->granularity == GRANULE && f->total == 103);
    assert_true(f->prop.type == CU_MEM_ALLOCATION_TYPE_PINNED && f->prop.location.id == 3);
    assert_int_equal(f->prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    assert_int_equal(f->prop.allocFlags.gpuDirectRDMACapable, 1);
    has.attributes = 0;
    assert_ptr_equal(zc_vmm_facts(3), f);
    assert_null(zc_vmm_facts(4));
    has.attributes = 1;
    f = zc_vmm_facts(ZC_DEVICES - 1);
    assert_true(f->prop.location.id == ZC_DEVICES - 1 && !f->prop.requestedHandleTypes);
    assert_int_equal(f->prop.allocFlags.gpuDirectRDMACapable, 0);
    const size_t wrong[] = {0, (size_t)UINT32_MAX + 1};
    for (unsigned i = 0; i < 2; i++) {
        has.granularity = wrong[i];
        assert_null(zc_vmm_facts(6));
    }
    has.granularity = UINT32_MAX;
    has.fails = 1;
    assert_null(zc_vmm_facts(6));
    assert_non_null(zc_vmm_facts(6));
}

static void devices_beyond_the_last_have_no_memory_of_this_kind(void **state)
{
    (void)state;
    assert_null(zc_vmm_facts(ZC_DEVICES));
    assert_null(zc_vmm_facts(ZC_DEVICES + 1));
    assert_non_null(zc_vmm_facts(0));
}

static void a_handle_has_the_properties_of_its_memory(void **state)
{
    (void)state;
    struct zc_vmm *v = block(1);
    CUmemGenericAllocationHandle h;
    assert_int_equal(zc_vmm_handle(v, false, false, GRANULE, &h), CUDA_SUCCESS);
    assert_int_equal(has.prop[h].location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(has.prop[h].allocFlags.gpuDirectRDMACapable, 1);
    v->rdma = ZC_RDMA_NO;
    assert_int_equal(zc_vmm_handle(v, false, false, GRANULE, &h), CUDA_SUCCESS);
    assert_int_equal(has.prop[h].allocFlags.gpuDirectRDMACapable, 0);
    v->rdma = (enum zc_rdma)0;
    for (has.node = -1; has.node < 2; has.node++) {
        assert_int_equal(zc_vmm_handle(v, true, false, GRANULE, &h), CUDA_SUCCESS);
        assert_int_equal(has.prop[h].location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
        assert_int_equal(has.prop[h].location.id, has.node < 0 ? 0 : has.node);
        assert_int_equal(has.prop[h].allocFlags.gpuDirectRDMACapable, 0);
    }
    has.gives_way = 1;
    has.fails = 1;
    assert_int_equal(zc_vmm_handle(v, false, true, GRANULE, &h), CUDA_SUCCESS);
    assert_int_equal(has.reclaimed, 1);
    has.fails = 1;
    assert_int_equal(zc_vmm_handle(v, false, false, GRANULE, &h), CUDA_ERROR_OUT_OF_MEMORY);
    has.fails = 1;
    assert_int_equal(zc_vmm_handle(v, false, true, GRANULE, &h), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(has.reclaimed, 2);
    zc_vmm_drop(v);
}

/* All sizes of chunks, blocks with guards and without, and what comes ahead; and whichever call
 * fails, the block has what it had before. */
static void memory_comes_in_chunks_and_a_failure_leaves_what_was_there(void **state)
{
    static const struct {
        size_t granules, chunk, ahead;
        bool guard, host;
        unsigned chunks; /* With the guards. */
        size_t placed;   /* With `host`: granules in front that are device memory. */
    } rows[] = {{5, 0, 0, 0, 0, 1, 0}, {5, 2, 0, 0, 0, 3, 0}, {4, 2, 0, 0, 0, 2, 0},
                {5, 2, 2, 0, 0, 4, 0}, {5, 9, 0, 0, 0, 1, 0}, {5, 1, 0, 0, 1, 1, 0},
                {5, 0, 0, 1, 0, 3, 0}, {7, 2, 0, 1, 0, 5, 0}, {7, 2, 0, 0, 1, 3, 3},
                {7, 0, 0, 0, 1, 7, 6}, {9, 2, 0, 1, 1, 5, 3}, {20, 0, 0, 1, 1, 12, 17}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned fail = 1;; fail++) {
            anew(NULL);
            rule.chunk = rows[i].chunk * GRANULE - (rows[i].chunk ? 5 : 0);
            struct zc_vmm *v = block(rows[i].granules);
            assert_int_equal(rows[i].guard && zc_vmm_take_guard(v), rows[i].guard);
            size_t border = (rows[i].placed + rows[i].guard) * GRANULE;
            if (rows[i].host)
                v->va.host = (struct zc_va_host){
                    (uint32_t)(border / ZC_VA_UNIT),
                    (uint32_t)((v->span - zc_vmm_guard(v)) / ZC_VA_UNIT), false};
            unsigned before = live();
            has.fails = fail;
            CUresult result = zc_vmm_create(v, rows[i].ahead * GRANULE);
            if (has.fails) { /* So many calls there are not. */
                has.fails = 0;
                assert_int_equal(result, CUDA_SUCCESS);
                assert_int_equal(v->chunks.count, rows[i].chunks);
                assert_int_equal(v->held, v->span + rows[i].ahead * GRANULE);
                assert_int_equal(live(), rows[i].chunks - rows[i].guard);
                size_t at = 0;
                for (unsigned c = 0; c < v->chunks.count; at += v->chunks.list[c++].size) {
                    CUmemGenericAllocationHandle handle = v->chunks.list[c].handle;
                    bool guard = rows[i].guard && (c == 0 || c == v->chunks.count - 1);
                    bool host = guard || (rows[i].host && at >= border);
                    assert_int_equal(v->chunks.list[c].size, has.size[handle]);
                    assert_int_equal(has.prop[handle].location.type,
                                     host ? CU_MEM_LOCATION_TYPE_HOST_NUMA
                                          : CU_MEM_LOCATION_TYPE_DEVICE);
                }
                if (rows[i].guard)
                    assert_int_equal(v->chunks.list[0].handle,
                                     v->chunks.list[v->chunks.count - 1].handle);
                assert_int_equal(zc_vmm_give_back(v), CUDA_SUCCESS);
                assert_int_equal(live(), 0);
                assert_int_equal(has.locked, 0);
                break;
            }
            assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
            assert_int_equal(live(), before);
            assert_true(v->chunks.count == 0 && v->held == 0);
            if (!rows[i].placed)
                assert_int_equal(has.reclaimed,
                                 has.refused == 1 && !rows[i].host && !rows[i].ahead);
            zc_vmm_give_back(v);
            assert_int_equal(live(), 0);
        }
    }
}

static void what_is_attached_is_mapped_and_a_refusal_leaves_what_was_there(void **state)
{
    (void)state;
    struct zc_vmm *v = block(4);
    has.fails = 1;
    assert_int_equal(zc_vmm_attach(v, 0, v->span, 0, &why), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "cuMemCreate refuses");
    assert_true(has.mapped == 0 && has.from == 0 && has.to == v->span);
    has.to = 0;
    has.fails = 3; /* Creates, makes a record, maps. */
    assert_int_equal(zc_vmm_attach(v, 0, v->span, 0, &why), CUDA_ERROR_UNKNOWN);
    assert_string_equal(why, "cuMemMap refuses");
    assert_true(has.mapped == 1 && v->held == 0 && live() == 0);
    assert_int_equal(zc_vmm_attach(v, GRANULE, 2 * GRANULE, 3 * GRANULE, &why), CUDA_SUCCESS);
    assert_true(has.from == GRANULE && has.to == 2 * GRANULE);
    assert_int_equal(v->held, 7 * GRANULE);
    assert_int_equal(live(), 1);
    assert_int_equal(zc_vmm_attach(v, 0, 7 * GRANULE, 0, &why), CUDA_SUCCESS);
    assert_int_equal(live(), 1);
    has.fails = 1;
    assert_int_equal(zc_vmm_attach(v, 0, 7 * GRANULE, 0, &why), CUDA_ERROR_UNKNOWN);
    assert_true(live() == 1 && v->held == 7 * GRANULE); /* It had that before. */
    zc_vmm_give_back(v);
}

static void one_guard_serves_all_blocks_and_goes_with_the_last(void **state)
{
    (void)state;
    has.fails = 1;
    struct zc_vmm *a = block(3), *b = block(3);
    assert_false(zc_vmm_take_guard(a));
    assert_false(a->guard);
    assert_true(zc_vmm_take_guard(a) && zc_vmm_take_guard(b));
    assert_int_equal(live(), 1);
    assert_int_equal(has.prop[1].location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    zc_vmm_give_back(a);
    assert_int_equal(live(), 1);
    zc_vmm_give_back(b);
    assert_int_equal(live(), 0);
    a = block(3);
    assert_true(zc_vmm_take_guard(a));
    assert_int_equal(live(), 1);
    zc_vmm_give_back(a);
    assert_int_equal(live(), 0);
    assert_int_equal(has.locked, 0);
}

/* The first refusal is told, and the rest is given back all the same. */
static void a_block_is_given_back_whatever_the_driver_refuses(void **state)
{
    static const struct {
        CUresult unmap, freed, result;
        unsigned release, told;
    } rows[] = {{CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, 0, 0},
                {CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, CUDA_ERROR_UNKNOWN, 0, 1},
                {CUDA_ERROR_DEINITIALIZED, CUDA_SUCCESS, CUDA_ERROR_DEINITIALIZED, 0, 0},
                {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 0, 0},
                {CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNKNOWN, 1, 0},
                {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_UNKNOWN, 2, 0},
                {CUDA_ERROR_DEINITIALIZED, CUDA_SUCCESS, CUDA_ERROR_DEINITIALIZED, 1, 0}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        rule.chunk = GRANULE;
        struct zc_vmm *v = block(3);
        assert_int_equal(zc_vmm_create(v, 0), CUDA_SUCCESS);
        assert_int_equal(live(), 3);
        has.unmap = rows[i].unmap;
        has.freed = rows[i].freed;
        has.fails = rows[i].release;
        assert_int_equal(zc_vmm_give_back(v), rows[i].result);
        assert_int_equal(live(), 0);
        assert_int_equal(has.told, rows[i].told);
        assert_int_equal(has.puts, 2); /* The list of chunks, and the record. */
    }
}

static void what_moves_is_counted_and_its_host_memory_goes_with_it(void **state)
{
    static struct zc_va beside, home;
    (void)state;
    rule.spill = ZC_SPILL_FETCH;
    struct zc_vmm *v = block(2);
    v->moves = true;
    v->va.host.to = 1;
    zc_vmm_count_movable(v, 1);
    assert_true(zc_vmm_counts.movable == 1 && zc_vmm_counts.spilled == 1);
    assert_int_equal(zc_vmm_counts.fetched, 1);
    zc_vmm_count_host_copy(v, 700);
    zc_vmm_count_host_copy(v, 500);
    assert_int_equal(has.kept, 500);
    assert_int_equal(zc_movable(v)->host_copy_bytes, 500);
    struct zc_backed *b = &zc_movable(v)->host_copy;
    for (unsigned i = 0; i < 4; i++) {
        CUmemGenericAllocationHandle h;
        assert_int_equal(zc_vmm_handle(v, true, false, GRANULE, &h), CUDA_SUCCESS);
        assert_true(zc_arena_extend(&b->chunks.list, &b->chunks.room, b->chunks.count,
                                    sizeof(*b->chunks.list), 1));
        b->chunks.list[b->chunks.count++] = (struct zc_chunk){h, GRANULE};
    }
    b->guard = true;
    b->alias = &home;
    zc_movable(v)->alias = &beside;
    zc_vmm_drop(v);
    assert_int_equal(has.dropped, 2);
    assert_int_equal(has.given, 500);
    assert_int_equal(has.puts, 2);
    assert_true(has.live[1] && !has.live[2] && !has.live[3] && has.live[4]); /* Both guards stay. */
    assert_true(zc_vmm_counts.movable == 0 && zc_vmm_counts.spilled == 0);
    assert_int_equal(zc_vmm_counts.fetched, 0);
    rule.spill = ZC_SPILL_MOVE;
    v = block(2);
    v->moves = true;
    zc_vmm_count_movable(v, 1);
    assert_true(zc_vmm_counts.movable == 1 && zc_vmm_counts.spilled == 0);
    assert_int_equal(zc_vmm_counts.fetched, 0);
    zc_vmm_drop(v);
}

static void a_block_has_such_memory_by_its_place(void **state)
{
    (void)state;
    struct zc_vmm *v = block(1);
    struct zc_backing backing = {.vmm = v};
    struct zc_block b = {.flags = ZC_BLOCK_CONVERTED, .backing = &backing};
    for (enum zc_place_id id = 0; id < ZC_PLACE_COUNT; id++) {
        b.place = (uint8_t)id;
        assert_ptr_equal(zc_vmm_of(&b), id == ZC_PLACE_VMM || id == ZC_PLACE_SHARED ? v : NULL);
    }
    b.place = ZC_PLACE_VMM;
    b.flags = 0;
    assert_null(zc_vmm_of(&b));
    assert_null(zc_vmm_of(NULL));
    zc_vmm_drop(v);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(facts_are_asked_once_of_devices_that_map_memory),
        TEST(devices_beyond_the_last_have_no_memory_of_this_kind),
        TEST(a_handle_has_the_properties_of_its_memory),
        TEST(memory_comes_in_chunks_and_a_failure_leaves_what_was_there),
        TEST(what_is_attached_is_mapped_and_a_refusal_leaves_what_was_there),
        TEST(one_guard_serves_all_blocks_and_goes_with_the_last),
        TEST(a_block_is_given_back_whatever_the_driver_refuses),
        TEST(what_moves_is_counted_and_its_host_memory_goes_with_it),
        TEST(a_block_has_such_memory_by_its_place),
    };
    return RUN_TESTS(tests);
}
