/* SPDX-License-Identifier: MIT */
/* Whether devices that reach pageable memory are known to keep pairs exact, by the file that
 * `zc doctor --measure` writes. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "child_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/message.h"
#include "memory/device.h"
#include "real_test.h"
#include "shared/reach.h"

static char folder[4000];

/* Devices, the file's owner, and what was said. */
static struct {
    int devices;
    uint64_t hmm, ats; /* A bit for each device. */
    uid_t user, owner;
    int version;
    unsigned asked, puts, told;
    char why[512];
    bool said, kept_back, unmapped;
    void *moved;
} has;

static CUresult get_count(int *count)
{
    *count = has.devices;
    return CUDA_SUCCESS;
}

static CUresult get_name(char *name, int room, CUdevice device)
{
    snprintf(name, (size_t)room, "GPU %d", device);
    return CUDA_SUCCESS;
}

static CUresult get_version(int *version)
{
    *version = has.version;
    return CUDA_SUCCESS;
}

static bool fake_has(int device, CUdevice_attribute attribute)
{
    has.asked++;
    assert_in_range(device, 0, 63);
    return (attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ? has.hmm : has.ats) >> device &
           1;
}

static int fake_stat(int fd, struct stat *s)
{
    int result = fstat(fd, s);
    s->st_uid = has.owner;
    return result;
}

static void fake_put(void *memory, size_t bytes)
{
    has.puts += memory != NULL;
    zc_arena_put(memory, bytes);
}

static void fake_message(enum zc_severity severity, const char *code, const char *text,
                         const char *path, const char *why)
{
    assert_true(severity == ZC_NOTE && text);
    assert_string_equal(code, "reach");
    snprintf(has.why, sizeof(has.why), "%s %s", path + strlen(path) - strlen("views.tsv"), why);
    has.told++;
}

static int fake_protect(void *at, size_t n, int rights)
{
    return has.kept_back ? -1 : mprotect(at, n, rights);
}

static int fake_unmap(void *at, size_t n)
{
    has.unmapped = at == has.moved;
    return munmap(at, n);
}

static void *fake_move(void *at, size_t n, size_t now, int flags, void *to)
{
    return has.moved = zc_memory_move(at, n, now, flags, to);
}

#define fstat fake_stat
#define geteuid() has.user
#define zc_device_has fake_has
#define zc_arena_put fake_put
#define zc_message_first(code) (!has.said)
#define zc_message fake_message
#define zc_memory_protect fake_protect
#define zc_memory_unmap fake_unmap
#define zc_memory_move fake_move
#include "../../shim/shared/reach.c"
#undef fstat

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.devices = 1;
    has.hmm = 1;
    has.version = 13000;
    has.user = has.owner = 4711;
    real_without_driver();
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuDeviceGetName = get_name;
    zc_real.cuDriverGetVersion = get_version;
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("HOME", folder, 1);
    return 0;
}

/* A path in the folder of this test. */
static const char *in(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int begin(void **state)
{
    const char *tmp = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof(folder), "%s/reach.XXXXXX", tmp ? tmp : "/tmp");
    return !mkdtemp(folder) || mkdir(in("libzc"), 0700) != 0 || mkdir(in(".cache"), 0700) != 0 ||
           mkdir(in(".cache/libzc"), 0700) != 0;
}

static int end(void **state)
{
    (void)state;
    unlink(in("libzc/views.tsv"));
    unlink(in(".cache/libzc/views.tsv"));
    rmdir(in("libzc"));
    rmdir(in(".cache/libzc"));
    rmdir(in(".cache"));
    return rmdir(folder);
}

/* The line of a device of this machine, as the command writes it. */
static const char *line_of(const char *gpu, int version, const char *found)
{
    static char line[2][1024];
    static unsigned turn;
    char *out = line[turn++ % 2], machine[512];
    struct zc_text t = zc_text_on(machine, sizeof(machine));
    zc_reach_machine(&t, gpu, version);
    snprintf(out, sizeof(line[0]), "%s\t%s\twritten=ok late=ok\n", found, zc_text_cstr(&t));
    return out;
}

static void keep_at(const char *name, const char *first, const char *second)
{
    unlink(in(name));
    FILE *f = fopen(in(name), "w");
    assert_non_null(f);
    fprintf(f, "libzc views\n%s%s", first, second);
    fclose(f);
    assert_int_equal(chmod(in(name), 0600), 0);
}

static void keep(const char *first, const char *second)
{
    keep_at("libzc/views.tsv", first, second);
}

