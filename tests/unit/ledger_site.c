/* SPDX-License-Identifier: MIT */
/* Sites: one for each call path, the same from run to run. */
#include "ledger_test.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Keeps calls from being turned into jumps, which would leave no frame. */
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")
#define NOINLINE __attribute__((noinline))

NOINLINE static uint32_t wrapper(void)
{
    uint32_t site = zc_site_here(__builtin_frame_address(0), __builtin_return_address(0));

    NO_TAIL_CALL();
    return site;
}

NOINLINE static uint32_t here_a(void)
{
    uint32_t site = wrapper();

    NO_TAIL_CALL();
    return site;
}

NOINLINE static uint32_t here_b(void)
{
    uint32_t site = wrapper();

    NO_TAIL_CALL();
    return site;
}

NOINLINE static uint32_t recurse(int depth)
{
    uint32_t site = depth == 0 ? wrapper() : recurse(depth - 1);

    NO_TAIL_CALL();
    return site;
}

NOINLINE static uint32_t with_alloca(size_t bytes)
{
    volatile char *room = alloca(bytes);
    uint32_t site;

    room[0] = 1;
    site = wrapper();
    NO_TAIL_CALL();
    return site + 0u * (uint32_t)room[0];
}

/* gcc describes a realigned frame by DWARF expressions. */
NOINLINE static uint32_t realigned(size_t bytes)
{
    volatile char room[64] __attribute__((aligned(256)));
    uint32_t site;

    room[bytes % 64] = 1;
    site = with_alloca(bytes + (size_t)((uintptr_t)room % 256));
    NO_TAIL_CALL();
    return site;
}

static void *in_thread(void *arg)
{
    *(uint32_t *)arg = here_a();
    return NULL;
}

static volatile uint32_t in_handler_site;

static void in_handler(int number)
{
    (void)number;
    in_handler_site = here_a();
}

static uint32_t by_thread(void)
{
    pthread_t thread;
    uint32_t site = 0;

    assert_int_equal(pthread_create(&thread, NULL, in_thread, &site), 0);
    pthread_join(thread, NULL);
    return site;
}

static uint32_t by_signal(void)
{
    in_handler_site = 0;
    signal(SIGUSR1, in_handler);
    raise(SIGUSR1);
    return in_handler_site;
}

static int compare(const void *a, const void *b)
{
    uint32_t *site = *(uint32_t *const *)a;

    (void)b;
    *site = wrapper();
    return 0;
}

/* Through libc and back. */
static uint32_t by_qsort(void)
{
    uint32_t site = 0, *pair[2] = {&site, &site};

    qsort(pair, 2, sizeof(pair[0]), compare);
    return site;
}

static void print_ids(void)
{
    for (int i = 0; i < 2; i++)
        printf("%08x ", zc_site_id(i == 0 ? here_a() : here_b()));
    printf("%08x %08x %08x %08x %08x %08x\n", zc_site_id(recurse(3)), zc_site_id(recurse(20)),
           zc_site_id(realigned(100)), zc_site_id(by_thread()), zc_site_id(by_signal()),
           zc_site_id(by_qsort()));
}

/* Runs a shell command with the path of this program in $0; `line` is the first that it prints. */
static void run_self(const char *command, char *line, int bytes)
{
    char whole[4200], self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    FILE *out;

    assert_true(n > 0);
    self[n] = 0;
    snprintf(whole, sizeof(whole), "sh -c '%s' '%s'", command, self);
    out = popen(whole, "r");
    assert_non_null(out);
    assert_non_null(fgets(line, bytes, out));
    assert_int_equal(pclose(out), 0);
}

static void test_same_in_two_runs(void **state)
{
    char first[200], second[200];

    (void)state;
    run_self("\"$0\" --print", first, sizeof(first));
    run_self("\"$0\" --print", second, sizeof(second));
    assert_string_equal(first, second);
    assert_null(strstr(first, "00000000"));
}

/* The kernel marks the name of such a file. */
static void test_deleted_executable(void **state)
{
    char there[200], gone[200];

    (void)state;
    run_self("\"$0\" --print", there, sizeof(there));
    run_self("cd $(mktemp -d) && cp \"$0\" . && ./${0##*/} --unlink && rmdir $PWD", gone,
             sizeof(gone));
    assert_string_equal(there, gone);
}

static void test_differ(void **state)
{
    uint32_t a = here_a(), b = here_b();

    (void)state;
    assert_int_not_equal(a, 0);
    assert_int_not_equal(b, 0);
    assert_int_not_equal(a, b);
    assert_int_not_equal(zc_site_id(a), zc_site_id(b));
    assert_int_equal(zc_site_count(), 3);
}

