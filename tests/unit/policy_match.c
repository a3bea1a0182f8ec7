/* SPDX-License-Identifier: MIT */
/*
 * Which rule takes a request: names of requests, each match key, order, ordinals, threads.
 */
#include <pthread.h>

#include "policy_test.h"

/* Whether the only rule of a policy with these lines takes the request. */
static bool takes(const char *lines, struct zc_match request)
{
    char text[512];

    snprintf(text, sizeof text, "[rule r]\n%s\n", lines);
    struct parsed *parsed = parse_good(text);
    assert_int_equal(parsed->policy.rule_count, 1);
    bool taken = zc_policy_match(&parsed->policy, &request) != NULL;
    parsed_free(parsed);
    return taken;
}

static bool takes_api(const char *names, enum zc_api api)
{
    char lines[256];
    struct zc_match request = some_request();
    bool host = (zc_api_places(api) & ZC_FIT(PINNED)) != 0;

    request.api = api;
    snprintf(lines, sizeof lines, "api = %s\nplace = %s", names, host ? "pinned" : "device");
    return takes(lines, request);
}

static void a_request_is_known_by_all_its_names(void **state)
{
    (void)state;
    static const struct {
        const char *names;
        enum zc_api api;
    } rows[] = {
        {"cudaMalloc", ZC_API_cuMemAlloc},
        {"cuMemAlloc", ZC_API_cuMemAlloc},
        {"cuMemAlloc_v2", ZC_API_cuMemAlloc},
        {"cudaMallocPitch", ZC_API_cuMemAllocPitch},
        {"cudaMalloc3D", ZC_API_cuMemAllocPitch},
        {"cudaMallocPitch_ptsz", ZC_API_cuMemAllocPitch},
        {"cudaMallocHost", ZC_API_cuMemHostAlloc},
        {"cudaHostAlloc", ZC_API_cuMemHostAlloc},
        {"cuMemAllocHost_v2", ZC_API_cuMemHostAlloc},
        {"cudaHostRegister", ZC_API_cuMemHostRegister},
        {"malloc", ZC_API_malloc},
        {"new", ZC_API_malloc},
        {"operator new", ZC_API_new},
        {"malloc", ZC_API_new},
        {"posix_memalign", ZC_API_posix_memalign},
        {"reallocarray", ZC_API_reallocarray},
        {"pvalloc", ZC_API_pvalloc},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_true(takes_api(rows[i].names, rows[i].api));
    assert_false(takes_api("cudaMalloc", ZC_API_cuMemAllocPitch));
    assert_false(takes_api("malloc", ZC_API_calloc));
    assert_false(takes_api("cudaMallocAsync", ZC_API_cuMemAlloc));
}

/* They stay where the program puts them, so no rule takes them. */
static void a_request_that_this_version_does_not_place_is_taken_by_no_rule(void **state)
{
    (void)state;
    assert_false(takes_api("cudaMallocAsync", ZC_API_cuMemAllocAsync));
    assert_false(takes_api("cudaMalloc*", ZC_API_cuMemAllocFromPoolAsync));
    assert_false(takes_api("cuMemCreate", ZC_API_cuMemCreate));
    assert_false(takes_api("cudaMalloc3DArray", ZC_API_cuArrayCreate));
}

static void request_globs_work_over_all_names(void **state)
{
    (void)state;
    assert_true(takes_api("cudaMalloc*", ZC_API_cuMemAlloc));
    assert_true(takes_api("*alloc, *align", ZC_API_memalign));
    assert_false(takes_api("cudaMalloc?*", ZC_API_cuMemAlloc));
}

/* cudaMalloc* names cudaMallocHost too, which can be given no device place. */
static void a_glob_leaves_out_what_its_places_do_not_fit(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    const char *lines = "api = cudaMalloc*\nplace = mapped";

    assert_true(takes(lines, request));
    request.api = ZC_API_cuMemHostAlloc;
    assert_false(takes(lines, request));
    request.api = ZC_API_cuArrayCreate;
    assert_false(takes(lines, request));
    request.api = ZC_API_cuMemAllocManaged;
    assert_false(takes(lines, request));
    request.api = ZC_API_cuMemAllocPitch;
    assert_true(takes(lines, request));
}

static void without_api_the_place_decides_between_device_and_host(void **state)
{
    (void)state;
    static const struct {
        const char *place;
        enum zc_api api;
        bool taken;
    } rows[] = {
        {"mapped", ZC_API_cuMemAlloc, true},
        {"mapped", ZC_API_cuMemAllocFromPoolAsync, false},
        {"mapped", ZC_API_malloc, false},
        {"mapped", ZC_API_cuMemAllocManaged, false},
        {"mapped", ZC_API_cuMemCreate, false},
        {"managed", ZC_API_cuMemAlloc, true},
        {"managed", ZC_API_malloc, false},
        {"shared", ZC_API_malloc, false},
        {"pinned", ZC_API_malloc, true},
        {"pinned", ZC_API_cuMemHostAlloc, true},
        {"pinned", ZC_API_cuMemHostRegister, false},
        {"pageable", ZC_API_malloc, true},
        {"pageable", ZC_API_cuMemHostAlloc, false},
        {"pinned", ZC_API_cuMemAlloc, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lines[64];
        struct zc_match request = some_request();

        request.api = rows[i].api;
        snprintf(lines, sizeof lines, "place = %s", rows[i].place);
        assert_int_equal(takes(lines, request), rows[i].taken);
    }
}

static void both_ends_of_a_size_range_belong_to_it(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    static const struct {
        size_t size;
        bool taken;
    } rows[] = {{4095, false},           {4096, true}, {8192, true}, {8193, false}, {1 << 20, true},
                {(size_t)1 << 40, true}, {100, true},  {101, false}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        request.size = rows[i].size;
        assert_int_equal(takes("place = vmm\nsize = 4K..8K, 1M.., 100", request), rows[i].taken);
    }
}

static void each_match_key_can_refuse(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool taken;
    } rows[] = {
        {"module = libfoo.so*", true},
        {"module = libbar.so*, libfoo.so.?", true},
        {"module = libfoo.so", false},
        {"exe = a[o-q]p", true},
        {"exe = a[!o-q]p", false},
        {"thread = w*r", true},
        {"thread = main", false},
        {"site = 3f9a1c22", true},
        {"site = 3f9a1c23, 1", false},
        {"device = 0", true},
        {"device = ..2147483647", true},
        {"site = 3f9a1c22, ffffffff", true},
        {"device = 1..", false},
        {"size = 1M", true},
        {"size = ..1023K", false},
        {"rank = 0, 2..3", true},
        {"rank = 0", false},
        {"local_rank = 1", true},
        {"local_rank = 0", false},
        {"host = node*", true},
        {"host = login*", false},
        {"grown = no", true},
        {"grown = yes", false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char lines[128];

        snprintf(lines, sizeof lines, "place = vmm\n%s", rows[i].line);
        assert_int_equal(takes(lines, some_request()), rows[i].taken);
    }
}

static void all_keys_of_a_rule_must_hold(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    const char *lines = "place = vmm\nsize = 1M..\nmodule = libfoo*\nexe = app\ndevice = 0";

    assert_true(takes(lines, request));
    request.size--;
    assert_false(takes(lines, request));
    request = some_request();
    request.exe = "app2";
    assert_false(takes(lines, request));
}

static void the_first_device_and_rank_are_numbered_0(void **state)
{
    (void)state;
    struct zc_match request = some_request();

    request.device = request.rank = request.local_rank = 0;
    assert_true(takes("place = vmm\ndevice = 0\nrank = 0\nlocal_rank = 0", request));
    assert_false(takes("place = vmm\nrank = 1..", request));
}

static void a_fact_that_is_not_known_fits_no_key(void **state)
{
    (void)state;
    struct zc_match request = some_request();

    request.module = request.exe = request.thread = NULL;
    request.device = -1;
    request.local_rank = -1;
    assert_false(takes("place = vmm\nlocal_rank = 0..", request));
    assert_false(takes("place = vmm\nmodule = *", request));
    assert_false(takes("place = vmm\nexe = *", request));
    assert_false(takes("place = vmm\nthread = *", request));
    assert_false(takes("place = vmm\ndevice = 0..", request));
    assert_true(takes("place = vmm", request));
}

static void a_rule_may_wait_until_an_array_has_grown(void **state)
{
    (void)state;
    struct zc_match request = some_request();

    request.grown = true;
    assert_true(takes("place = vmm\ngrown = yes", request));
    assert_true(takes("place = vmm\ngrown = no", request));
    assert_true(takes("place = vmm", request));
}

static void the_first_rule_that_fits_wins(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule big]\nsize = 1G..\nplace = vmm\n"
                                       "[rule mid]\nsize = 1M..\nplace = mapped\n"
                                       "[rule all]\nplace = device\n");
    struct zc_match request = some_request();

    assert_string_equal(zc_policy_match(&parsed->policy, &request)->name, "mid");
    request.size = (size_t)1 << 30;
    assert_string_equal(zc_policy_match(&parsed->policy, &request)->name, "big");
    request.size = 1;
    assert_string_equal(zc_policy_match(&parsed->policy, &request)->name, "all");
    request.api = ZC_API_malloc;
    assert_null(zc_policy_match(&parsed->policy, &request));
    request.api = ZC_API_COUNT;
    assert_null(zc_policy_match(&parsed->policy, &request));
    parsed_free(parsed);
}

