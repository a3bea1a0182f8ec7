/* SPDX-License-Identifier: MIT */
/* Limits of a policy for each place, to the byte: what is had, held, left and told. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/job.h"
#include "base/message.h"
#include "base/module.h"
#include "ledger/rules.h"
#include "memory/cgroup.h"
#include "memory/device.h"
#include "real_test.h"

/* The neighbours: a job, what host and devices have, and what gives way. */
static struct zc_job job;
static uint64_t has_available, reclaimed, overcommit, most_maps; /* 0: as the kernel has it. */
static uint64_t is_free, has_total, answers;
static int has_visible, has_current;
static unsigned told;

static const struct zc_job *fake_job(void)
{
    return &job;
}

static uint64_t fake_available(void)
{
    return has_available;
}

static uint64_t fake_device_free(int device)
{
    assert_int_equal(device, has_current);
    return answers ? is_free : 0;
}

static bool fake_number(const char *path, const char *before, uint64_t *out)
{
    bool maps = strcmp(path, "/proc/sys/vm/max_map_count") == 0 && most_maps;
    if (!maps && strcmp(path, "/proc/sys/vm/overcommit_memory") != 0)
        return zc_file_number(path, before, out);
    *out = maps ? most_maps : overcommit;
    return true;
}

static bool fake_first(const char *code)
{
    assert_non_null(strstr(code, "over max_"));
    told++;
    return false;
}

static unsigned fake_reclaim(int place);

static const struct zc_policy *fake_rules(void);

#define zc_job() fake_job()
#define zc_rules() fake_rules()
#define zc_available fake_available
#define zc_device_free fake_device_free
#define zc_file_number fake_number
#define zc_message_first fake_first
#define zc_modules_reclaim fake_reclaim
#include "../../shim/memory/limits.c"

static struct zc_policy policy;
static const struct zc_policy *fake_rules(void)
{
    return &policy;
}

static unsigned fake_reclaim(int place)
{
    assert_int_equal(place, ZC_PLACE_MANAGED);
    if (reclaimed)
        zc_limits_give(ZC_PLACE_MANAGED, 0, reclaimed);
    return reclaimed != 0;
}

static CUresult get_info(size_t *f, size_t *t)
{
    *f = is_free;
    *t = has_total;
    return answers ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult get_total(size_t *t, CUdevice device)
{
    *t = has_total + (size_t)device;
    return answers ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult get_count(int *count)
{
    *count = has_visible;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = has_current;
    return has_current < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static __typeof__(limits) fresh;
static const char *why;

#define BYTES(n)                                                                                   \
    (struct zc_limit)                                                                              \
    {                                                                                              \
        ZC_LIMIT_BYTES, n                                                                          \
    }
#define PERCENT(n)                                                                                 \
    (struct zc_limit)                                                                              \
    {                                                                                              \
        ZC_LIMIT_PERCENT, n                                                                        \
    }

static int setup(void **state)
{
    (void)state;
    real_without_driver();
    zc_real.cuMemGetInfo_v2 = get_info;
    zc_real.cuDeviceTotalMem_v2 = get_total;
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuCtxGetDevice = get_device;
    memcpy(&fresh, &limits, sizeof(limits));
    return 0;
}

static int anew(void **state)
{
    (void)state;
    memcpy(&limits, &fresh, sizeof(limits));
    memset(&policy, 0, sizeof(policy));
    job = (struct zc_job){.local_world = -1};
    has_available = 10000;
    is_free = 3000;
    has_total = 5000;
    answers = has_visible = 1;
    reclaimed = overcommit = most_maps = told = 0;
    has_current = 0;
    zc_limits_end_room();
    return 0;
}

static void begin(void)
{
    zc_module_limits.start(&policy);
    why = "";
}

static bool takes(enum zc_place_id place, int device, size_t bytes)
{
    return zc_limits_take(place, device, bytes, &why);
}

static void max_pinned_bounds_mapped_and_pinned_together(void **state)
{
    (void)state;
    policy.max_pinned = BYTES(1000);
    begin();
    assert_true(takes(ZC_PLACE_MAPPED, 0, 300) && takes(ZC_PLACE_MAPPED, 1, 200));
    assert_true(takes(ZC_PLACE_PINNED, -1, 400) && takes(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT, 50));
    assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), 50);
    assert_int_equal(zc_limits_left(ZC_PLACE_MAPPED, 5), 50);
    assert_string_equal(why, "");
    assert_false(takes(ZC_PLACE_MAPPED, 0, 51));
    assert_string_equal(why, "over max_pinned");
    assert_true(takes(ZC_PLACE_MAPPED, 0, 50));
    assert_false(takes(ZC_PLACE_PINNED, -1, 1));
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 0), 350);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 1), 200);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 2), 0);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT), 50);
    assert_int_equal(zc_limits_used(ZC_PLACE_PINNED, 0), 400);
    zc_limits_give(ZC_PLACE_MAPPED, 1, 200);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 1), 0);
    assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), 200);
    zc_limits_keep(0, 30);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 0), 320);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT), 80);
    zc_limits_keep(0, -10);
    assert_int_equal(zc_limits_used(ZC_PLACE_MAPPED, 0), 330);
    assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), 200);
    assert_int_equal(told, 0);
    assert_int_equal(zc_limits_on_devices(), 0);
}

