/* SPDX-License-Identifier: MIT */
/* The log's lines: their fields, their form, and that a long one is cut and stays JSON. */
#include "log_test.h"

#include <dlfcn.h>
#include <limits.h>

#include "base/arena.h"
#include "base/job.h"
#include "base/path.h"
#include "ledger/block.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "policy/policy.h"

static struct zc_log_meta meta;

static int open_log(void **state)
{
    int result = new_folder(state);

    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    return result;
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, open_log, remove_folder)

/* The log's text, which is `wanted` lines of JSON. */
static const char *log_text(int wanted)
{
    const char *text = text_of("a.jsonl");

    assert_int_equal(json_lines(text), wanted);
    return text;
}

static void meta_tells_the_run(void **state)
{
    struct zc_log_meta full = {.policy_file = "a \"b\".conf",
                               .policy_hash = 0xabc,
                               .gpu = "GPU 1",
                               .driver = 13000,
                               .devices = 2};
    char wanted[128];
    const char *text;

    (void)state;
    zc_log_meta(&full);
    text = log_text(1);
    assert_true(strncmp(text, "{\"type\":\"meta\",\"time_ns\":", 25) == 0);
    assert_holds(text, "\"schema\":1,\"libzc\":\"");
    snprintf(wanted, sizeof(wanted), "\"host\":\"%s\",", zc_log_host());
    assert_holds(text, wanted);
    snprintf(wanted, sizeof(wanted), "\"pid\":%d,\"ppid\":%d,\"run\":null,", (int)getpid(),
             (int)getppid());
    assert_holds(text, wanted);
    snprintf(wanted, sizeof(wanted), "\"exe\":\"%s\",\"rank\":0,", program_invocation_short_name);
    assert_holds(text, wanted);
    assert_holds(text, "\"driver\":13000,\"gpu\":\"GPU 1\",\"devices\":2,\"gpus\":["
                       "{\"pci\":null,\"uuid\":null},{\"pci\":null,\"uuid\":null}],"
                       "\"policy\":{\"file\":\"a \\\"b\\\".conf\",\"hash\":\"0000000000000abc\"},"
                       "\"exe_path\":\"/");
    assert_holds(text, "/log_lines\",\"argv\":[\"");
}

static void a_gpu_has_its_uuid_as_nvidia_smi_prints_it(void **state)
{
    struct zc_log_meta one = {.devices = 1, .gpus = {{.known = true, .pci = "0000:01:00.0"}}};

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        one.gpus[0].uuid[i] = (unsigned char)(0x10 + i);
    zc_log_meta(&one);
    assert_holds(log_text(1), "\"gpus\":[{\"pci\":\"0000:01:00.0\","
                              "\"uuid\":\"GPU-10111213-1415-1617-1819-1a1b1c1d1e1f\"}]");
}

static void a_gpu_beyond_the_last_that_is_listed_is_counted(void **state)
{
    struct zc_log_meta many = {.devices = ZC_LOG_GPUS + 1};
    const char *text;
    int listed = 0;

    (void)state;
    zc_log_meta(&many);
    text = log_text(1);
    assert_holds(text, "\"devices\":17,");
    for (const char *p = text; (p = strstr(p, "{\"pci\":")) != NULL; p++)
        listed++;
    assert_int_equal(listed, ZC_LOG_GPUS);
}

