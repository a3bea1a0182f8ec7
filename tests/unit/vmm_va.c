/* SPDX-License-Identifier: MIT */
/* Ranges of addresses: what is mapped in them is what a driver was told, chunk by chunk. */
#define __CUDA_API_VERSION_INTERNAL

#include "base_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/lock.h"

static bool no_record; /* There is no memory for one. */
static unsigned records_put;

static bool fake_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    return !no_record && zc_arena_extend(array, room, count, bytes, first);
}

static void fake_put(void *memory, size_t bytes)
{
    records_put += memory != NULL;
    zc_arena_put(memory, bytes);
}

#define zc_arena_extend fake_extend
#define zc_arena_put fake_put
#include "../../shim/vmm/va.c"

#define CHUNKS 12u
#define STEPS 20000u
#define BASE ((CUdeviceptr)0x7000000000)

/* A driver that keeps what is mapped, in ZC_VA_UNITs, and refuses what one would. */
static struct {
    unsigned char mapped[4 * CHUNKS], open[4 * CHUNKS];
    unsigned fails;      /* The call that fails, from 1. */
    const char *refuses; /* Which one it was. */
} driver;

static bool fails(const char *call)
{
    if (driver.fails == 1)
        driver.refuses = call;
    return driver.fails && --driver.fails == 0;
}

static size_t unit_of(CUdeviceptr at)
{
    assert_true(at >= BASE && (at - BASE) % ZC_VA_UNIT == 0);
    return (at - BASE) / ZC_VA_UNIT;
}

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    size_t first = unit_of(at);

    assert_true(offset == 0 && flags == 0 && handle == first + 1);
    if (fails("cuMemMap refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_false(driver.mapped[i]);
        driver.mapped[i] = 1;
    }
    return CUDA_SUCCESS;
}