/* Memory that the program itself asked the driver to pin counts where the policy has the key. */
static void asked_memory_is_bounded_by_a_given_limit_alone(void **state)
{
    (void)state;
    policy.max_pinned = BYTES(1000);
    begin();
    assert_true(takes(ZC_PLACE_PINNED, ZC_LIMITS_ASKED, 5000));
    assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), 1000);
    assert_int_equal(zc_limits_used(ZC_PLACE_PINNED, ZC_LIMITS_ASKED), 5000);
    anew(NULL);
    policy.max_pinned = BYTES(1000);
    policy.given = ZC_KEY_BIT(ZC_KEY_MAX_PINNED);
    begin();
    assert_false(takes(ZC_PLACE_PINNED, ZC_LIMITS_ASKED, 1001));
    assert_true(takes(ZC_PLACE_PINNED, ZC_LIMITS_ASKED, 600));
    assert_int_equal(zc_limits_left(ZC_PLACE_MAPPED, 0), 400);
}

static void a_limit_is_resolved_once_and_shared_by_the_ranks_of_the_host(void **state)
{
    static const struct {
        struct zc_limit most;
        int64_t ranks;
        uint64_t left;
    } rows[] = {{{ZC_LIMIT_NONE, 0}, -1, 5000},    {{ZC_LIMIT_NONE, 0}, 1, 5000},
                {{ZC_LIMIT_NONE, 0}, 4, 1250},     {{ZC_LIMIT_PERCENT, 20}, 0, 2000},
                {{ZC_LIMIT_PERCENT, 20}, 2, 1000}, {{ZC_LIMIT_BYTES, 900}, 3, 300}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        policy.max_pinned = rows[i].most;
        job.local_world = rows[i].ranks;
        errno = 17;
        zc_limits_start(&policy);
        assert_int_equal(errno, 17);
        has_available = 77;
        begin();
        assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), rows[i].left);
        assert_int_equal(zc_limits_pool(), rows[i].left / 4);
        assert_false(takes(ZC_PLACE_PINNED, -1, rows[i].left + 1));
        assert_int_equal(told, rows[i].ranks > 1);
    }
    anew(NULL);
    overcommit = 2;
    begin();
    assert_int_equal(zc_limits_pool(), 0);
    anew(NULL);
    overcommit = 1;
    begin();
    struct rlimit was, data;
    getrlimit(RLIMIT_DATA, &was);
    data = (struct rlimit){(rlim_t)1 << 40, was.rlim_max};
    setrlimit(RLIMIT_DATA, &data);
    assert_int_equal(zc_limits_pool(), 0);
    setrlimit(RLIMIT_DATA, &was);
    assert_int_equal(zc_limits_pool(), 1250);
}