static void nth_counts_the_requests_that_fit_the_other_keys(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule n]\nsize = 1M\nnth = 2..3, 5\nplace = vmm\n"
                                       "[rule rest]\nplace = device\n");
    struct zc_match fits = some_request(), other = some_request();
    static const bool taken[] = {false, true, true, false, true, false};

    other.size = 7;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_string_equal(zc_policy_match(&parsed->policy, &other)->name, "rest");
        assert_string_equal(zc_policy_match(&parsed->policy, &fits)->name, taken[i] ? "n" : "rest");
    }
    assert_int_equal(parsed->policy.rules[0].counters->fits, 6);
    parsed_free(parsed);
}

static void odd_and_even_share_the_requests(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule n]\nnth = even, 5\nplace = vmm\n"
                                       "[rule rest]\nnth = odd\nplace = device\n");
    struct zc_match request = some_request();
    /* Those that the first rule leaves are 1, 3, 7, 9: every other of them is the second's. */
    static const char *const rules[] = {"rest", "n", NULL, "n", "n", "n", "rest", "n", NULL};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct zc_rule *rule = zc_policy_match(&parsed->policy, &request);

        assert_int_equal(rule != NULL, rules[i] != NULL);
        if (rule != NULL)
            assert_string_equal(rule->name, rules[i]);
    }
    parsed_free(parsed);
}