static CUresult open_to(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    size_t first = unit_of(at);

    assert_true(size > 0 && count == 1 && desc[0].location.id == 3);
    if (fails("cuMemSetAccess refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_true(driver.mapped[i]);
        driver.open[i] = desc[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr at, size_t size)
{
    size_t first = unit_of(at);

    if (fails("cuMemUnmap refuses"))
        return CUDA_ERROR_UNKNOWN;
    for (size_t i = first; i < first + size / ZC_VA_UNIT; i++) {
        assert_true(driver.mapped[i]);
        driver.mapped[i] = driver.open[i] = 0;
    }
    return CUDA_SUCCESS;
}

/* Chunks of one to three units, whose handles say where they begin. */
static size_t lay_out(struct zc_chunk *list, struct zc_va *va)
{
    size_t at = 0;

    for (unsigned i = 0; i < CHUNKS; i++) {
        list[i].handle = at / ZC_VA_UNIT + 1;
        list[i].size = (1 + i % 3) * ZC_VA_UNIT;
        at += list[i].size;
    }
    *va = (struct zc_va){.base = BASE, .size = at, .devices = zc_va_bit(3)};
    zc_va_list = va;
    va->before = va;
    memset(&driver, 0, sizeof(driver));
    zc_real.cuMemMap = map;
    zc_real.cuMemSetAccess = open_to;
    zc_real.cuMemUnmap = unmap;
    return at / ZC_VA_UNIT;
}

static void expect_same(const struct zc_va *va, size_t units)
{
    for (size_t i = 0; i < units; i++) {
        assert_int_equal(zc_va_holds(va, i * ZC_VA_UNIT, (i + 1) * ZC_VA_UNIT), driver.mapped[i]);
        assert_int_equal(driver.open[i], driver.mapped[i]);
    }
    for (unsigned i = 0; i < va->count; i++) {
        assert_true(va->run[i].from < va->run[i].to);
        assert_true(i == 0 || va->run[i].from > va->run[i - 1].to);
    }
}

/* Random ranges are mapped, in any order, by calls of which some fail. */
static void what_is_held_is_what_the_driver_has_mapped(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    unsigned seed = 1, whole = 0;
    const char *why;
    size_t units = lay_out(list, &va);

    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        size_t from = (size_t)rand_r(&seed) % units, to = from + 1 + (size_t)rand_r(&seed) % 5;

        to = to < units ? to : units;
        driver.fails = rand_r(&seed) % 8 ? 0 : 1 + (unsigned)rand_r(&seed) % 4;
        CUresult result = zc_va_map(&va, &chunks, from * ZC_VA_UNIT, to * ZC_VA_UNIT, &why);
        bool held = zc_va_holds(&va, from * ZC_VA_UNIT, to * ZC_VA_UNIT);
        if (result != CUDA_SUCCESS)
            assert_string_equal(why, driver.refuses);
        assert_true(held || result != CUDA_SUCCESS);
        expect_same(&va, units);
        whole += zc_va_holds(&va, 0, va.size);
        driver.fails = rand_r(&seed) % 4 ? 0 : 1;
        if (step % 8 == 7)
            zc_va_unmap(&va);
        expect_same(&va, units);
    }
    assert_true(whole > 0);
    driver.fails = 0;
    zc_va_unmap(&va);
    assert_int_equal(va.count, 0);
}

static void no_more_is_mapped_than_asked_for(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    const char *why;
    size_t units = lay_out(list, &va), end = 0;

    (void)state;
    for (unsigned i = 0; i < CHUNKS; i++) { /* Each chunk alone, and nothing behind it. */
        size_t from = end;

        end += list[i].size;
        size_t first = i % 2 ? from : end - 1;

        zc_va_unmap(&va);
        assert_int_equal(zc_va_map(&va, &chunks, first, end, &why), CUDA_SUCCESS);
        assert_true(va.count == 1 && va.run[0].from == from && va.run[0].to == end);
        assert_int_equal(zc_va_map(&va, &chunks, 0, from, &why), CUDA_SUCCESS);
        assert_true(va.count == 1 && va.run[0].from == 0 && va.run[0].to == end);
        expect_same(&va, units);
    }
    assert_true(zc_va_holds(&va, 5, 5));
    assert_false(zc_va_holds(&va, 0, va.size + 1));
}

static void a_device_gets_rights_for_all_runs(void **state)
{
    struct zc_chunk list[CHUNKS];
    const struct zc_chunks chunks = {.list = list, .count = CHUNKS, .room = CHUNKS};
    struct zc_va va;
    const char *why;
    size_t units = lay_out(list, &va);

    (void)state;
    zc_va_map(&va, &chunks, 0, 1, &why);
    zc_va_map(&va, &chunks, va.size - 1, va.size, &why);
    assert_int_equal(va.count, 2);
    memset(driver.open, 0, sizeof(driver.open));
    assert_int_equal(zc_va_open(&va, zc_va_bit(3)), CUDA_SUCCESS);
    expect_same(&va, units);
    driver.fails = 1;
    assert_int_equal(zc_va_open(&va, zc_va_bit(3)), CUDA_ERROR_UNKNOWN);
    assert_int_equal(zc_va_open(&va, 0), CUDA_SUCCESS);
}

/* A driver that says what it was asked, in ZC_VA_UNITs. */
static char trace[512];
static CUresult answers[3]; /* Of its next calls. */
static size_t device_total;
static CUresult total_result;

static CUresult answer(const char *text)
{
    CUresult result = answers[0];
    strncat(trace, text, sizeof(trace) - strlen(trace) - 1);
    answers[0] = answers[1];
    answers[1] = answers[2];
    answers[2] = CUDA_SUCCESS;
    return result;
}

static CUresult say_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    char text[160];
    size_t first = unit_of(at);
    int n = snprintf(text, sizeof(text), "open %zu-%zu", first, first + size / ZC_VA_UNIT);
    for (size_t i = 0; i < count; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " %s%d:%d",
                      desc[i].location.type == CU_MEM_LOCATION_TYPE_HOST ? "cpu" : "",
                      desc[i].location.id, (int)desc[i].flags);
    strcat(text, "; ");
    return answer(text);
}

static CUresult say_map(CUdeviceptr at, size_t size, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    char text[80];
    assert_true(offset == 0 && flags == 0);
    snprintf(text, sizeof(text), "map %zu+%zu #%llu; ", unit_of(at), size / ZC_VA_UNIT, handle);
    return answer(text);
}

static CUresult say_unmap(CUdeviceptr at, size_t size)
{
    char text[80];
    snprintf(text, sizeof(text), "unmap %zu+%zu; ", unit_of(at), size / ZC_VA_UNIT);
    return answer(text);
}

static CUresult say_reserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr at,
                            unsigned long long flags)
{
    char text[80];
    assert_true(at == 0 && flags == 0 && alignment == 2 * ZC_VA_UNIT);
    snprintf(text, sizeof(text), "reserve %zu; ", size / ZC_VA_UNIT);
    *out = BASE;
    return answer(text);
}