static void test_frames(void **state)
{
    const struct zc_site *site = zc_site_get(recurse(20));

    (void)state;
    assert_int_equal(site->nframes, ZC_SITE_FRAMES);
    for (unsigned i = 2; i < ZC_SITE_FRAMES; i++)
        assert_int_equal(site->frame[i].offset, site->frame[1].offset);
    assert_int_not_equal(site->frame[0].offset, site->frame[1].offset);
    assert_true(strncmp(site->frame[0].module, "ledger_site", 11) == 0);
    assert_string_equal(zc_site_module(1), site->frame[0].module);
}

/* From one place, so that only the depth tells the paths apart. */
static void test_recursion(void **state)
{
    uint32_t site[12];
    volatile int n = 12; /* Not known, so that the loop has one call site. */

    (void)state;
    for (int depth = 0; depth < n; depth++)
        site[depth] = recurse(depth);
    for (int depth = 1; depth < 12; depth++)
        for (int other = 0; other < depth; other++)
            if (other < ZC_SITE_FRAMES - 1)
                assert_int_not_equal(site[depth], site[other]);
            else
                assert_int_equal(site[depth], site[other]);
}

static void test_alloca(void **state)
{
    uint32_t site[10];
    volatile size_t n = 10; /* Not known to the compiler, which would unroll. */

    (void)state;
    for (size_t i = 0; i < n; i++)
        site[i] = realigned(8 << i);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(site[i], site[0]);
    assert_int_not_equal(site[0], 0);
    assert_true(zc_site_get(site[0])->nframes > 4);
}

static void test_cached(void **state)
{
    volatile int n = 100;
    uint32_t first = 0;

    (void)state;
    for (int i = 0; i < n; i++) {
        uint32_t site = recurse(i % 4);

        if (i == 0)
            first = site;
        if (i % 4 == 0)
            assert_int_equal(site, first);
        if (i == 50)
            zc_site_path_reset();
    }
    assert_int_equal(zc_site_count(), 5);
}

static void test_thread_signal_libc(void **state)
{
    uint32_t thread = by_thread(), handler = by_signal(), sorted = by_qsort();
    bool libc = false;

    (void)state;
    assert_int_not_equal(thread, 0);
    assert_int_not_equal(handler, 0);
    assert_int_not_equal(sorted, 0);
    for (unsigned i = 0; i < zc_site_get(sorted)->nframes; i++)
        libc |= strncmp(zc_site_get(sorted)->frame[i].module, "libc.so", 7) == 0;
    assert_true(libc);
    assert_int_equal(by_thread(), thread);
}

static void test_dlopened(void **state)
{
    char folder[] = "/tmp/ledger_site.XXXXXX", command[300], path[100];
    uint32_t (*through)(uint32_t(*call)(void));
    const struct zc_site *site;
    void *module;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/module.so", folder);
    snprintf(command, sizeof(command),
             "echo 'unsigned through(unsigned (*f)(void)) { volatile unsigned r = f(); return r; }'"
             " | "
             "${CC:-cc} -O2 -shared -fPIC -x c - -o %s 2>/dev/null",
             path);
    if (system(command) != 0) {
        rmdir(folder);
        skip();
    }
    module = dlopen(path, RTLD_NOW);
    unlink(path);
    rmdir(folder);
    assert_non_null(module);
    *(void **)&through = dlsym(module, "through");
    site = zc_site_get(through(wrapper));
    assert_string_equal(site->frame[0].module, "module.so");
    assert_true(site->nframes > 1);
    dlclose(module);
}

static void test_made_code(void **state)
{
#if defined(__x86_64__)
    /* call *%rdi behind sub $8,%rsp; add $8,%rsp; ret: code without call-frame information. */
    static const unsigned char code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                         0x48, 0x83, 0xc4, 0x08, 0xc3};
    unsigned char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t (*jit)(uint32_t(*call)(void));
    const struct zc_site *site;

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    memcpy(page, code, sizeof(code));
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    *(void **)&jit = page;
    site = zc_site_get(jit(wrapper));
    assert_int_equal(site->nframes, 1);
    assert_string_equal(site->frame[0].module, "?");
    munmap(page, 4096);
#else
    (void)state;
    skip();
#endif
}

#define MODULES 32u /* Of the last sites each is for all further paths of one module. */

