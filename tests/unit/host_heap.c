/* SPDX-License-Identifier: MIT */
/* The host heap without a driver: which requests it takes, its limits and its pool. */
#include "host_test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "base/memory.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/visits.h"

/* In place of libzc's own: these count. */
static unsigned advised, protected; /* Atomic: threads touch fresh pages. */
static bool maps_fail;

void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    if (maps_fail) {
        errno = ENOMEM;
        return (void *)-1;
    }
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, from);
}

int zc_memory_unmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to)
{
    return (void *)syscall(SYS_mremap, at, n, now, flags, to);
}

int zc_memory_protect(void *at, size_t n, int protection)
{
    __atomic_add_fetch(&protected, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_mprotect, at, n, protection);
}

int zc_memory_advise(void *at, size_t n, int advice)
{
    __atomic_add_fetch(&advised, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_madvise, at, n, advice);
}

static int setup(void **state)
{
    (void)state;
    host_policy("[defaults]\nmax_pinned = 64M\n"
                "[rule not]\napi = malloc\nsize = 5M..6M\nplace = pageable\n"
                "[rule second]\napi = malloc\nsize = 7M\nnth = 2\nplace = pinned\n"
                "[rule large]\napi = malloc, calloc, realloc\nsize = 128K..4M, 8M..64M\n"
                "place = pinned\n");
    return 0;
}

static void all_are(const char *p, size_t n, char byte)
{
    for (size_t i = 0; i < n; i += 509)
        if (p[i] != byte)
            fail_msg("byte %zu is %d", i, p[i]);
    assert_int_equal(p[n - 1], byte);
}

static void only_what_a_rule_names_is_placed(void **state)
{
    (void)state;
    assert_null(host_get(100000));
    assert_int_equal(zc_hostheap.threshold, 128 << 10);
    void *p = host_get(128 << 10);
    assert_non_null(p);
    assert_true(zc_hostheap_owns((uintptr_t)p));
    assert_null(host_get(5 * MIB));
    assert_null(host_get(65 * MIB));
    const struct zc_hostmem_request valloc_ask = {
        .api = ZC_API_valloc, .size = MIB, .alignment = 4096};
    assert_null(zc_hostmem_get(&valloc_ask));
    zc_hostmem_put(p);
}

static size_t resident(const void *p)
{
    unsigned char pages[512];
    size_t n = 0;
    uintptr_t unit = (uintptr_t)p / ZC_HOST_UNIT * ZC_HOST_UNIT;
    assert_int_equal(mincore((void *)unit, ZC_HOST_UNIT, pages), 0);
    for (size_t i = 0; i < ZC_HOST_UNIT >> 12; i++)
        n += pages[i] & 1;
    return n << 12;
}

static void small_blocks_share_units_and_take_pages_one_by_one(void **state)
{
    (void)state;
    enum { COUNT = 280, A_UNIT = 15 };
    char *p[COUNT];
    advised = protected = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        assert_non_null(p[i] = host_get((130 << 10) + i));
        *p[i] = (char)i;
    }
    assert_true(protected <= COUNT / A_UNIT + 2); /* Records take some. */
    assert_true(advised <= COUNT / A_UNIT + 1);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(*p[i], (char)i);
        assert_true(resident(p[i]) <= A_UNIT << 12);
    }
    for (unsigned i = 0; i < COUNT; i++)
        zc_hostmem_put(p[i]);
    /* The same memory for a large block comes in huge pages again. */
    zc_hostmem_put(host_get(2 * MIB - 4096));
}

static void only_what_is_used_of_a_table_of_calloc_is_touched(void **state)
{
    (void)state;
    const struct zc_hostmem_request ask = {.api = ZC_API_calloc, .size = 16 * MIB, .zero = true};
    char *p = zc_hostmem_get(&ask), *q = host_get(16 * MIB);
    assert_non_null(p);
    assert_non_null(q);
    assert_int_equal(resident(p + 8 * MIB), 0);
    assert_int_equal(resident(q + 8 * MIB), ZC_HOST_UNIT);
    p[12 * MIB] = 1;
    assert_int_equal(resident(p + 8 * MIB), 0);
    zc_hostmem_put(p);
    zc_hostmem_put(q);
}

static void small_blocks_leave_little_of_their_slots_empty(void **state)
{
    (void)state;
    for (size_t size = 128 << 10; size <= 512 << 10; size += 1111) {
        char *p = host_get(size), *q = host_get(size);
        assert_true(zc_hostheap_room(p) >= size && zc_hostheap_room(p) <= size + size / 4 + 4096);
        assert_true(p + size <= q || q + size <= p);
        assert_int_equal(zc_hostheap_block((uintptr_t)p + size - 1), (uintptr_t)p);
        assert_int_equal(zc_hostheap_block((uintptr_t)q + size - 1), (uintptr_t)q);
        assert_null(zc_hostheap_slot(p + 1));
        zc_hostmem_put(p);
        zc_hostmem_put(q);
    }
}