static void assert_exact(bool exact, const char *why)
{
    uint32_t found = reach_look();
    assert_true(found & ZC_REACH_ANY);
    assert_int_equal(!!(found & ZC_REACH_EXACT), exact);
    assert_int_equal(has.told, !exact);
    if (!exact && !strstr(has.why, why))
        fail_msg("'%s' does not say '%s'", has.why, why);
    assert_true(has.puts > 0);
    has.told = 0;
}

static void devices_that_do_not_reach_memory_need_no_file(void **state)
{
    (void)state;
    has.hmm = 0;
    unlink(in("libzc/views.tsv"));
    assert_false(reach_look() & (ZC_REACH_ANY | ZC_REACH_ATS | ZC_REACH_EXACT));
    has.devices = 0;
    has.hmm = 1;
    assert_false(reach_look() & ZC_REACH_ANY);
    assert_int_equal(has.told, 0);
}

static void what_was_found_exact_with_this_gpu_driver_and_kernel_is(void **state)
{
    (void)state;
    keep("", line_of("GPU 0", 13000, "exact 1"));
    assert_exact(true, "");
    assert_false(reach_look() & ZC_REACH_ATS);
    has.hmm = 0;
    has.ats = 1;
    assert_exact(true, "");
    assert_true(reach_look() & ZC_REACH_ATS);
    has.version = 13010;
    assert_exact(false, "views.tsv does not say that they are exact");
    has.version = 13000;
    keep("", line_of("GPU 0", 13000, "wrong 1"));
    assert_exact(false, "does not say");
    keep("", line_of("GPU", 13000, "exact 1"));
    assert_exact(false, "does not say");
    keep("", line_of("GPU 0", 13000, "exact 2")); /* Other things were tried. */
    assert_exact(false, "does not say");
}

static void each_device_that_reaches_memory_is_to_be_in_the_file(void **state)
{
    (void)state;
    has.devices = 3;
    has.hmm = 1;
    has.ats = 4;
    keep(line_of("GPU 2", 13000, "exact 1"), line_of("GPU 0", 13000, "exact 1"));
    assert_exact(true, "");
    keep(line_of("GPU 1", 13000, "exact 1"), line_of("GPU 0", 13000, "exact 1"));
    assert_exact(false, "does not say");
    has.devices = 2;
    assert_exact(true, "");
}

static void the_sixty_fifth_device_is_not_asked(void **state)
{
    (void)state;
    has.devices = 70;
    has.hmm = UINT64_C(1) << 63;
    keep("", line_of("GPU 63", 13000, "exact 1"));
    assert_exact(true, "");
    keep("", line_of("GPU 62", 13000, "exact 1"));
    assert_exact(false, "does not say");
}

/* The file was being written when the disk was full, say. */
static void a_line_without_its_end_says_nothing(void **state)
{
    char cut[1024];
    (void)state;
    snprintf(cut, sizeof(cut), "%s", line_of("GPU 0", 13000, "exact 1"));
    cut[strlen(cut) - 1] = '\0';
    keep("", cut);
    assert_exact(false, "does not say");
}

static void a_missing_file_and_one_of_others_are_no_word(void **state)
{
    (void)state;
    unlink(in("libzc/views.tsv"));
    assert_exact(false, "views.tsv is not there, or can't be read");
    keep("", line_of("GPU 0", 13000, "exact 1"));
    has.owner = 4712;
    assert_exact(false, "views.tsv is ignored: it must be a file of this user's alone");
    has.owner = 0;
    assert_exact(true, "");
    has.owner = has.user;
    assert_int_equal(chmod(in("libzc/views.tsv"), 0620), 0);
    assert_exact(false, "is ignored");
    assert_int_equal(chmod(in("libzc/views.tsv"), 0602), 0);
    assert_exact(false, "is ignored");
}

static void neither_a_link_nor_a_folder_nor_a_long_file_is_read(void **state)
{
    (void)state;
    keep_at(".cache/libzc/views.tsv", "", line_of("GPU 0", 13000, "exact 1"));
    unlink(in("libzc/views.tsv"));
    char target[4096];
    snprintf(target, sizeof(target), "%s", in(".cache/libzc/views.tsv"));
    assert_int_equal(symlink(target, in("libzc/views.tsv")), 0);
    assert_exact(false, "is not there");
    unlink(in("libzc/views.tsv"));
    assert_int_equal(mkdir(in("libzc/views.tsv"), 0700), 0);
    assert_exact(false, "is ignored");
    rmdir(in("libzc/views.tsv"));
    keep("", line_of("GPU 0", 13000, "exact 1"));
    assert_int_equal(truncate(in("libzc/views.tsv"), 32 << 10), 0);
    assert_exact(false, "below 32 KiB");
    assert_int_equal(truncate(in("libzc/views.tsv"), (32 << 10) - 1), 0);
    assert_exact(true, "");
}