static CUresult say_free(CUdeviceptr at, size_t size)
{
    char text[80];
    assert_int_equal(at, BASE);
    snprintf(text, sizeof(text), "free %zu; ", size / ZC_VA_UNIT);
    return answer(text);
}

static CUresult total_of(size_t *total, CUdevice device)
{
    assert_int_equal(device, 3);
    if (total_result == CUDA_SUCCESS)
        *total = device_total;
    return total_result;
}

static struct zc_va spoken;

/* Ten chunks of one unit each. */
static struct zc_chunk units_of[10];
static const struct zc_chunks ten = {.list = units_of, .count = 10, .room = 10};

static int speak(void **state)
{
    (void)state;
    zc_real.cuMemMap = say_map;
    zc_real.cuMemSetAccess = say_access;
    zc_real.cuMemUnmap = say_unmap;
    zc_real.cuMemAddressReserve = say_reserve;
    zc_real.cuMemAddressFree = say_free;
    zc_real.cuDeviceTotalMem_v2 = total_of;
    memset(answers, 0, sizeof(answers));
    trace[0] = 0;
    no_record = false;
    records_put = 0;
    total_result = CUDA_SUCCESS;
    spoken =
        (struct zc_va){.device = 3, .base = BASE, .size = 10 * ZC_VA_UNIT, .devices = zc_va_bit(3)};
    spoken.before = &spoken;
    zc_va_list = &spoken;
    for (unsigned i = 0; i < 10; i++)
        units_of[i] = (struct zc_chunk){.handle = 100 + i, .size = ZC_VA_UNIT};
    return 0;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    assert_false(zc_lock_held());
    trace[0] = 0;
}

static CUresult map_units(size_t from, size_t to, const char **why)
{
    return zc_va_map(&spoken, &ten, from * ZC_VA_UNIT, to * ZC_VA_UNIT, why);
}

static void expect_runs(const char *text)
{
    char now[160] = "";
    for (unsigned i = 0; i < spoken.count; i++)
        snprintf(now + strlen(now), sizeof(now) - strlen(now), "%zu-%zu ",
                 spoken.run[i].from / ZC_VA_UNIT, spoken.run[i].to / ZC_VA_UNIT);
    assert_string_equal(now, text);
}

static void a_range_that_may_grow_takes_as_many_addresses_as_the_device_has_memory(void **state)
{
    static const struct {
        bool wide;
        size_t total; /* In units; the span is 4, of 2 each. */
        CUresult has, reserves, result;
        const char *calls;
        size_t size;
        bool is_wide;
    } rows[] = {
        {true, 9, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, "reserve 10; ", 10, true},
        {true, 5, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, "reserve 6; ", 6, true},
        {true, 4, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, "reserve 4; ", 4, false},
        {false, 9, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS, "reserve 4; ", 4, false},
        {true, 9, CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, CUDA_SUCCESS, "reserve 4; ", 4, false},
        {true, 9, CUDA_SUCCESS, CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, "reserve 10; reserve 4; ", 4,
         false},
        {false, 9, CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, "reserve 4; ",
         4, false},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_va va = {.device = 3};
        device_total = rows[i].total * ZC_VA_UNIT;
        total_result = rows[i].has;
        answers[0] = rows[i].reserves;
        assert_int_equal(zc_va_reserve(&va, 4 * ZC_VA_UNIT, 2 * ZC_VA_UNIT, rows[i].wide),
                         rows[i].result);
        expect(rows[i].calls);
        assert_true(va.size == rows[i].size * ZC_VA_UNIT && va.wide == rows[i].is_wide);
        assert_int_equal(wide_ranges, rows[i].is_wide);
        wide_ranges = 0;
    }
}