/* Never more than the device has free, whatever the policy says. */
static void managed_memory_fits_into_what_is_free(void **state)
{
    static const struct {
        struct zc_limit most;
        int64_t ranks;
        int gpus;
        uint64_t left;
    } rows[] = {{{ZC_LIMIT_NONE, 0}, 1, 1, 3000},      {{ZC_LIMIT_BYTES, 700}, 1, 1, 700},
                {{ZC_LIMIT_BYTES, 7000}, 1, 1, 3000},  {{ZC_LIMIT_PERCENT, 50}, 1, 1, 1500},
                {{ZC_LIMIT_PERCENT, 100}, 1, 1, 3000}, {{ZC_LIMIT_NONE, 0}, 4, 2, 1500},
                {{ZC_LIMIT_NONE, 0}, 5, 2, 1000},      {{ZC_LIMIT_BYTES, 700}, 7, 1, 100},
                {{ZC_LIMIT_NONE, 0}, 4, 4, 3000}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        policy.max_managed = rows[i].most;
        job.local_world = rows[i].ranks;
        has_visible = rows[i].gpus;
        begin();
        assert_int_equal(zc_limits_left(ZC_PLACE_MANAGED, 0), rows[i].left);
        assert_false(takes(ZC_PLACE_MANAGED, 0, rows[i].left + 1));
        assert_string_equal(why, "over max_managed, or over what is free on the device");
        assert_int_equal(told, rows[i].ranks > rows[i].gpus); /* Those that share a GPU. */
        assert_true(takes(ZC_PLACE_MANAGED, 0, rows[i].left - 40));
        assert_int_equal(zc_limits_left(ZC_PLACE_MANAGED, 0), 40);
        assert_int_equal(zc_limits_on_devices(), rows[i].left - 40);
        answers = 0;
        assert_int_equal(zc_limits_left(ZC_PLACE_MANAGED, 0), 0);
        assert_false(takes(ZC_PLACE_MANAGED, 0, 1));
        answers = 1;
    }
}

static void max_device_in_bytes_is_of_each_device(void **state)
{
    (void)state;
    begin();
    assert_false(zc_limits_device_bound());
    assert_int_equal(zc_limits_most(0), UINT64_MAX);
    assert_int_equal(zc_limits_left(ZC_PLACE_VMM, 0), UINT64_MAX);
    assert_true(zc_limits_device_room(0, SIZE_MAX, &why));
    anew(NULL);
    policy.max_device = BYTES(1000);
    begin();
    assert_true(zc_limits_device_bound());
    assert_true(takes(ZC_PLACE_VMM, 0, 300) && takes(ZC_PLACE_SHARED, 1, 500));
    assert_int_equal(zc_limits_most(0), 1000);
    assert_int_equal(zc_limits_left(ZC_PLACE_DEVICE, 1), 500);
    assert_false(takes(ZC_PLACE_DEVICE, 1, 501));
    assert_string_equal(why, "over max_device");
    assert_true(takes(ZC_PLACE_DEVICE, 2, 200));
    assert_int_equal(zc_limits_on_devices(), 1000);
    assert_int_equal(zc_limits_used(ZC_PLACE_DEVICE, 1), 500);
    assert_int_equal(zc_limits_used(ZC_PLACE_VMM, 0), 300);
}