static void nth_counts_fitting_requests(void **state)
{
    (void)state;
    assert_null(host_get(7 * MIB));
    void *p = host_get(7 * MIB);
    assert_non_null(p);
    assert_null(host_get(7 * MIB));
    zc_hostmem_put(p);
}

static void alignment_is_kept(void **state)
{
    (void)state;
    for (size_t a = 16; a <= ZC_HOST_UNIT; a *= 2) {
        const struct zc_hostmem_request ask = {
            .api = ZC_API_malloc, .size = 200000, .alignment = a};
        void *p = zc_hostmem_get(&ask);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % a, 0);
        zc_hostmem_put(p);
    }
    const struct zc_hostmem_request far = {
        .api = ZC_API_malloc, .size = 200000, .alignment = 2 * ZC_HOST_UNIT};
    assert_null(zc_hostmem_get(&far));
}

/* A block at the beginning of a page is no wider than a quarter more, as any other. */
static void blocks_at_pages_lie_close(void **state)
{
    const struct zc_hostmem_request ask = {
        .api = ZC_API_malloc, .size = 160 << 10, .alignment = 4096};
    (void)state;
    uintptr_t p = (uintptr_t)zc_hostmem_get(&ask), q = (uintptr_t)zc_hostmem_get(&ask);
    assert_true(p && q);
    assert_in_range(p < q ? q - p : p - q, 160 << 10, 200 << 10);
    zc_hostmem_put((void *)p);
    zc_hostmem_put((void *)q);
}

static void the_size_is_what_was_asked_for(void **state)
{
    (void)state;
    char *p = host_get(200001);
    assert_int_equal(zc_hostmem_size(p), 200001);
    assert_int_equal(zc_hostmem_size(p + 1), 0);
    assert_int_equal(zc_hostheap_block((uintptr_t)p + 200000), (uintptr_t)p);
    zc_hostmem_put(p);
    assert_int_equal(zc_hostheap_block((uintptr_t)p), 0);
}

static void calloc_of_used_memory_is_zero(void **state)
{
    (void)state;
    const struct zc_hostmem_request ask = {
        .api = ZC_API_calloc, .size = 9 * MIB, .alignment = 1, .zero = true};
    char *p = host_get(9 * MIB);
    memset(p, 1, 9 * MIB);
    zc_hostmem_put(p);
    char *q = zc_hostmem_get(&ask);
    assert_int_equal((uintptr_t)p / ZC_HOST_UNIT, (uintptr_t)q / ZC_HOST_UNIT);
    for (size_t i = 0; i < 9 * MIB; i++)
        if (q[i])
            fail_msg("byte %zu is not zero", i);
    zc_hostmem_put(q);
}

static void memory_that_is_given_back_keeps_no_bytes_where_its_mapping_stays(void **state)
{
    (void)state;
    zc_hostheap_tidy(true);
    char *p = host_get(9 * MIB);
    memset(p, 1, 9 * MIB);
    zc_hostmem_put(p);
    maps_fail = true;
    zc_hostheap_tidy(true);
    maps_fail = false;
    assert_int_equal(zc_hostheap_pooled(), 0);
    assert_int_equal(resident(p + 4 * MIB), 0);
    const struct zc_hostmem_request ask = {
        .api = ZC_API_calloc, .size = 9 * MIB, .alignment = 1, .zero = true};
    char *q = zc_hostmem_get(&ask);
    assert_int_equal((uintptr_t)p / ZC_HOST_UNIT, (uintptr_t)q / ZC_HOST_UNIT);
    all_are(q, 9 * MIB, 0);
    zc_hostmem_put(q);
}