static void the_first_rank_of_a_host_has_its_number(void **state)
{
    (void)state;
    setenv("SLURM_PROCID", "4", 1);
    setenv("SLURM_LOCALID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    setenv("SLURM_JOB_ID", "77", 1);
    zc_job_read();
    zc_log_meta(&meta);
    unsetenv("SLURM_PROCID");
    zc_job_read();
    assert_holds(log_text(1), "\"rank\":4,\"rank_source\":\"slurm\",\"local_rank\":0,\"world\":8,");
}

static void unknown_facts_are_null(void **state)
{
    struct zc_log_meta unknown = {.devices = -1};

    (void)state;
    zc_log_meta(&unknown);
    assert_holds(log_text(1),
                 "\"driver\":null,\"gpu\":null,\"devices\":null,\"gpus\":[],\"policy\":null,");
}

static void a_driver_without_devices_has_none(void **state)
{
    (void)state;
    zc_log_meta(&meta);
    assert_holds(log_text(1), "\"devices\":0,\"gpus\":[],");
}

static void messages_said_before_the_log_follow_its_first_line(void **state)
{
    const char *text;

    (void)state;
    zc_message(ZC_WARN, "policy", "unknown key '%s'", "x\"y");
    zc_log_meta(&meta);
    zc_message(ZC_ERROR, "later", "after");
    text = log_text(3);
    assert_holds(text, "\"severity\":\"warning\",\"code\":\"policy\","
                       "\"text\":\"unknown key 'x\\\"y'\"}\n");
    assert_holds(text, "\"severity\":\"error\",\"code\":\"later\",\"text\":\"after\"}\n");
}

static struct zc_cell cells[2] = {
    {.block = 9, .dir = ZC_DIR_HTOD, .by = {{3, 300}, {2, 20}, {1, 1}}},
    {.block = 9, .dir = ZC_DIR_MEMSET, .by = {{1, 7}, {0, 0}, {0, 0}}},
};

static struct zc_block block = {
    .base = 0x7f0000001000,
    .size = 4096,
    .id = 9,
    .cell = {&cells[0], NULL, &cells[1]},
    .flags = ZC_BLOCK_CONVERTED,
    .device = 1,
    .api = ZC_API_cuMemAllocAsync,
    .place = ZC_PLACE_MAPPED,
    .asked = ZC_KIND_DEVICE,
    .real = ZC_KIND_PINNED,
};

static const struct zc_log_request no_rule = {.stream = ZC_STREAM_NONE};

static void an_allocation_tells_request_place_and_rule(void **state)
{
    const char *text;

    (void)state;
    zc_log_alloc(&block, &(struct zc_log_request){.stream = ZC_STREAM_PER_THREAD,
                                                  .thread = "loader \"1\"",
                                                  .rule = "tables",
                                                  .line = 12,
                                                  .why = "vmm: no room",
                                                  .range = "load"});
    text = log_text(1);
    assert_holds(text, "{\"type\":\"alloc\",");
    assert_holds(text, "\"block\":9,\"site\":\"");
    assert_holds(text, "\"api\":\"cuMemAllocAsync\",\"size_bytes\":4096,\"place\":\"mapped\","
                       "\"address\":\"0x7f0000001000\",\"device\":1,\"asked_kind\":\"Device\","
                       "\"real_kind\":\"Pinned\",\"converted\":true,\"stream_ordered\":false,"
                       "\"foreign\":false,\"stream_kind\":\"per-thread\","
                       "\"thread_name\":\"loader \\\"1\\\"\",\"rule\":\"tables\",\"line\":12,"
                       "\"why\":\"vmm: no room\",\"range\":\"load\"}\n");
}

static void an_allocation_without_rule_has_null_fields(void **state)
{
    (void)state;
    zc_log_alloc(&block, &no_rule);
    assert_holds(log_text(1), "\"stream_kind\":\"none\",\"thread_name\":null,\"rule\":null,"
                              "\"line\":null,\"why\":null,\"range\":null}\n");
}

#define TRAFFIC                                                                                    \
    "\"traffic\":[{\"dir\":\"HtoD\",\"asked_calls\":6,\"asked_bytes\":321,\"moved_calls\":3,"      \
    "\"moved_bytes\":300,\"cpu_copied_calls\":2,\"cpu_copied_bytes\":20,\"elided_calls\":1,"       \
    "\"elided_bytes\":1,\"blocked_ns\":0},{\"dir\":\"Memset\",\"asked_calls\":1,"                  \
    "\"asked_bytes\":7,\"moved_calls\":1,\"moved_bytes\":7,\"cpu_copied_calls\":0,"                \
    "\"cpu_copied_bytes\":0,\"elided_calls\":0,\"elided_bytes\":0,\"blocked_ns\":0}]}\n"

static void a_free_carries_the_blocks_traffic_by_direction(void **state)
{
    (void)state;
    zc_log_block(&block, false);
    zc_log_block(&block, true);
    assert_holds(log_text(2), TRAFFIC);
    assert_holds(log_text(2), "\"device\":1,\"live\":true," TRAFFIC);
}

static void a_transfer_tells_both_sides_as_asked_and_as_they_are(void **state)
{
    struct zc_transfer t = {
        .asked = zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE),
        .real = zc_flow(ZC_DIR_HTOH, ZC_KIND_PAGEABLE, ZC_KIND_PINNED),
        .outcome = ZC_CPU,
        .bytes = 77,
        .copies = 1,
        .dst = &block,
        .src_source = ZC_SOURCE_SHM,
    };
    struct zc_log_call call = {.src = 0x7f00, .stream = ZC_STREAM_NONE};

    (void)state;
    call.function = "cuMemcpyHtoD_v2";
    zc_log_transfer(&t, &call);
    assert_holds(log_text(1), "\"function\":\"cuMemcpyHtoD_v2\",\"dir\":\"HtoD\","
                              "\"src_kind\":\"Pageable\",\"dst_kind\":\"Device\","
                              "\"real_dir\":\"HtoH\",\"real_src_kind\":\"Pageable\","
                              "\"real_dst_kind\":\"Pinned\",\"bytes\":77,"
                              "\"outcome\":\"cpu_copied\",\"driver_copies\":0,\"blocked_ns\":0,"
                              "\"src_block\":null,\"dst_block\":9,\"src_address\":\"0x7f00\","
                              "\"dst_address\":null,\"src_memory\":\"shm\","
                              "\"dst_memory\":null,\"stream\":\"none\",\"thread\":");
    t.outcome = ZC_MOVED;
    t.copies = 32;
    zc_log_transfer(&t, &call);
    assert_holds(log_text(2), "\"bytes\":77,\"outcome\":\"moved\",\"driver_copies\":32,");
}