static void nth_does_not_count_what_an_earlier_rule_takes(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule first]\nnth = 1\nplace = vmm\n"
                                       "[rule second]\nnth = 1\nplace = mapped\n");
    struct zc_match request = some_request();

    assert_string_equal(zc_policy_match(&parsed->policy, &request)->name, "first");
    assert_string_equal(zc_policy_match(&parsed->policy, &request)->name, "second");
    assert_null(zc_policy_match(&parsed->policy, &request));
    parsed_free(parsed);
}

enum { THREADS = 8, REQUESTS = 20000 };

static void *match_many(void *arg)
{
    const struct zc_policy *policy = arg;
    const struct zc_match request = some_request();
    uintptr_t taken = 0;

    for (unsigned i = 0; i < REQUESTS; i++)
        taken += zc_policy_match(policy, &request) != NULL;
    return (void *)taken;
}

static void nth_takes_exactly_its_requests_from_many_threads(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule n]\nnth = 11..1010\nplace = vmm\n");
    pthread_t thread[THREADS];
    uintptr_t taken = 0;

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, match_many, &parsed->policy), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;

        assert_int_equal(pthread_join(thread[i], &result), 0);
        taken += (uintptr_t)result;
    }
    assert_int_equal(taken, 1000);
    assert_int_equal(parsed->policy.rules[0].counters->fits, THREADS * REQUESTS);
    parsed_free(parsed);
}