/* Threads that go through several of them side by side would wait for each other's cache sets. */
static void large_blocks_begin_at_different_places_of_their_pages(void **state)
{
    (void)state;
    char *p[3];
    for (unsigned i = 0; i < 3; i++) {
        p[i] = memset(host_get(16 * MIB), (int)i, 16 * MIB);
        assert_int_equal((uintptr_t)p[i] % 128, 0);
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal((uintptr_t)p[i] % ZC_HOST_UNIT, (uintptr_t)p[j] % ZC_HOST_UNIT);
        assert_null(zc_hostheap_slot(p[i] - 128));
        assert_int_equal(zc_hostheap_block((uintptr_t)p[i] - 1), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        all_are(p[i], 16 * MIB, (char)i);
        zc_hostmem_put(p[i]);
    }
    const struct zc_hostmem_request aligned = {
        .api = ZC_API_malloc, .size = 16 * MIB, .alignment = 4096};
    void *q = zc_hostmem_get(&aligned);
    assert_int_equal((uintptr_t)q % 4096, 0);
    zc_hostmem_put(q);
}

/* Half of it would be for the beginning alone. */
static void a_block_that_fills_a_few_pages_gets_no_other_page(void **state)
{
    (void)state;
    void *p[16];
    for (unsigned i = 0; i < 16; i++)
        assert_non_null(p[i] = host_get(4 * MIB));
    assert_null(host_get(4 * MIB));
    for (unsigned i = 0; i < 16; i++)
        zc_hostmem_put(p[i]);
}

static void realloc_keeps_what_fits(void **state)
{
    (void)state;
    const struct zc_hostmem_request grow = {
        .api = ZC_API_realloc, .size = 12 * MIB, .alignment = 1};
    const struct zc_hostmem_request stay = {
        .api = ZC_API_realloc, .size = 11 * MIB, .alignment = 1};
    const struct zc_hostmem_request small = {.api = ZC_API_realloc, .size = 1000, .alignment = 1};
    char *p = host_get(9 * MIB), *q, *r;
    memset(p, 7, 9 * MIB);
    q = zc_hostmem_resize(p, &grow);
    assert_non_null(q);
    assert_true(q[0] == 7 && q[9 * MIB - 1] == 7);
    r = zc_hostmem_resize(q, &stay);
    assert_ptr_equal(q, r);
    assert_int_equal(zc_hostmem_size(r), 11 * MIB);
    assert_null(zc_hostmem_resize(r, &small));
    assert_int_equal(zc_hostmem_size(r), 11 * MIB);
    zc_hostmem_put(r);
}

static void *resized(void *p, size_t size)
{
    const struct zc_hostmem_request ask = {.api = ZC_API_realloc, .size = size, .alignment = 1};
    return zc_hostmem_resize(p, &ask);
}

/* Under max_pinned = 64M the old and the new block could not be there side by side. */
static void realloc_of_a_large_block_needs_no_second_one(void **state)
{
    (void)state;
    char *p = memset(host_get(24 * MIB), 3, 24 * MIB);
    char *q = resized(p, 50 * MIB);
    assert_non_null(q);
    all_are(q, 24 * MIB, 3);
    memset(q, 4, 50 * MIB);
    char *r = resized(q, 10 * MIB);
    assert_ptr_equal(q, r);
    all_are(r, 10 * MIB, 4);
    char *rest = host_get(48 * MIB);
    assert_non_null(rest);
    zc_hostmem_put(rest);
    zc_hostmem_put(r);
}

static void a_block_with_another_behind_it_moves_when_it_grows(void **state)
{
    (void)state;
    char *p = memset(host_get(9 * MIB), 5, 9 * MIB), *behind[3];
    for (int i = 0; i < 3; i++)
        behind[i] = memset(host_get(9 * MIB), 6, 9 * MIB);
    char *q = resized(p, 24 * MIB);
    assert_non_null(q);
    all_are(q, 9 * MIB, 5);
    memset(q, 7, 24 * MIB);
    for (int i = 0; i < 3; i++) {
        all_are(behind[i], 9 * MIB, 6);
        zc_hostmem_put(behind[i]);
    }
    if (q != p)
        assert_int_equal(zc_hostheap_block((uintptr_t)p), 0);
    all_are(q, 24 * MIB, 7);
    zc_hostmem_put(q);
    const struct zc_hostmem_request zero = {
        .api = ZC_API_calloc, .size = 60 * MIB, .alignment = 1, .zero = true};
    char *z = zc_hostmem_get(&zero);
    all_are(z, 60 * MIB, 0);
    zc_hostmem_put(z);
}

/* Memory of cuMemHostAlloc is no block of libc's, but its addresses may become one. */
static void a_block_that_moves_to_addresses_of_pinned_memory_is_libcs(void **state)
{
    static int context;
    const struct zc_host_want want = {.size = 32 * MIB, .alignment = 1, .owner = &context};
    struct zc_slot *slot;
    const char *why;
    (void)state;
    zc_hostheap_tidy(true);
    char *pinned = zc_hostheap_get(&want, &slot, &why), *p = host_get(10 * MIB);
    char *behind = host_get(8 * MIB);
    assert_true(pinned && p && behind);
    zc_hostheap_put(pinned);
    zc_hostheap_tidy(true);
    char *q = resized(p, 24 * MIB);
    assert_in_range((uintptr_t)q, (uintptr_t)pinned, (uintptr_t)pinned + 32 * MIB);
    assert_non_null(zc_hostblock_slot(q));
    zc_hostmem_put(q);
    zc_hostmem_put(behind);
    zc_hostheap_tidy(true);
    assert_int_equal(zc_hostheap_pooled(), 0);
}

/* The driver may know the old pages still, and addresses must not come back with others. */
static void memory_whose_registration_is_about_to_end_stays(void **state)
{
    (void)state;
    zc_hostheap_tidy(true);
    char *p = host_get(9 * MIB);
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    zc_pinned_release(e, ZC_PIN_DONE);
    assert_int_equal(zc_pinned_hold(e), ZC_PIN_DONE);
    zc_hostmem_put(p);
    zc_hostheap_tidy(true);
    assert_in_range(zc_hostheap_pooled(), 9 * MIB, 12 * MIB);
    zc_pinned_release(e, ZC_PIN_DONE);
    zc_hostheap_tidy(true);
    assert_in_range(zc_hostheap_pooled(), 9 * MIB, 12 * MIB);
    assert_ptr_equal(zc_hostheap_surplus(true, true), e);
    e->use = ZC_EXTENT_LIMBO;
    zc_hostheap_revive(e);
    assert_int_equal(zc_pinned_hold(e), ZC_PIN_DONE);
    zc_pinned_release(e, ZC_PIN_NONE);
    zc_hostheap_tidy(true);
    assert_int_equal(zc_hostheap_pooled(), 0);
}

static void realloc_past_the_limit_leaves_the_block(void **state)
{
    (void)state;
    char *p = memset(host_get(40 * MIB), 8, 40 * MIB), *other = host_get(12 * MIB);
    assert_null(resized(p, 60 * MIB));
    all_are(p, 40 * MIB, 8);
    assert_int_equal(zc_hostmem_size(p), 40 * MIB);
    zc_hostmem_put(other);
    char *q = resized(p, 60 * MIB);
    assert_non_null(q);
    all_are(q, 40 * MIB, 8);
    zc_hostmem_put(q);
}

/* Blocks begin at ZC_HOST_LEADS places of their first page, one after another. */
static void sizes_that_wrap_around_are_refused(void **state)
{
    (void)state;
    for (unsigned turn = 0; turn <= ZC_HOST_LEADS; turn++) {
        char *p = memset(host_get(20 * MIB), 9, 20 * MIB);
        size_t lead = zc_hostheap_extent((uintptr_t)p)->lead;
        const size_t ends[] = {0, 1, lead, ZC_HOST_UNIT, ZC_HOST_UNIT + lead};
        struct zc_slot *slot;
        for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
            for (size_t near = 0; near <= 4; near++)
                assert_null(zc_hostheap_resize(p, SIZE_MAX - ends[i] + 2 - near, &slot));
        }
        assert_null(zc_hostheap_resize(p, zc_hostheap.bytes + 1, &slot));
        assert_null(zc_hostheap_resize(p, zc_hostheap.bytes - lead + 1, &slot));
        all_are(p, 20 * MIB, 9);
        zc_hostmem_put(p);
    }
}