/* Of what it had free when that was first asked, and this process held of it. */
static void max_device_in_percent_is_of_each_device(void **state)
{
    (void)state;
    policy.max_device = PERCENT(10);
    begin();
    assert_true(takes(ZC_PLACE_VMM, 0, 200));
    assert_int_equal(zc_limits_whole(0), 3000);
    is_free = 1;
    assert_int_equal(zc_limits_left(ZC_PLACE_VMM, 0), 100);
    assert_int_equal(zc_limits_whole(1), 5001); /* It is not current. */
    has_current = -1;
    assert_int_equal(zc_limits_whole(2), 5002);
    has_current = 2;
    is_free = 4000;
    assert_true(takes(ZC_PLACE_VMM, 2, 400));
    assert_false(takes(ZC_PLACE_VMM, 2, 1));
    anew(NULL);
    policy.max_device = PERCENT(10);
    zc_block_on_device(0, 600);
    begin();
    assert_int_equal(zc_limits_whole(0), 3600);
    anew(NULL);
    policy.max_device = PERCENT(10);
    job.local_world = 2;
    begin();
    assert_int_equal(zc_limits_whole(0), 5000);
    assert_int_equal(zc_limits_left(ZC_PLACE_VMM, 0), 250);
    assert_false(takes(ZC_PLACE_VMM, 0, 251));
    assert_int_equal(told, 1);
}

static void room_is_reserved_for_the_next_block_of_the_thread(void **state)
{
    (void)state;
    policy.max_device = BYTES(1000);
    begin();
    assert_true(zc_limits_device_room(0, 600, &why));
    assert_int_equal(zc_limits_on_devices(), 600);
    zc_block_on_device(0, 600);
    assert_int_equal(zc_limits_on_devices(), 600);
    zc_limits_end_room();
    assert_int_equal(zc_limits_on_devices(), 600);
    assert_false(zc_limits_device_room(0, 401, &why));
    assert_int_equal(zc_limits_on_devices(), 600);
    assert_true(zc_limits_device_room(1, 400, &why));
    assert_true(zc_limits_device_room(1, 300, &why)); /* In place of those. */
    assert_int_equal(zc_limits_on_devices(), 900);
    zc_block_on_device(0, 300);
    assert_int_equal(zc_limits_on_devices(), 1200);
    zc_block_on_device(1, 299);
    assert_int_equal(zc_limits_on_devices(), 1499);
    zc_limits_end_room();
    assert_int_equal(zc_limits_on_devices(), 1199);
    assert_int_equal(zc_limits_left(ZC_PLACE_DEVICE, 0), 100);
    assert_int_equal(zc_limits_most(0), 1000);
    zc_block_on_device(0, -900);
    zc_block_on_device(1, -299);
    assert_int_equal(zc_limits_on_devices(), 0);
}

/* Beside managed memory, which the driver does not count until kernels touch it. */
static void a_device_holds_what_fits_beside_all_that_was_asked_of_it(void **state)
{
    (void)state;
    begin();
    is_free = 5000;
    assert_true(zc_limits_device_holds(0, 50000, false)); /* That is the driver's to say. */
    assert_true(takes(ZC_PLACE_MANAGED, 0, 2000));
    zc_block_on_device(0, 1000);
    assert_true(zc_limits_device_holds(0, 2000, false));
    assert_false(zc_limits_device_holds(0, 2001, false));
    assert_false(zc_limits_device_holds(0, SIZE_MAX, false));
    assert_false(zc_limits_device_holds(0, 2001, true));
    assert_true(zc_limits_device_holds(1, 5001, false));
    assert_false(zc_limits_device_holds(1, 5002, false));
    reclaimed = 1;
    assert_true(zc_limits_device_holds(0, 2001, false));
    assert_false(zc_limits_device_holds(0, 2003, false));
    reclaimed = 0;
    has_visible = 2;
    assert_true(zc_limits_device_holds(0, 9000, true));
    assert_false(zc_limits_device_holds(0, 9000, false));
    answers = 0;
    assert_true(zc_limits_device_holds(0, 9000, false));
}