static void a_policy_says_which_facts_it_needs(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        unsigned needs;
    } rows[] = {
        {"size = 1M", 0},
        {"module = a", ZC_NEED_MODULE},
        {"site = 1", ZC_NEED_SITE},
        {"exe = a", ZC_NEED_EXE},
        {"thread = a", ZC_NEED_THREAD},
        {"device = 1", ZC_NEED_DEVICE},
        {"rank = 1", ZC_NEED_JOB},
        {"local_rank = 0..3", ZC_NEED_JOB},
        {"host = node*", ZC_NEED_JOB},
        {"nth = 1", ZC_NEED_NTH},
        {"grown = yes", ZC_NEED_GROWN},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];

        snprintf(text, sizeof text,
                 "[rule r]\nplace = vmm\n%s\n[rule faulty]\nthread = b\nplace = vvm\n",
                 rows[i].line);
        struct parsed *parsed = parse_text(text);
        assert_int_equal(parsed->policy.needs, rows[i].needs);
        parsed_free(parsed);
    }
}

static void a_policy_says_which_requests_it_can_take(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule a]\napi = cudaMallocPitch\nplace = vmm\n"
                                       "[rule b]\napi = malloc\nplace = pinned\n");

    assert_true(parsed->policy.apis == (UINT64_C(1) << ZC_API_cuMemAllocPitch |
                                        UINT64_C(1) << ZC_API_malloc | UINT64_C(1) << ZC_API_new));
    parsed_free(parsed);
}

static void names_lead_back_to_requests(void **state)
{
    (void)state;
    enum zc_api api = ZC_API_COUNT;

    assert_true(zc_api_from_name("cudaMalloc3D", &api));
    assert_int_equal(api, ZC_API_cuMemAllocPitch);
    assert_true(zc_api_from_name("cuMemAllocAsync_ptsz", &api));
    assert_int_equal(api, ZC_API_cuMemAllocAsync);
    assert_true(zc_api_from_name("new", &api));
    assert_int_equal(api, ZC_API_malloc);
    assert_false(zc_api_from_name("cudaMemcpy", &api));
    assert_false(zc_api_from_name("cudaMalloc*", &api));
    assert_false(zc_api_from_name("", &api));
    assert_string_equal(zc_api_name(ZC_API_cuMemAlloc), "cuMemAlloc");
    assert_string_equal(zc_api_name(ZC_API_COUNT), "?");
    assert_string_equal(zc_api_names(ZC_API_cuMemAlloc)[1], "cudaMalloc");
    assert_null(zc_api_names(ZC_API_COUNT)[0]);
    assert_int_equal(zc_api_places(ZC_API_COUNT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_known_by_all_its_names),
        cmocka_unit_test(a_request_that_this_version_does_not_place_is_taken_by_no_rule),
        cmocka_unit_test(request_globs_work_over_all_names),
        cmocka_unit_test(a_glob_leaves_out_what_its_places_do_not_fit),
        cmocka_unit_test(without_api_the_place_decides_between_device_and_host),
        cmocka_unit_test(both_ends_of_a_size_range_belong_to_it),
        cmocka_unit_test(each_match_key_can_refuse),
        cmocka_unit_test(all_keys_of_a_rule_must_hold),
        cmocka_unit_test(the_first_device_and_rank_are_numbered_0),
        cmocka_unit_test(a_fact_that_is_not_known_fits_no_key),
        cmocka_unit_test(a_rule_may_wait_until_an_array_has_grown),
        cmocka_unit_test(the_first_rule_that_fits_wins),
        cmocka_unit_test(nth_counts_the_requests_that_fit_the_other_keys),
        cmocka_unit_test(odd_and_even_share_the_requests),
        cmocka_unit_test(nth_does_not_count_what_an_earlier_rule_takes),
        cmocka_unit_test(nth_takes_exactly_its_requests_from_many_threads),
        cmocka_unit_test(a_policy_says_which_facts_it_needs),
        cmocka_unit_test(a_policy_says_which_requests_it_can_take),
        cmocka_unit_test(names_lead_back_to_requests),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