static void a_transfer_names_its_stream_as_policies_do_and_its_handle(void **state)
{
    struct zc_transfer t = {.bytes = 1};
    struct zc_log_call call = {.function = "f", .stream = ZC_STREAM_PER_THREAD, .handle = 2};
    char wanted[80];

    (void)state;
    zc_log_transfer(&t, &call);
    snprintf(wanted, sizeof(wanted),
             "\"stream\":\"per-thread\",\"thread\":%d,\"call_site\":null,\"range\":null}\n",
             (int)gettid());
    assert_holds(log_text(1), wanted);
    call.stream = ZC_STREAM_CREATED;
    call.handle = 0x5678;
    zc_log_transfer(&t, &call);
    assert_holds(log_text(2), "\"stream\":\"0x5678\",\"thread\":");
}

static void every_flow_has_its_own_names(void **state)
{
    (void)state;
    for (int dir = 0; dir < ZC_DIR_COUNT; dir++) {
        for (int src = 0; src < ZC_KIND_COUNT; src++) {
            for (int dst = 0; dst < ZC_KIND_COUNT; dst++) {
                unsigned flow = zc_flow((enum zc_dir)dir, (enum zc_kind)src, (enum zc_kind)dst);

                assert_int_equal(zc_flow_dir(flow), dir);
                assert_int_equal(zc_flow_src(flow), src);
                assert_int_equal(zc_flow_dst(flow), dst);
            }
        }
    }
}

static void a_site_tells_its_frames(void **state)
{
    struct zc_site *site = &zc_counters()->site[0];

    (void)state;
    site->id = 0xbeef;
    site->nframes = 2;
    strcpy(site->frame[0].module, "vecadd");
    site->frame[0].offset = 0x1f2a;
    strcpy(site->frame[1].module, "libc.so.6");
    zc_log_site(0);
    assert_holds(log_text(3), "\"site\":\"0000beef\",\"frames\":[\"vecadd+0x1f2a\","
                              "\"libc.so.6+0x0\"]}\n");
}

static void the_files_of_frames_are_told_once(void **state)
{
    struct zc_site *site = &zc_counters()->site[0];
    char self[PATH_MAX], wanted[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)state;
    assert_true(n > 0);
    self[n] = 0;
    site->nframes = 3;
    snprintf(site->frame[0].module, ZC_SITE_MODULE, "%s", strrchr(self, '/') + 1);
    strcpy(site->frame[1].module, "libc.so.6");
    strcpy(site->frame[2].module, "not-loaded.so");
    zc_log_site(0);
    zc_log_site(0);
    snprintf(wanted, sizeof(wanted), "\"path\":\"%s\"}\n", self);
    assert_holds(log_text(5), wanted);
    assert_holds(log_text(5), "\"module\":\"libc.so.6\",\"build_id\":\"");
    assert_holds(log_text(5), "/libc.so.6\"}\n");
    assert_holds(log_text(5), "\"module\":\"not-loaded.so\",\"build_id\":null,\"path\":null}\n");
}