static void so_many_ranges_are_wide_and_no_more_until_one_goes(void **state)
{
    struct zc_va all[WIDE_MAX + 2];
    (void)state;
    device_total = 8 * ZC_VA_UNIT;
    memset(all, 0, sizeof(all));
    for (unsigned i = 0; i <= WIDE_MAX; i++) {
        all[i].device = 3;
        assert_int_equal(zc_va_reserve(&all[i], 4 * ZC_VA_UNIT, 2 * ZC_VA_UNIT, true), 0);
        assert_int_equal(all[i].wide, i < WIDE_MAX);
        trace[0] = 0;
    }
    for (unsigned i = 0; i < 2; i++) { /* The narrow one makes no room. */
        struct zc_va *goes = &all[i ? 0 : WIDE_MAX];
        zc_va_list = goes;
        goes->before = goes;
        assert_int_equal(zc_va_free(goes), CUDA_SUCCESS);
        all[WIDE_MAX + 1] = (struct zc_va){.device = 3};
        zc_va_reserve(&all[WIDE_MAX + 1], 4 * ZC_VA_UNIT, 2 * ZC_VA_UNIT, true);
        assert_int_equal(all[WIDE_MAX + 1].wide, i);
    }
    wide_ranges = 0;
}

static void devices_get_their_rights_in_one_call_a_run(void **state)
{
    const char *why;
    (void)state;
    spoken.devices = zc_va_bit(0) | zc_va_bit(ZC_DEVICES - 1);
    assert_int_equal(zc_va_open(&spoken, zc_va_bit(1) | zc_va_bit(2)), CUDA_SUCCESS);
    expect(""); /* Nothing is mapped. */
    map_units(0, 1, &why);
    spoken.reads = true;
    map_units(4, 6, &why);
    expect("map 0+1 #100; open 0-1 0:3 63:3; map 4+1 #104; map 5+1 #105; open 4-6 0:1 63:1; ");
    assert_int_equal(zc_va_open(&spoken, zc_va_bit(1) | zc_va_bit(2)), CUDA_SUCCESS);
    expect("open 0-1 1:1 2:1; open 4-6 1:1 2:1; ");
    spoken.reads = false;
    zc_va_open(&spoken, zc_va_bit(0));
    expect("open 0-1 0:3; open 4-6 0:3; ");
    assert_int_equal(zc_va_open(&spoken, 0), CUDA_SUCCESS);
    expect("");
    answers[0] = CUDA_ERROR_INVALID_DEVICE;
    assert_int_equal(zc_va_open(&spoken, 1), CUDA_ERROR_INVALID_DEVICE);
    expect("open 0-1 0:3; ");
}

static void host_memory_is_opened_to_the_cpu_as_far_as_it_reaches(void **state)
{
    static const struct {
        uint32_t from, to;
        bool closed;
        const char *calls;
    } rows[] = {{0, 10, false, "open 2-5 3:3; open 2-5 cpu0:3; "},
                {3, 4, false, "open 2-5 3:3; open 3-4 cpu0:3; "},
                {0, 2, false, "open 2-5 3:3; "},
                {0, 3, false, "open 2-5 3:3; open 2-3 cpu0:3; "},
                {5, 9, false, "open 2-5 3:3; "},
                {4, 9, false, "open 2-5 3:3; open 4-5 cpu0:3; "},
                {0, 10, true, "open 2-5 3:3; "}};
    const char *why;
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        speak(NULL);
        spoken.host = (struct zc_va_host){rows[i].from, rows[i].to, rows[i].closed};
        assert_int_equal(map_units(2, 5, &why), CUDA_SUCCESS);
        char all[160] = "map 2+1 #102; map 3+1 #103; map 4+1 #104; ";
        expect(strcat(all, rows[i].calls));
    }
}

static void closed_host_memory_is_opened_once_all_of_it_is_mapped(void **state)
{
    const char *why;
    (void)state;
    spoken.host = (struct zc_va_host){0, 4, true};
    map_units(0, 3, &why);
    trace[0] = 0;
    assert_int_equal(zc_va_open_host(&spoken), CUDA_SUCCESS);
    assert_false(spoken.host.closed); /* Later memory is opened at once. */
    expect("");
    spoken.host.closed = true;
    map_units(3, 4, &why);
    trace[0] = 0;
    answers[0] = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(zc_va_open_host(&spoken), CUDA_ERROR_NOT_SUPPORTED);
    assert_true(spoken.host.closed);
    assert_int_equal(zc_va_open_host(&spoken), CUDA_SUCCESS);
    assert_false(spoken.host.closed);
    expect("open 0-4 cpu0:3; open 0-4 cpu0:3; ");
    assert_int_equal(zc_va_open_host(&spoken), CUDA_SUCCESS);
    expect("");
}