static void test_full(void **state)
{
    struct zc_frame frame = {.module = "m"};

    (void)state;
    for (uint32_t i = 1; i < ZC_COUNTERS_SITES - MODULES; i++) {
        frame.offset = i;
        assert_int_equal(zc_site_intern(&frame, 1, NULL), i);
    }
    for (uint32_t i = ZC_COUNTERS_SITES - MODULES; i < ZC_COUNTERS_SITES; i++) {
        frame.module[0] = (char)(i | 0x80);
        for (frame.offset = 1000; frame.offset < 1003; frame.offset++)
            assert_int_equal(zc_site_intern(&frame, 1, NULL), i);
        assert_string_equal(zc_site_module(i), frame.module);
        assert_int_equal(zc_site_get(i)->frame[0].offset, 0);
    }
    strcpy(frame.module, "none");
    assert_int_equal(zc_site_intern(&frame, 1, NULL), 0);
    strcpy(frame.module, "m");
    frame.offset = 7;
    assert_int_equal(zc_site_intern(&frame, 1, NULL), 7);
    assert_int_equal(zc_site_count(), ZC_COUNTERS_SITES);
    assert_int_equal(here_a(), 0);
}

#define PATHS (ZC_COUNTERS_SITES - MODULES - 1)

static void *intern_all(void *index)
{
    struct zc_frame frame = {.module = "m"};

    for (frame.offset = 0; frame.offset < PATHS; frame.offset++)
        ((uint32_t *)index)[frame.offset] = zc_site_intern(&frame, 1, NULL);
    return NULL;
}

/* As where other threads allocate while the log is being opened. */
static void test_counters_change(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct zc_frame frame = {.module = "m"};
        uint32_t index[PATHS];
        pthread_t thread;

        assert_int_equal(ledger_setup(NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, intern_all, index), 0);
        while (zc_site_count() < PATHS / 2)
            sched_yield();
        assert_true(zc_counters_open(NULL));
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (uint32_t i = 0; i < PATHS; i++) {
            frame.offset = i;
            assert_int_equal(zc_site_get(index[i])->frame[0].offset, i);
            assert_int_equal(zc_site_intern(&frame, 1, NULL), index[i]);
        }
        assert_int_equal(zc_site_count(), PATHS + 1);
    }
}

static void test_counts(void **state)
{
    (void)state;
    assert_true(zc_site_is_new(5));
    assert_false(zc_site_is_new(5));
    assert_false(zc_site_is_new(0));
    assert_true(zc_site_is_new(ZC_COUNTERS_SITES - 1));
    assert_false(zc_site_is_new(ZC_COUNTERS_SITES));
    assert_true(zc_site_is_new(64));
    zc_site_note_request(2, 100, 3);
    zc_site_note_request(2, 50, -1);
    zc_site_note_free(2);
    assert_int_equal(zc_counters()->site[2].requests, 2);
    assert_int_equal(zc_counters()->site[2].requested_bytes, 150);
    assert_int_equal(zc_counters()->site[2].frees, 1);
    assert_string_equal(zc_site_module(2), "?");
}

/* The first site counts for all that has none. */
static void test_beyond(void **state)
{
    struct zc_frame frame = {.module = "m"};

    (void)state;
    assert_int_equal(zc_site_intern(&frame, 0, NULL), 0);
    assert_int_equal(zc_site_rule(2), -1);
    zc_site_note_request(2, 1, 3);
    assert_int_equal(zc_site_rule(2), 3);
    zc_site_note_request(2, 1, -1);
    assert_int_equal(zc_site_rule(2), -1);
    zc_site_note_request(ZC_COUNTERS_SITES, 8, 5);
    assert_int_equal(zc_site_rule(0), 5);
    assert_int_equal(zc_site_rule(ZC_COUNTERS_SITES), 5);
    assert_int_equal(zc_counters()->site[0].requested_bytes, 8);
    assert_ptr_equal(zc_site_total(ZC_COUNTERS_SITES, 0), zc_site_total(0, 0));
    assert_ptr_equal(zc_site_get(zc_site_count()), zc_site_get(0));
    assert_null(zc_site_python(ZC_COUNTERS_SITES));
}

#define TEST(name, function)                                                                       \
    {                                                                                              \
        name, function, ledger_setup, NULL, NULL                                                   \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST("two runs give the same ids", test_same_in_two_runs),
        TEST("an executable that was deleted gives the same ids", test_deleted_executable),
        TEST("two call sites differ", test_differ),
        TEST("frames are the program's, innermost first", test_frames),
        TEST("recursion is told apart up to the frames kept", test_recursion),
        TEST("frames of any size give one site", test_alloca),
        TEST("a path seen before gives the same site", test_cached),
        TEST("calls from threads, handlers and through libc have sites", test_thread_signal_libc),
        TEST("a module opened later is named", test_dlopened),
        TEST("the path ends at code of no object", test_made_code),
        TEST("further paths share a site with their module, at last with all others", test_full),
        TEST("sites keep their index while the counters change", test_counters_change),
        TEST("requests and frees are counted", test_counts),
        TEST("numbers of no site are the first's", test_beyond),
    };

    if (argc > 1) {
        if (strcmp(argv[1], "--unlink") == 0 && unlink(argv[0]) != 0)
            return 1;
        ledger_setup(NULL);
        print_ids();
        return 0;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