/* As many as are told apart, and more. */
static void files_of_frames_beyond_those_that_are_told_apart_are_not_told(void **state)
{
    struct zc_site *site = &zc_counters()->site[0];
    const char *text;
    int told = 0;

    (void)state;
    site->nframes = 1;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 300; i++) {
            snprintf(site->frame[0].module, ZC_SITE_MODULE, "module-%d.so", i);
            zc_log_site(0);
        }
    }
    text = text_of("a.jsonl");
    for (const char *p = text; (p = strstr(p, "{\"type\":\"module\",")) != NULL; p++)
        told++;
    assert_int_equal(told, 256);
}

/* Frames hold the first 39 bytes of a name: here all but the last of them are the same. */
static void long_names_are_told_apart_by_all_that_frames_hold(void **state)
{
    static const char *const names[] = {"./the-library-whose-name-is-39-bytes.so.1",
                                        "./the-library-whose-name-is-39-bytes.so.2"};
    struct zc_site *site = &zc_counters()->site[0];
    char here[PATH_MAX], command[PATH_MAX], wanted[PATH_MAX];

    (void)state;
    assert_non_null(getcwd(here, sizeof(here)));
    site->nframes = 2;
    for (int i = 0; i < 2; i++) {
        Dl_info info;

        assert_int_not_equal(dladdr((void *)(uintptr_t)cmocka_set_message_output, &info), 0);
        snprintf(command, sizeof(command), "cp %s %s", info.dli_fname, names[i]);
        assert_int_equal(system(command), 0);
        assert_non_null(dlopen(names[i], RTLD_NOW | RTLD_LOCAL));
        assert_int_equal(strlen(names[i] + 2), ZC_SITE_MODULE - 1);
        strcpy(site->frame[i].module, names[i] + 2);
    }
    zc_log_site(0);
    for (int i = 0; i < 2; i++) {
        snprintf(wanted, sizeof(wanted), "\"path\":\"%s\"}\n", names[i]);
        assert_holds(log_text(3), wanted);
    }
}

static void the_counters_lie_beside_the_log_under_its_name(void **state)
{
    (void)state;
    assert_true(exists("a.jsonl") && exists("a.counters"));
    zc_log_reset();
    zc_log_open("b.txt", ZC_LOG_SUMMARY);
    assert_true(exists("b.txt") && exists("b.txt.counters"));
}

static void levels_leave_lines_out(void **state)
{
    struct zc_transfer t = {.bytes = 1};
    struct zc_log_call call = {.function = "f"};

    (void)state;
    zc_log_reset();
    zc_log_open("b.jsonl", ZC_LOG_ALLOCS);
    zc_log_transfer(&t, &call);
    assert_int_equal(json_lines(text_of("b.jsonl")), 0);
    zc_log_alloc(&block, &no_rule);
    assert_int_equal(json_lines(text_of("b.jsonl")), 1);
    zc_log_reset();
    zc_log_open("c.jsonl", ZC_LOG_SUMMARY);
    zc_log_alloc(&block, &no_rule);
    zc_log_block(&block, false);
    assert_int_equal(json_lines(text_of("c.jsonl")), 0);
}

/* The rule's name takes every length around what a line holds. */
static void a_line_that_is_too_long_is_cut_and_says_so(void **state)
{
    char name[5000], line[ZC_LINE_MAX + 1];
    int lines = 0;

    (void)state;
    for (size_t n = 3500; n < 4300; n++) {
        memset(name, n % 2 ? '"' : 'x', n);
        name[n] = 0;
        zc_log_alloc(&block, &(struct zc_log_request){.rule = name, .line = 1, .why = "why"});
        lines++;
    }
    for (const char *p = log_text(lines); *p != 0; p += strlen(line)) {
        size_t length = strcspn(p, "\n") + 1;

        assert_true(length <= ZC_LINE_MAX);
        memcpy(line, p, length);
        line[length] = 0;
        if (length < 3600 || strstr(line, "\"truncated\"") == NULL)
            assert_holds(line, "\"why\":\"why\",\"range\":null}\n");
        else
            assert_holds(line, ",\"truncated\":true}\n");
    }
}

