/* SPDX-License-Identifier: MIT */
/* Device blocks of `shared` from one backing to the other and to their end, with a driver and a
 * kernel that refuse any call on the way. */
#include "shared_test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/lock.h"
#include "base/memory.h"
#include "driver/lock.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/visits.h"
#include "memory/cgroup.h"
#include "memory/place.h"
#include "shared/backing.h"
#include "shared/heat.h"
#include "vmm/lazy.h"
#include "vmm/vmm.h"

/* The kernel, as the library calls it. */
static unsigned kernel_calls, kernel_refuses;
static bool kernel_is_full; /* It maps nothing after that. */

static bool kernel_may(bool maps)
{
    kernel_calls++;
    if (kernel_calls != kernel_refuses &&
        !(maps && kernel_is_full && kernel_refuses && kernel_calls > kernel_refuses))
        return true;
    errno = ENOMEM;
    return false;
}

void *zc_memory_map(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    if (!kernel_may(true))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, rights, flags, fd, offset);
}

int zc_memory_protect(void *at, size_t n, int protection)
{
    return kernel_may(false) ? (int)syscall(SYS_mprotect, at, n, protection) : -1;
}

int zc_memory_unmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

int zc_memory_advise(void *at, size_t n, int advice)
{
    return (int)syscall(SYS_madvise, at, n, advice);
}

void *zc_memory_move(void *from, size_t n, size_t to_n, int flags, void *to)
{
    if (!kernel_may(true))
        return MAP_FAILED;
    return (void *)syscall(SYS_mremap, from, n, to_n, flags, to);
}

/* Left by the host and control groups. */
static uint64_t available = UINT64_MAX;

uint64_t zc_available(void)
{
    return available;
}

uint64_t zc_cgroup_processors(void)
{
    return UINT64_MAX;
}

static void count_from_here(unsigned driver, unsigned kernel)
{
    driver_calls = kernel_calls = 0;
    driver_refuses = driver;
    kernel_refuses = kernel;
}

/* Both sides, and what they hold. */
static struct zc_backing backing;
static struct zc_shared *pair;
static struct zc_block block;
static struct zc_extent *extent;
static char *host;
static char want_h[SIZE], want_d[SIZE];

static void make_device(void)
{
    const struct zc_want want = {.size = SIZE,
                                 .context = current,
                                 .rule = &zc_rules()->rules[1],
                                 .api = ZC_API_cuMemAlloc,
                                 .host_heap = true};
    const char *why = NULL;
    backing = (struct zc_backing){0};
    if (zc_place_shared.make(&want, &backing, &why) != CUDA_SUCCESS)
        fail_msg("no device block: %s", why);
    pair = backing.vmm->pair;
    block = (struct zc_block){.id = 1, .size = SIZE};
    block.place = ZC_PLACE_SHARED;
    block.flags = ZC_BLOCK_CONVERTED;
    block.backing = &backing;
    zc_heat_new(&block);
}

static void make_host(char byte)
{
    host = memset(host_get(SIZE), byte, SIZE);
    extent = zc_hostheap_extent((uintptr_t)host);
    memset(want_h, byte, SIZE);
}

static char *device(void)
{
    return (char *)pair->vmm->va.base;
}

static bool become_one(void)
{
    assert_true(zc_hostheap_claim_for_device(extent));
    bool one = !zc_shared_to_one(pair, extent, true);
    zc_hostheap_unclaim(extent);
    return one;
}

static void copy_in(void)
{
    struct zc_moved moved = {0};
    assert_true(zc_shared_lock_host(pair, extent));
    assert_true(zc_coherent_copy(extent, pair->vmm->va.base, 0, SIZE, true, &moved));
    zc_word_unlock(&pair->owner);
    memcpy(want_d, want_h, SIZE);
}

static void write_host(size_t at, char byte)
{
    *(volatile char *)&host[at] = want_h[at] = byte;
}

/* One pair, in ONE: both sides are equal but for a page in the middle. */
static void make_pair(void)
{
    make_device();
    make_host(1);
    assert_true(become_one());
    assert_true(read_only);
    copy_in();
    write_host(UNIT, 2);
}

static void attach(void)
{
    const char *why;
    assert_true(zc_driver_lock());
    assert_int_equal(zc_lazy_attach(pair->vmm, 0, SIZE, &why), CUDA_SUCCESS);
    zc_driver_unlock();
}

/* The content of both sides, and whether the CPU may write its own. */
static void check_both(void)
{
    assert_memory_equal(host, want_h, SIZE);
    assert_memory_equal(device(), want_d, SIZE);
    for (size_t at = 0; at < SIZE; at += UNIT)
        write_host(at, 9);
    assert_memory_equal(device(), want_d, SIZE);
}

static void end_both(void)
{
    count_from_here(0, 0);
    assert_int_equal(zc_place_shared.detach(&backing), CUDA_SUCCESS);
    assert_int_equal(zc_place_shared.unmake(&backing, false), CUDA_SUCCESS);
    assert_memory_equal(host, want_h, SIZE);
    memset(host, 3, SIZE);
    assert_int_equal(zc_shared_ones, 0);
    assert_int_equal(live, 0);
    if (extent)
        zc_hostmem_put(host);
}

static const char changed[] = "the test says so";