static void the_callers_own_request_counts_once(void **state)
{
    (void)state;
    policy.max_device = BYTES(4000);
    begin();
    is_free = 5000;
    assert_true(takes(ZC_PLACE_MANAGED, 0, 2000));
    assert_true(zc_limits_device_room(0, 3000, &why));
    assert_true(zc_limits_device_holds(0, 3000, false));
    assert_false(zc_limits_device_holds(0, 3001, false));
    zc_limits_end_room();
    assert_true(zc_limits_device_room(1, 3000, &why));
    assert_true(zc_limits_device_holds(0, 3000, false));
    zc_limits_end_room();
}

static void devices_beyond_the_last_share_its_entry(void **state)
{
    (void)state;
    begin();
    const int last = 63, others[] = {64, 1000, -1};
    for (unsigned i = 0; i < 3; i++) {
        zc_block_on_device(others[i], 10);
        assert_int_equal(zc_limits_used(ZC_PLACE_DEVICE, last), 10 * (i + 1));
    }
    zc_block_on_device(62, 7);
    assert_int_equal(zc_limits_used(ZC_PLACE_DEVICE, last), 30);
    assert_int_equal(zc_limits_used(ZC_PLACE_DEVICE, 62), 7);
}

/* Of device memory each has its own, of host memory there is one for all. */
static void a_budget_is_of_each_device_that_has_the_memory(void **state)
{
    static const struct {
        enum zc_place_id place;
        bool apart;
    } of[] = {{ZC_PLACE_VMM, true},      {ZC_PLACE_DEVICE, true},  {ZC_PLACE_MANAGED, true},
              {ZC_PLACE_SHARED, true},   {ZC_PLACE_MAPPED, false}, {ZC_PLACE_PINNED, false},
              {ZC_PLACE_PAGEABLE, false}};
    (void)state;
    begin();
    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct zc_rule_counters counters = {.alive = {0}};
        const struct zc_rule rule = {.budget = BYTES(100),
                                     .counters = &counters,
                                     .place = {.count = 1, .item = {of[i].place}}};
        assert_true(zc_budget_take(&rule, 0, 60));
        assert_int_equal(zc_budget_left(&rule, 1), of[i].apart ? 100 : 40);
        assert_int_equal(zc_budget_take(&rule, 1, 60), of[i].apart);
        assert_true(zc_budget_take(&rule, 15, 40));
        assert_int_equal(zc_budget_left(&rule, 63), of[i].apart ? 60 : 0);
        zc_budget_give(&rule, 63, 40);
        assert_int_equal(zc_budget_left(&rule, 15), of[i].apart ? 100 : 40);
        assert_int_equal(zc_budget_left(&rule, 0), 40);
    }
}

static void a_child_has_none_of_its_parents_blocks(void **state)
{
    (void)state;
    policy.max_pinned = BYTES(1000);
    policy.max_device = PERCENT(10);
    begin();
    for (int d = 0; d < 64; d += 63) {
        has_current = d;
        assert_true(takes(ZC_PLACE_MAPPED, d, 100) && takes(ZC_PLACE_MANAGED, d, 100));
        assert_true(takes(ZC_PLACE_VMM, d, 100) && zc_limits_whole(d));
    }
    assert_true(takes(ZC_PLACE_PINNED, -1, 100) && takes(ZC_PLACE_PINNED, ZC_LIMITS_ASKED, 100));
    assert_true(takes(ZC_PLACE_MAPPED, ZC_LIMITS_KEPT, 100));
    zc_module_limits.child();
    policy.max_pinned = BYTES(500);
    is_free = 2000;
    begin();
    const enum zc_place_id places[] = {ZC_PLACE_MAPPED, ZC_PLACE_MANAGED, ZC_PLACE_VMM,
                                       ZC_PLACE_PINNED};
    for (unsigned i = 0; i < 4; i++)
        for (int d = ZC_LIMITS_KEPT; d < 64; d++)
            assert_int_equal(zc_limits_used(places[i], d), 0);
    assert_int_equal(zc_limits_left(ZC_PLACE_PINNED, -1), 500);
    assert_int_equal(zc_limits_on_devices(), 0);
    for (int d = 0; d < 64; d += 63) {
        has_current = d;
        assert_int_equal(zc_limits_whole(d), 2000);
    }
}