static void nested_fields_that_do_not_fit_leave_valid_json(void **state)
{
    char text[600], buf[700];

    (void)state;
    for (size_t cap = 256; cap < 700; cap++) {
        struct zc_line line;

        memset(buf, 0x7e, sizeof(buf));
        zc_line_begin(&line, buf, cap, "test");
        for (int i = 0; i < 4; i++) {
            ZC_LINE_OPEN(&line, "outer", '[');
            ZC_LINE_OPEN(&line, NULL, '{');
            zc_line_u64(&line, "number", UINT64_MAX);
            zc_line_str(&line, "text", "\xe2\x82\xac\n");
            zc_line_bool(&line, "flag", false);
        }
        zc_line_end(&line);
        assert_true(line.text.len <= cap);
        if (cap < sizeof(buf))
            assert_int_equal(buf[cap], 0x7e);
        memcpy(text, buf, line.text.len < sizeof(text) - 1 ? line.text.len : sizeof(text) - 1);
        text[line.text.len < sizeof(text) - 1 ? line.text.len : sizeof(text) - 1] = 0;
        assert_int_equal(json_lines(text), 1);
    }
}

static void a_move_tells_where_to_and_why(void **state)
{
    (void)state;
    memset(&zc_log_moves, 0, sizeof(zc_log_moves));
    zc_log_move(&block, true, 4000, "a larger one came", 0, 0, false);
    zc_log_move(&block, false, 4096, "kernels use it", 0, 0, true);
    assert_holds(log_text(2), "\"block\":9,\"to\":\"host\",\"bytes\":4000,\"blocked_ns\":0,"
                              "\"waited_ns\":0,\"hidden\":false,\"why\":\"a larger one came\"}\n");
    assert_holds(log_text(2), "\"to\":\"device\",\"bytes\":4096,\"blocked_ns\":0,"
                              "\"waited_ns\":0,\"hidden\":true,\"why\":\"kernels use it\"}\n");
    zc_log_move(&block, false, 4096, NULL, 3, 50, false);
    zc_log_move(&block, false, 4096, NULL, 4, 60, true);
    assert_int_equal(zc_log_moves.to_host, 4000);
    assert_int_equal(zc_log_moves.to_device, 3 * 4096);
    assert_int_equal(zc_log_moves.hidden, 2 * 4096);
    assert_int_equal(zc_log_moves.blocked, 7);
    assert_int_equal(zc_log_moves.waited, 110);
    memset(&zc_log_moves, 0, sizeof(zc_log_moves));
}

static void of_requests_without_room_the_largest_are_kept(void **state)
{
    (void)state;
    memset(&zc_log_unmet, 0, sizeof(zc_log_unmet));
    zc_log_count_unmet(100, 70);
    zc_log_count_unmet(80, 90); /* In pieces. */
    assert_int_equal(zc_log_unmet.lacking_bytes, 30);
    zc_log_count_unmet(60, 20);
    assert_int_equal(zc_log_unmet.requests, 3);
    assert_int_equal(zc_log_unmet.largest_bytes, 100);
    assert_int_equal(zc_log_unmet.lacking_bytes, 40);
    memset(&zc_log_unmet, 0, sizeof(zc_log_unmet));
}

static void a_block_in_host_memory_says_so(void **state)
{
    struct zc_block spilled = block;
    (void)state;
    zc_log_alloc(&spilled, &no_rule);
    assert_holds(log_text(1), "\"block\":9,\"site\":\"00000000\",\"api\":");
    assert_null(strstr(log_text(1), "spilled"));
    spilled.flags |= ZC_BLOCK_SPILLED;
    zc_log_alloc(&spilled, &no_rule);
    assert_holds(log_text(2), "\"device\":1,\"spilled_bytes\":4096,\"asked_kind\"");
}

static void a_pair_tells_both_blocks_and_what_lies_behind_them(void **state)
{
    const struct zc_pair_counts counts = {
        .elided_copies = 3, .elided_bytes = 40, .copied_bytes = 5};
    struct zc_pair_names names = {
        .device_block = 9, .host_block = 8, .device_site = 0xab, .host_site = 0xcd, .bytes = 64};
    (void)state;
    zc_log_pair(&names, true, &counts);
    assert_holds(log_text(1), "\"device_block\":9,\"host_block\":8,\"device_site\":\"000000ab\","
                              "\"host_site\":\"000000cd\",\"why\":null,\"size_bytes\":64,"
                              "\"backing\":\"one\",\"elided_copies\":3,\"elided_bytes\":40,"
                              "\"copied_bytes\":5}\n");
    names.why = "no room";
    zc_log_pair(&names, false, &counts);
    assert_holds(log_text(2), "\"why\":\"no room\",\"size_bytes\":64,\"backing\":\"own\",");
}