/* Until none is refused any more.  The last round has none. */
static void whatever_is_refused_a_block_is_one_or_has_memory_of_its_own(void **state)
{
    unsigned refusals = 0;
    bool more = true;
    (void)state;
    for (unsigned n = 1; more; n++) {
        make_pair();
        count_from_here(n, 0);
        CUresult result = zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed);
        more = driver_calls >= n;
        count_from_here(0, 0);
        refusals += result != CUDA_SUCCESS;
        assert_int_equal(zc_shared_is_one(pair), zc_shared_ones == 1);
        if (zc_shared_is_one(pair)) {
            assert_int_not_equal(result, CUDA_SUCCESS);
            check_both();
            assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
        }
        attach();
        assert_null(extent->shared);
        check_both();
        memset(device(), 7, SIZE);
        memset(want_d, 7, SIZE);
        check_both();
        end_both();
    }
    assert_true(refusals >= 8);
}

/* Whether the block had memory already or not, and whoever refuses. */
static void whatever_is_refused_a_block_that_does_not_become_one_can_be_used(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        bool more = true, attached = round & 1, kernel = round & 2;
        for (unsigned n = 1; more; n++) {
            make_device();
            make_host(4);
            if (attached)
                attach();
            count_from_here(kernel ? 0 : n, kernel ? n : 0);
            bool one = become_one();
            more = (kernel ? kernel_calls : driver_calls) >= n;
            count_from_here(0, 0);
            assert_int_equal(zc_shared_is_one(pair), one);
            assert_true(one || more);
            if (one)
                copy_in();
            if (!one)
                assert_true(zc_vmm_whole(pair->vmm) || zc_lazy_pending(pair->vmm));
            if (!one)
                attach();
            memcpy(want_d, device(), SIZE);
            check_both();
            end_both();
        }
    }
}

static void a_host_block_that_goes_leaves_the_device_block_its_content(void **state)
{
    (void)state;
    make_pair();
    zc_shared_host_gone(extent);
    assert_null(extent->shared);
    zc_hostmem_put(host);
    extent = NULL;
    host = memset(host_get(SIZE), 5, SIZE);
    assert_memory_equal(device(), want_d, SIZE);
    assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
    assert_memory_equal(device(), want_d, SIZE);
    memset(want_h, 5, SIZE);
    end_both();
    zc_hostmem_put(host);
}

#define POLICY                                                                                     \
    "[rule host]\napi = malloc\nsize = 1M..\nplace = shared\n"                                     \
    "[rule input]\napi = cudaMalloc\nplace = shared\naccess = read\n"

/* A copy of another thread's holds the lock, and nothing of it is lost by a change of the backing,
 * or a free, that waits for it. */
static void *become_own(void *unused)
{
    zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed);
    return unused;
}

static void *free_host(void *unused)
{
    zc_shared_host_gone(extent);
    return unused;
}

static void waits_for_a_copy(void *(*other)(void *unused))
{
    const struct timespec moment = {.tv_nsec = 20000000};
    struct zc_moved moved = {0};
    pthread_t thread;
    make_pair();
    assert_true(zc_shared_lock_host(pair, extent));
    assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
    nanosleep(&moment, NULL); /* Mostly it waits by now. */
    assert_true(zc_coherent_copy(extent, pair->vmm->va.base, 0, SIZE, true, &moved));
    memcpy(want_d, want_h, SIZE);
    zc_word_unlock(&pair->owner);
    pthread_join(thread, NULL);
    assert_null(extent->shared);
    assert_int_equal(zc_shared_to_own(pair, ZC_FN_cuMemsetD8_v2, changed), CUDA_SUCCESS);
    check_both();
    end_both();
}

static void a_change_of_the_backing_waits_for_a_copy(void **state)
{
    (void)state;
    waits_for_a_copy(become_own);
}

static void a_free_of_the_host_block_waits_for_a_copy(void **state)
{
    (void)state;
    waits_for_a_copy(free_host);
}

/* The second block needs room for its own second pages, and for those of the first. */
static void there_is_room_for_all_that_the_cpu_may_write(void **state)
{
    const char *no = "no memory is left for the pages that the CPU writes after the copy";
    uint64_t had = available;
    (void)state;
    make_pair();
    struct zc_backing first = backing;
    struct zc_shared *first_pair = pair;
    make_device();
    struct zc_extent *first_extent = extent;
    make_host(4);
    available = 2 * SIZE - 1;
    assert_true(zc_hostheap_claim_for_device(extent));
    assert_string_equal(zc_shared_to_one(pair, extent, true), no);
    zc_hostheap_unclaim(extent);
    available = 2 * SIZE;
    assert_true(become_one());
    available = had;
    assert_int_equal(zc_shared_ones, 2);
    assert_int_equal(zc_place_shared.detach(&backing), CUDA_SUCCESS);
    assert_int_equal(zc_place_shared.unmake(&backing, false), CUDA_SUCCESS);
    zc_hostmem_put(host);
    backing = first;
    pair = first_pair;
    extent = first_extent;
    host = (char *)zc_extent_base(extent);
    memset(want_h, 1, SIZE);
    want_h[UNIT] = 2;
    check_both();
    end_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_refused_a_block_is_one_or_has_memory_of_its_own),
        cmocka_unit_test(whatever_is_refused_a_block_that_does_not_become_one_can_be_used),
        cmocka_unit_test(a_host_block_that_goes_leaves_the_device_block_its_content),
        cmocka_unit_test(there_is_room_for_all_that_the_cpu_may_write),
        cmocka_unit_test(a_change_of_the_backing_waits_for_a_copy),
        cmocka_unit_test(a_free_of_the_host_block_waits_for_a_copy),
    };
    host_policy(POLICY);
    zc_hostmem_ready();
    start_driver();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