/* Each call that fails in turn, and what is taken back then. */
static void what_can_not_be_opened_is_unmapped(void **state)
{
    static const struct {
        unsigned fails;
        bool host;
        const char *why, *calls;
    } rows[] = {
        {0, false, "cuMemMap refuses", "map 2+1 #102; "},
        {1, false, "cuMemMap refuses", "map 2+1 #102; map 3+1 #103; unmap 2+1; "},
        {2, false, "cuMemSetAccess refuses",
         "map 2+1 #102; map 3+1 #103; open 2-4 3:3; unmap 2+2; "},
    };
    const char *why = NULL;
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        speak(NULL);
        answers[rows[i].fails] = CUDA_ERROR_UNKNOWN;
        assert_int_equal(map_units(2, 4, &why), CUDA_ERROR_UNKNOWN);
        assert_string_equal(why, rows[i].why);
        expect(rows[i].calls);
        expect_runs("");
    }
    no_record = true;
    assert_int_equal(map_units(2, 4, &why), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "libzc has no memory for its record");
    expect("");
    assert_true(zc_va_holds(&spoken, 5, 5) && !zc_va_holds(&spoken, 5, 6));
}

/* Gives the range room for so many runs, behind which nothing can be read. */
static void guard_runs(unsigned room)
{
    static char *page;
    if (!page)
        page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(mprotect(page + 4096, 4096, PROT_NONE), 0);
    spoken.run = (struct zc_run *)(page + 4096) - room;
    spoken.room = room;
}

static void chunks_end_where_the_memory_does(void **state)
{
    const struct zc_chunks three = {.list = units_of, .count = 3, .room = 10};
    const char *why;
    (void)state;
    guard_runs(3);
    assert_int_equal(zc_va_map(&spoken, &three, 0, 10 * ZC_VA_UNIT, &why), CUDA_SUCCESS);
    expect("map 0+1 #100; map 1+1 #101; map 2+1 #102; open 0-3 3:3; ");
    map_units(4, 5, &why);
    trace[0] = 0;
    map_units(1, 7, &why);
    expect("map 3+1 #103; open 3-4 3:3; map 5+1 #105; map 6+1 #106; open 5-7 3:3; ");
    expect_runs("0-7 ");
}

static void a_part_is_unmapped_and_the_rest_stays(void **state)
{
    static const struct {
        size_t from, to;
        const char *calls, *left;
    } rows[] = {{3, 5, "unmap 3+1; unmap 4+1; ", "1-3 6-8 9-10 "},
                {1, 3, "unmap 1+2; ", "3-4 4-5 6-8 9-10 "},
                {0, 2, "unmap 1+1; ", "2-4 4-5 6-8 9-10 "},
                {2, 3, "unmap 2+1; ", "1-2 3-4 4-5 6-8 9-10 "},
                {7, 9, "unmap 7+1; ", "1-4 4-5 6-7 9-10 "},
                {5, 6, "", "1-4 4-5 6-8 9-10 "},
                {2, 7, "unmap 2+2; unmap 4+1; unmap 6+1; ", "1-2 7-8 9-10 "},
                {6, 9, "unmap 6+2; ", "1-4 4-5 9-10 "},
                {0, 10, "unmap 1+3; unmap 4+1; unmap 6+2; unmap 9+1; ", ""},
                {4, 5, "unmap 4+1; ", "1-4 6-8 9-10 "}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const struct zc_run four[] = {{1, 4}, {4, 5}, {6, 8}, {9, 10}};
        speak(NULL);
        guard_runs(5);
        for (unsigned n = 0; n < 4; n++)
            spoken.run[n] = (struct zc_run){four[n].from * ZC_VA_UNIT, four[n].to * ZC_VA_UNIT};
        spoken.count = 4;
        assert_int_equal(
            zc_va_unmap_part(&spoken, rows[i].from * ZC_VA_UNIT, rows[i].to * ZC_VA_UNIT),
            CUDA_SUCCESS);
        expect(rows[i].calls);
        expect_runs(rows[i].left);
    }
}