static void a_transfer_names_its_links_and_the_line_that_asked_for_it(void **state)
{
    const struct zc_frame frame = {.module = "app", .offset = 5};
    struct zc_transfer t = {.outcome = ZC_MOVED, .links = 1};
    const struct zc_log_call call = {.function = "cuMemcpy"};
    char wanted[64];
    (void)state;
    zc_log_transfer(&t, &call);
    assert_null(strstr(log_text(1), "\"links\""));
    assert_holds(log_text(1), "\"call_site\":null,");
    t.links = 2;
    t.call = (uint16_t)zc_site_intern(&frame, 1, NULL);
    assert_int_equal(t.call, 1);
    zc_log_transfer(&t, &call);
    zc_log_transfer(&t, &call); /* Its site has been told. */
    snprintf(wanted, sizeof(wanted), "\"call_site\":\"%08x\",", zc_site_id(t.call));
    assert_holds(log_text(5), wanted);
    assert_holds(log_text(5), "\"links\":2,");
    assert_holds(log_text(5), "\"frames\":[\"app+0x5\"]}\n");
}

static void a_site_tells_the_functions_of_its_interpreter(void **state)
{
    const struct zc_frame frame = {.module = "python", .offset = 5};
    struct zc_python_path *path = zc_arena_get(sizeof(*path));
    char wanted[300];
    (void)state;
    *path = (struct zc_python_path){.before = 1, .n = 2};
    path->frame[0] = (struct zc_python_frame){7, "load", "/a.py"};
    path->frame[1] = (struct zc_python_frame){0, "main", "/b.py"};
    path->frame[2] = (struct zc_python_frame){1, "left over", "/c.py"};
    uint32_t site = zc_site_intern(&frame, 1, path);
    zc_log_site(site);
    snprintf(wanted, sizeof(wanted),
             "\"frames\":[\"python+0x5\"],\"native\":\"%08x\",\"before_python\":1,"
             "\"python\":[{\"function\":\"load\",\"file\":\"/a.py\",\"line\":7},"
             "{\"function\":\"main\",\"file\":\"/b.py\",\"line\":null}]}\n",
             zc_site_native(site));
    assert_holds(log_text(2), wanted);
}

static void a_message_is_told_to_be_in_the_log_where_there_is_one(void **state)
{
    (void)state;
    assert_true(zc_log_warn(ZC_WARN, "code", "text"));
    log_text(1);
    zc_log_reset();
    assert_false(zc_log_warn(ZC_WARN, "code", "text"));
    log_text(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(meta_tells_the_run),
        LOG_TEST(unknown_facts_are_null),
        LOG_TEST(a_gpu_has_its_uuid_as_nvidia_smi_prints_it),
        LOG_TEST(a_gpu_beyond_the_last_that_is_listed_is_counted),
        LOG_TEST(the_first_rank_of_a_host_has_its_number),
        LOG_TEST(a_driver_without_devices_has_none),
        LOG_TEST(messages_said_before_the_log_follow_its_first_line),
        LOG_TEST(an_allocation_tells_request_place_and_rule),
        LOG_TEST(an_allocation_without_rule_has_null_fields),
        LOG_TEST(a_free_carries_the_blocks_traffic_by_direction),
        LOG_TEST(a_transfer_tells_both_sides_as_asked_and_as_they_are),
        LOG_TEST(every_flow_has_its_own_names),
        LOG_TEST(a_transfer_names_its_stream_as_policies_do_and_its_handle),
        LOG_TEST(a_site_tells_its_frames),
        LOG_TEST(the_files_of_frames_are_told_once),
        LOG_TEST(files_of_frames_beyond_those_that_are_told_apart_are_not_told),
        LOG_TEST(long_names_are_told_apart_by_all_that_frames_hold),
        LOG_TEST(the_counters_lie_beside_the_log_under_its_name),
        LOG_TEST(levels_leave_lines_out),
        LOG_TEST(a_line_that_is_too_long_is_cut_and_says_so),
        LOG_TEST(nested_fields_that_do_not_fit_leave_valid_json),
        LOG_TEST(a_move_tells_where_to_and_why),
        LOG_TEST(of_requests_without_room_the_largest_are_kept),
        LOG_TEST(a_block_in_host_memory_says_so),
        LOG_TEST(a_pair_tells_both_blocks_and_what_lies_behind_them),
        LOG_TEST(a_transfer_names_its_links_and_the_line_that_asked_for_it),
        LOG_TEST(a_site_tells_the_functions_of_its_interpreter),
        LOG_TEST(a_message_is_told_to_be_in_the_log_where_there_is_one),
    };

    return RUN_TESTS(tests);
}