/* A program may have closed its standard descriptors. */
static void lines_of_a_file_are_counted_and_no_descriptor_stays(void **state)
{
    char path[64], text[1500];
    int keeps = dup(0), fd = memfd_create("lines", 0);
    (void)state;
    memset(text, 'x', sizeof(text));
    for (unsigned i = 0; i < sizeof(text); i += 100)
        text[i] = '\n';
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    close(0);
    assert_int_equal(limits_count_lines(path), 0);
    assert_int_equal(write(fd, text, 1), 1);
    assert_int_equal(limits_count_lines(path), 1);
    assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
    assert_int_equal(limits_count_lines(path), 15);
    assert_int_equal(limits_count_lines("/none"), 0);
    assert_int_equal(fcntl(0, F_GETFD), -1);
    dup2(keeps, 0);
    close(keeps);
    close(fd);
}

static void a_limit_of_the_process_is_reached_where_less_than_the_bytes_is_left(void **state)
{
    uint64_t pages = 0;
    (void)state;
    assert_true(zc_file_number("/proc/self/statm", "", &pages));
    const size_t slack = (size_t)64 << 20;
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const struct rlimit near = {pages * 4096 + 8 * slack, RLIM_INFINITY};
    assert_false(limits_exceeds(&none, "", SIZE_MAX / 2));
    assert_false(limits_exceeds(&near, "", 7 * slack));
    assert_true(limits_exceeds(&near, "", 9 * slack));
    assert_false(limits_exceeds(&near, "no such field", 9 * slack));
    const struct rlimit low = {1, RLIM_INFINITY};
    assert_true(limits_exceeds(&low, "", 0));
    const int filtered[] = {EPERM, EACCES, ENOSYS};
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(strstr(zc_limits_reason(filtered[i], 0), "seccomp"));
    assert_string_equal(zc_limits_reason(EAGAIN, 0), "over RLIMIT_MEMLOCK");
    assert_string_equal(zc_limits_reason(ENOMEM, 0), "the kernel gives no memory");
    uint64_t most = zc_limits_maps(), real = 0;
    assert_true(zc_file_number("/proc/sys/vm/max_map_count", "", &real));
    assert_int_equal(most, real);
    uint64_t lines = limits_count_lines("/proc/self/maps");
    most_maps = lines + 100;
    assert_string_equal(zc_limits_reason(ENOMEM, 0), "the kernel gives no memory");
    most_maps = lines;
    assert_non_null(strstr(zc_limits_reason(ENOMEM, 0), "vm.max_map_count"));
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(max_pinned_bounds_mapped_and_pinned_together),
        TEST(asked_memory_is_bounded_by_a_given_limit_alone),
        TEST(a_limit_is_resolved_once_and_shared_by_the_ranks_of_the_host),
        TEST(managed_memory_fits_into_what_is_free),
        TEST(max_device_in_bytes_is_of_each_device),
        TEST(max_device_in_percent_is_of_each_device),
        TEST(room_is_reserved_for_the_next_block_of_the_thread),
        TEST(a_device_holds_what_fits_beside_all_that_was_asked_of_it),
        TEST(the_callers_own_request_counts_once),
        TEST(devices_beyond_the_last_share_its_entry),
        TEST(a_budget_is_of_each_device_that_has_the_memory),
        TEST(a_child_has_none_of_its_parents_blocks),
        TEST(lines_of_a_file_are_counted_and_no_descriptor_stays),
        TEST(a_limit_of_the_process_is_reached_where_less_than_the_bytes_is_left),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