/* Pages that come in before the program uses them, until it needs its block. */
static void blocks_get_pages_ahead_up_to_a_bound(void **state)
{
    (void)state;
    void *p = host_get(8 * MIB);
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    size_t most = e->prefaulted + zc_heap_may_prefault(e, SIZE_MAX);
    assert_int_equal(most, 192 * MIB);
    assert_int_equal(zc_heap_may_prefault(e, MIB), 0);
    zc_hostheap_needed(e);
    assert_int_equal(zc_heap_may_prefault(e, 100 * MIB), 100 * MIB);
    assert_int_equal(zc_heap_may_prefault(e, 100 * MIB), 92 * MIB);
    zc_hostmem_put(p);
    p = host_get(8 * MIB);
    e = zc_hostheap_extent((uintptr_t)p);
    assert_int_equal(e->prefaulted + zc_heap_may_prefault(e, SIZE_MAX), most);
    zc_hostmem_put(p);
}

static void max_pinned_bounds_what_is_placed(void **state)
{
    (void)state;
    void *p[64];
    unsigned n = 0;
    while (n < 64 && (p[n] = host_get(8 * MIB)))
        n++;
    assert_int_equal(n, 8);
    errno = 17;
    assert_null(host_get(8 * MIB));
    assert_int_equal(errno, 17);
    zc_hostmem_put(p[--n]);
    assert_non_null(p[n] = host_get(8 * MIB));
    for (n++; n; n--)
        zc_hostmem_put(p[n - 1]);
}

