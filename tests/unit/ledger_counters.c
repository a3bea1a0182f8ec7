/* SPDX-License-Identifier: MIT */
/* The counters: the file's form, what survives SIGKILL, what happens where no file can be. */
#include "log_test.h"

#include "base/clock.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Maps a counters file as a reader does. */
static const struct zc_counters *map_file(const char *name)
{
    int fd = open(name, O_RDONLY);
    void *memory;

    assert_true(fd >= 0);
    memory = mmap(NULL, sizeof(struct zc_counters), PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    close(fd);
    return memory;
}

static void a_reader_finds_the_dimensions_in_the_header(void **state)
{
    const struct zc_counters *c;
    struct stat s;

    (void)state;
    assert_true(zc_counters_open("a.counters"));
    c = map_file("a.counters");
    assert_memory_equal(c->header.magic, ZC_COUNTERS_MAGIC, 8);
    assert_int_equal(c->header.schema, ZC_COUNTERS_SCHEMA);
    assert_int_equal(c->header.pid, getpid());
    assert_int_equal(c->header.bytes, sizeof(*c));
    assert_int_equal(c->header.slots, ZC_COUNTERS_SLOTS);
    assert_int_equal(c->header.sites, ZC_COUNTERS_SITES);
    assert_int_equal(c->header.cells, ZC_COUNTERS_CELLS);
    assert_int_equal(c->header.places, ZC_COUNTERS_PLACES);
    assert_int_equal(c->header.kinds, ZC_KIND_COUNT);
    assert_int_equal(c->header.dirs, ZC_DIR_COUNT);
    assert_int_equal(c->header.outcomes, ZC_OUTCOME_COUNT);
    assert_int_equal(c->header.frames, ZC_SITE_FRAMES);
    assert_int_equal(c->header.closed, 0);
    assert_string_equal(c->header.exe, program_invocation_short_name);
    assert_int_equal(stat("a.counters", &s), 0);
    assert_int_equal(s.st_size, sizeof(*c));
    assert_true((uint64_t)s.st_blocks * 512 >= sizeof(*c));
}

static void a_clean_exit_marks_and_removes_the_file(void **state)
{
    const struct zc_counters *c;

    (void)state;
    zc_counters_open("a.counters");
    c = map_file("a.counters");
    zc_counters_close();
    assert_int_equal(c->header.closed, 1);
    assert_false(exists("a.counters"));
    zc_counters()->next_site++;
}

/* Another file of that name, in the folder that the program went to. */
static void only_the_own_file_is_removed(void **state)
{
    (void)state;
    zc_counters_open("a.counters");
    assert_int_equal(mkdir("other", 0700), 0);
    assert_int_equal(chdir("other"), 0);
    close(open("a.counters", O_CREAT | O_WRONLY, 0600));
    zc_counters_close();
    assert_true(exists("a.counters"));
    assert_true(exists("../a.counters"));
}

static void count_until_killed(void)
{
    zc_counters_open("a.counters");
    for (;;)
        __atomic_fetch_add(&zc_counters()->slot[1].asked[3][ZC_MOVED].bytes, 1, __ATOMIC_RELAXED);
}

static void counts_survive_sigkill(void **state)
{
    const struct zc_counters *c;
    pid_t child = fork();

    (void)state;
    if (child == 0)
        count_until_killed();
    while (!exists("a.counters") || access("a.counters", R_OK) != 0)
        usleep(100);
    do {
        struct stat s;

        usleep(1000);
        assert_int_equal(stat("a.counters", &s), 0);
        c = s.st_size == sizeof(*c) ? map_file("a.counters") : NULL;
    } while (c == NULL || c->slot[1].asked[3][ZC_MOVED].bytes < 1000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(c->slot[1].asked[3][ZC_MOVED].bytes >= 1000);
    assert_int_equal(c->header.closed, 0);
    assert_int_equal(c->header.pid, child);
}

/* As a user who is not root, whom no mode stops. */
static void truncate_own(void)
{
    pid_t killed;
    int status;

    if (getuid() == 0 && (chmod(".", 0777) != 0 || setuid(65534) != 0))
        _exit(1);
    if ((killed = fork()) == 0) {
        zc_counters_open("a.counters");
        bool held =
            truncate("a.counters", 0) != 0 && errno == EACCES && open("a.counters", O_WRONLY) < 0;
        zc_counters()->next_site++;
        _exit(held ? 0 : 2);
    }
    waitpid(killed, &status, 0);
    if (status != 0 || !exists("a.counters"))
        _exit(3);
    /* The file that the other one left is taken over, and protected again. */
    zc_counters_open("a.counters");
    if (map_file("a.counters")->header.pid != (uint32_t)getpid() || truncate("a.counters", 0) == 0)
        _exit(4);
    _exit(0);
}

static void nobody_truncates_the_file_of_a_process(void **state)
{
    (void)state;
    assert_int_equal(in_child(truncate_own), 0);
}

static int open_files(void)
{
    int n = 0;
    DIR *own = opendir("/proc/self/fd");

    while (readdir(own) != NULL)
        n++;
    closedir(own);
    return n;
}

static void leave_counters(void)
{
    zc_counters_open("a.counters");
    _exit(0);
}

static void counters_that_a_killed_process_left_are_taken_over_and_no_file_stays_open(void **state)
{
    (void)state;
    assert_int_equal(in_child(leave_counters), 0);
    int before = open_files();
    zc_counters_open("a.counters");
    assert_int_equal(map_file("a.counters")->header.pid, getpid());
    assert_int_equal(open_files(), before);
    zc_counters_close();
}

/* The file gets descriptor 0.  Its bytes are in the file, and another process finds it in use. */
static void count_without_input(void)
{
    close(STDIN_FILENO);
    zc_counters_open("a.counters");
    zc_counters()->next_site = 7;
    if (fcntl(STDIN_FILENO, F_GETFD) != -1 || map_file("a.counters")->next_site != 7)
        _exit(1);
    if (fork() == 0)
        leave_counters();
    wait(NULL);
    _exit(map_file("a.counters")->header.pid == (uint32_t)getpid() ? 0 : 2);
}

static void a_process_without_standard_input_has_counters_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(in_child(count_without_input), 0);
}

static void an_existing_file_is_left_and_private_memory_counts(void **state)
{
    (void)state;
    assert_int_equal(symlink("victim", "a.counters"), 0);
    assert_true(zc_counters_open("a.counters"));
    assert_false(exists("victim"));
    zc_counters()->slot[0].ticks[0]++;
    zc_counters_close();
    assert_true(exists("a.counters"));
}

static void open_limited(void)
{
    struct rlimit limit = {4096, 4096};

    setrlimit(RLIMIT_FSIZE, &limit);
    if (!zc_counters_open("a.counters"))
        _exit(1);
    zc_counters()->cell[ZC_COUNTERS_CELLS - 1].ticks = 1;
    _exit(exists("a.counters") ? 2 : 0);
}

static void a_file_size_limit_leads_to_private_memory_without_a_signal(void **state)
{
    (void)state;
    assert_int_equal(in_child(open_limited), 0);
}

static void count_as_child(void)
{
    struct zc_counters *parents = zc_counters();

    zc_counters_reset();
    if (zc_counters() == parents || zc_counters()->next_site != 0)
        _exit(1);
    zc_counters()->next_site = 99;
    zc_counters_close();
    _exit(exists("a.counters") ? 0 : 2);
}

static void a_forked_child_counts_from_zero_and_leaves_the_parents_file(void **state)
{
    (void)state;
    zc_counters_open("a.counters");
    zc_counters()->next_site = 5;
    assert_int_equal(in_child(count_as_child), 0);
    assert_int_equal(map_file("a.counters")->next_site, 5);
    assert_int_equal(map_file("a.counters")->header.closed, 0);
}

static void the_file_tells_how_long_a_tick_is(void **state)
{
    (void)state;
    zc_clock_calibrate();
    assert_true(zc_clock_mult() > 0);
    assert_true(zc_counters_open("a.counters"));
    assert_int_equal(map_file("a.counters")->header.tick_mult, zc_clock_mult());
    zc_counters_reset();
}

static void calls_at_a_time_that_start_the_driver_count_once(void **state)
{
    uint64_t outer = zc_counters_begin_start(), inner = zc_counters_begin_start(), before;

    (void)state;
    assert_true(outer != 0);
    zc_counters_end_start(inner);
    assert_int_equal(zc_counters()->start_ticks, 0);
    usleep(1000);
    zc_counters_end_start(outer);
    before = zc_counters()->start_ticks;
    assert_true(before > 0);
    assert_true(zc_counters_open("a.counters")); /* cuInit is before it. */
    assert_int_equal(map_file("a.counters")->start_ticks, before);
    zc_counters_end_start(zc_counters_begin_start());
    assert_true(zc_counters()->start_ticks > before);
    zc_counters_reset();
    assert_int_equal(zc_counters()->start_ticks, 0);
}

static void start_as_child(void)
{
    uint64_t begun = zc_counters_begin_start();
    zc_counters_end_start(begun);
    _exit(begun && zc_counters_begin_start() ? 0 : 1);
}

static void a_child_counts_its_start_though_its_parent_was_in_cuInit(void **state)
{
    (void)state;
    uint64_t begun = zc_counters_begin_start();
    assert_true(begun != 0);
    assert_int_equal(in_child(start_as_child), 0);
    zc_counters_end_start(begun);
}

static bool keeps_sites(uint32_t sites)
{
    static char first[sizeof(zc_counters()->site[0])];
    size_t last = ZC_COUNTERS_SITES - 1;

    zc_counters_reset();
    memset(first, (int)sites + 1, sizeof(first));
    memcpy(&zc_counters()->site[0], first, sizeof(first));
    if (sites >= ZC_COUNTERS_SITES)
        memcpy(&zc_counters()->site[last], first, sizeof(first));
    zc_counters()->next_site = sites;
    zc_counters_open(NULL);
    return zc_counters()->next_site == sites &&
           memcmp(&zc_counters()->site[0], first, sizeof(first)) == 0 &&
           (sites < ZC_COUNTERS_SITES ||
            memcmp(&zc_counters()->site[last], first, sizeof(first)) == 0);
}

/* libc's requests have sites before the first CUDA call. */
static void sites_that_are_known_keep_their_numbers(void **state)
{
    (void)state;
    assert_true(keeps_sites(1));
    assert_true(keeps_sites(3));
    assert_true(keeps_sites(ZC_COUNTERS_SITES));
    assert_false(keeps_sites(ZC_COUNTERS_SITES + 1));
    assert_int_equal(zc_counters()->next_site, 0);
    zc_counters_reset();
}

static void the_lock_is_free_behind_an_open(void **state)
{
    (void)state;
    assert_true(zc_counters_open(NULL));
    assert_true(zc_counters_lock());
    zc_counters_unlock();
    assert_true(zc_counters_lock());
    zc_counters_unlock();
}

static void the_header_tells_the_time_of_its_start(void **state)
{
    uint64_t before = zc_wall_ns();

    (void)state;
    zc_counters_open(NULL);
    assert_in_range(zc_counters()->header.start_wall_ns, before, zc_wall_ns());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_reader_finds_the_dimensions_in_the_header),
        FOLDER_TEST(a_clean_exit_marks_and_removes_the_file),
        FOLDER_TEST(only_the_own_file_is_removed),
        FOLDER_TEST(counts_survive_sigkill),
        FOLDER_TEST(nobody_truncates_the_file_of_a_process),
        FOLDER_TEST(counters_that_a_killed_process_left_are_taken_over_and_no_file_stays_open),
        FOLDER_TEST(a_process_without_standard_input_has_counters_of_its_own),
        FOLDER_TEST(an_existing_file_is_left_and_private_memory_counts),
        FOLDER_TEST(a_file_size_limit_leads_to_private_memory_without_a_signal),
        FOLDER_TEST(a_forked_child_counts_from_zero_and_leaves_the_parents_file),
        FOLDER_TEST(calls_at_a_time_that_start_the_driver_count_once),
        FOLDER_TEST(the_file_tells_how_long_a_tick_is),
        FOLDER_TEST(sites_that_are_known_keep_their_numbers),
        FOLDER_TEST(the_lock_is_free_behind_an_open),
        FOLDER_TEST(the_header_tells_the_time_of_its_start),
        FOLDER_TEST(a_child_counts_its_start_though_its_parent_was_in_cuInit),
    };

    return RUN_TESTS(tests);
}