static void the_folder_of_caches_is_asked_for_before_the_home(void **state)
{
    (void)state;
    keep("", line_of("GPU 0", 13000, "wrong 1"));
    keep_at(".cache/libzc/views.tsv", "", line_of("GPU 0", 13000, "exact 1"));
    assert_exact(false, "does not say");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_exact(true, "");
    unsetenv("XDG_CACHE_HOME");
    assert_exact(true, "");
    setenv("HOME", "relative", 1);
    assert_exact(false, "views.tsv has no folder");
    unsetenv("HOME");
    assert_exact(false, "views.tsv has no folder");
    has.said = true;
    assert_false(reach_look() & ZC_REACH_EXACT);
    assert_int_equal(has.told, 0); /* It was said before. */
}

static void a_path_that_is_cut_short_is_none(void **state)
{
    char home[4200];
    (void)state;
    memset(home, 'h', sizeof(home));
    home[0] = '/';
    home[4199] = '\0';
    setenv("XDG_CACHE_HOME", home, 1);
    struct zc_text path = zc_text_on(home, 100);
    assert_false(find_file(&path));
}

static void show_once(void)
{
    uintptr_t window = 1;
    size_t span = 2 << 12;
    char *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    keep("", line_of("GPU 0", 13000, "exact 1"));
    assert_true(zc_reach() & ZC_REACH_EXACT);
    unsigned asked = has.asked;
    assert_true(zc_reach() & ZC_REACH_EXACT);
    assert_int_equal(has.asked, asked); /* It is known. */
    assert_true(zc_reach_show((uintptr_t)at, span, &window));
    assert_true(window && window != (uintptr_t)at);
    ((char *)window)[span - 1] = 7;
    assert_int_equal(at[span - 1], 7);
    has.kept_back = true;
    window = 1;
    assert_false(zc_reach_show((uintptr_t)at, span, &window));
    assert_int_equal(window, 0);
    assert_true(has.unmapped);
    window = 1;
    assert_false(zc_reach_show(1 << 12, span, &window)); /* Nothing is mapped there. */
    assert_int_equal(window, 1);
    _exit(42);
}

static void show_nothing(void)
{
    uintptr_t window = 1;
    char *at = mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    keep("", line_of("GPU 0", 13000, "wrong 1"));
    assert_false(zc_reach_show((uintptr_t)at, 1 << 12, &window));
    assert_null(has.moved);
    at[0] = 1; /* May be written still. */
    _exit(42);
}

static void write_what_is_shown(void)
{
    uintptr_t window;
    char *at = mmap(NULL, 1 << 12, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    keep("", line_of("GPU 0", 13000, "exact 1"));
    if (zc_reach_show((uintptr_t)at, 1 << 12, &window))
        at[0] = 1;
}

/* In processes of their own: what is known of a process's devices stays. */
static void pages_are_shown_by_a_second_mapping_where_that_is_exact(void **state)
{
    (void)state;
    assert_int_equal(WEXITSTATUS(in_child(show_once)), 42);
    assert_int_equal(WEXITSTATUS(in_child(show_nothing)), 42);
    int status = in_child(write_what_is_shown);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(devices_that_do_not_reach_memory_need_no_file, anew),
        cmocka_unit_test_setup(what_was_found_exact_with_this_gpu_driver_and_kernel_is, anew),
        cmocka_unit_test_setup(each_device_that_reaches_memory_is_to_be_in_the_file, anew),
        cmocka_unit_test_setup(the_sixty_fifth_device_is_not_asked, anew),
        cmocka_unit_test_setup(a_line_without_its_end_says_nothing, anew),
        cmocka_unit_test_setup(a_missing_file_and_one_of_others_are_no_word, anew),
        cmocka_unit_test_setup(neither_a_link_nor_a_folder_nor_a_long_file_is_read, anew),
        cmocka_unit_test_setup(the_folder_of_caches_is_asked_for_before_the_home, anew),
        cmocka_unit_test_setup(a_path_that_is_cut_short_is_none, anew),
        cmocka_unit_test_setup(pages_are_shown_by_a_second_mapping_where_that_is_exact, anew)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, begin, end);
}