static void the_pool_keeps_a_quarter(void **state)
{
    (void)state;
    void *p[7];
    for (int i = 0; i < 7; i++)
        assert_non_null(p[i] = host_get(8 * MIB));
    for (int i = 0; i < 7; i++)
        zc_hostmem_put(p[i]);
    assert_int_equal(zc_hostheap_pooled(), 16 * MIB);
    void *q = host_get(60 * MIB);
    assert_non_null(q); /* Pooled memory of the wrong size stood in its way. */
    zc_hostmem_put(q);
}

static bool moved_in; /* Atomic. */

/* Both wait until the device block that was about to come is there. */
static void *visit(void *extent)
{
    zc_hostheap_visit(extent);
    return __atomic_load_n(&moved_in, __ATOMIC_ACQUIRE) ? extent : NULL;
}

static void *claim(void *extent)
{
    zc_hostheap_claim(extent);
    return __atomic_load_n(&moved_in, __ATOMIC_ACQUIRE) ? extent : NULL;
}

static void copies_and_frees_wait_for_a_device_block_that_is_about_to_come(void **state)
{
    void *(*const comers[])(void *) = {visit, claim};
    void *p = host_get(8 * MIB), *waited;
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    pthread_t thread;
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        __atomic_store_n(&moved_in, false, __ATOMIC_RELEASE);
        assert_true(zc_hostheap_claim_for_device(e));
        assert_int_equal(pthread_create(&thread, NULL, comers[i], e), 0);
        usleep(20000);
        __atomic_store_n(&moved_in, true, __ATOMIC_RELEASE);
        zc_hostheap_unclaim(e);
        pthread_join(thread, &waited);
        assert_ptr_equal(waited, e);
    }
    assert_int_equal(e->visits, 1);
    zc_hostheap_leave(e);
    zc_hostheap_unclaim(e);
    zc_hostmem_put(p);
}

static void one_at_a_time_claims_a_host_block_and_copies_go_on(void **state)
{
    void *p = host_get(3 * MIB);
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    (void)state;
    zc_hostheap_claim(e);
    assert_false(zc_hostheap_claim_for_device(e));
    zc_hostheap_visit(e);
    zc_hostheap_visit(e);
    assert_int_equal(e->visits, 2);
    zc_hostheap_unclaim(e);
    assert_true(zc_hostheap_claim_for_device(e));
    assert_false(zc_hostheap_claim_for_device(e));
    zc_hostheap_unclaim(e);
    zc_hostheap_leave(e);
    zc_hostheap_leave(e);
    assert_int_equal(e->visits, 0);
    zc_hostmem_put(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_a_rule_names_is_placed),
        cmocka_unit_test(small_blocks_share_units_and_take_pages_one_by_one),
        cmocka_unit_test(only_what_is_used_of_a_table_of_calloc_is_touched),
        cmocka_unit_test(small_blocks_leave_little_of_their_slots_empty),
        cmocka_unit_test(nth_counts_fitting_requests),
        cmocka_unit_test(alignment_is_kept),
        cmocka_unit_test(blocks_at_pages_lie_close),
        cmocka_unit_test(the_size_is_what_was_asked_for),
        cmocka_unit_test(calloc_of_used_memory_is_zero),
        cmocka_unit_test(memory_that_is_given_back_keeps_no_bytes_where_its_mapping_stays),
        cmocka_unit_test(large_blocks_begin_at_different_places_of_their_pages),
        cmocka_unit_test(a_block_that_fills_a_few_pages_gets_no_other_page),
        cmocka_unit_test(realloc_keeps_what_fits),
        cmocka_unit_test(realloc_of_a_large_block_needs_no_second_one),
        cmocka_unit_test(a_block_with_another_behind_it_moves_when_it_grows),
        cmocka_unit_test(a_block_that_moves_to_addresses_of_pinned_memory_is_libcs),
        cmocka_unit_test(memory_whose_registration_is_about_to_end_stays),
        cmocka_unit_test(realloc_past_the_limit_leaves_the_block),
        cmocka_unit_test(sizes_that_wrap_around_are_refused),
        cmocka_unit_test(blocks_get_pages_ahead_up_to_a_bound),
        cmocka_unit_test(max_pinned_bounds_what_is_placed),
        cmocka_unit_test(the_pool_keeps_a_quarter),
        cmocka_unit_test(copies_and_frees_wait_for_a_device_block_that_is_about_to_come),
        cmocka_unit_test(one_at_a_time_claims_a_host_block_and_copies_go_on),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