static void what_the_driver_does_not_unmap_stays_recorded(void **state)
{
    const char *why;
    (void)state;
    map_units(0, 1, &why);
    map_units(2, 4, &why);
    map_units(5, 9, &why);
    trace[0] = 0;
    answers[0] = CUDA_ERROR_UNKNOWN;
    answers[1] = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_va_unmap(&spoken), CUDA_ERROR_UNKNOWN);
    expect("unmap 0+1; unmap 2+2; unmap 5+4; ");
    expect_runs("0-1 2-4 ");
    answers[1] = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_va_unmap(&spoken), CUDA_ERROR_INVALID_VALUE);
    expect_runs("2-4 ");
    trace[0] = 0;
    no_record = true; /* It would need one more. */
    spoken.run[0].to = 5 * ZC_VA_UNIT;
    assert_int_equal(zc_va_unmap_part(&spoken, 3 * ZC_VA_UNIT, 4 * ZC_VA_UNIT),
                     CUDA_ERROR_OUT_OF_MEMORY);
    expect("");
    expect_runs("2-5 ");
    assert_int_equal(zc_va_unmap(&spoken), CUDA_SUCCESS);
    expect("unmap 2+3; ");
}

static void a_range_moves_and_goes_with_all_it_has(void **state)
{
    static struct zc_va other, to;
    const char *why;
    (void)state;
    other = (struct zc_va){.before = &spoken};
    spoken.next = &other;
    spoken.before = &other;
    map_units(0, 1, &why);
    zc_va_move(&to, &spoken);
    assert_ptr_equal(zc_va_list, &to);
    assert_true(to.next == &other && other.before == &to && !other.next);
    assert_true(to.base == BASE && to.count == 1 && to.size == 10 * ZC_VA_UNIT);
    trace[0] = 0;
    answers[1] = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_va_free(&to), CUDA_ERROR_INVALID_VALUE);
    expect("unmap 0+1; free 10; ");
    assert_true(zc_va_list == &other && to.base == 0 && records_put == 1);
}

static void the_first_refusal_is_told_of_a_range_that_goes(void **state)
{
    const char *why;
    (void)state;
    struct zc_va *va = zc_arena_get(sizeof(*va));
    map_units(0, 1, &why);
    zc_va_move(va, &spoken);
    trace[0] = 0;
    answers[0] = CUDA_ERROR_UNKNOWN;
    answers[1] = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_va_drop(va), CUDA_ERROR_UNKNOWN);
    expect("unmap 0+1; free 10; ");
    assert_true(records_put == 2 && !zc_va_list);
    assert_int_equal(zc_va_drop(NULL), CUDA_SUCCESS);
    expect("");
    assert_int_equal(records_put, 2);
}

static void the_lock_is_one(void **state)
{
    (void)state;
    assert_true(zc_va_lock());
    assert_false(zc_va_lock());
    zc_va_unlock();
    assert_false(zc_lock_held());
}

#define SPOKEN(f) cmocka_unit_test_setup(f, speak)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_is_what_the_driver_has_mapped),
        cmocka_unit_test(no_more_is_mapped_than_asked_for),
        cmocka_unit_test(a_device_gets_rights_for_all_runs),
        SPOKEN(a_range_that_may_grow_takes_as_many_addresses_as_the_device_has_memory),
        SPOKEN(so_many_ranges_are_wide_and_no_more_until_one_goes),
        SPOKEN(devices_get_their_rights_in_one_call_a_run),
        SPOKEN(host_memory_is_opened_to_the_cpu_as_far_as_it_reaches),
        SPOKEN(closed_host_memory_is_opened_once_all_of_it_is_mapped),
        SPOKEN(what_can_not_be_opened_is_unmapped),
        SPOKEN(chunks_end_where_the_memory_does),
        SPOKEN(a_part_is_unmapped_and_the_rest_stays),
        SPOKEN(what_the_driver_does_not_unmap_stays_recorded),
        SPOKEN(a_range_moves_and_goes_with_all_it_has),
        SPOKEN(the_first_refusal_is_told_of_a_range_that_goes),
        SPOKEN(the_lock_is_one),
    };
    return RUN_TESTS(tests);
}
