/* SPDX-License-Identifier: MIT */
/* The life of libzc in a process: what is read and opened at its start and in which order, what is
 * left of it in a forked child, and what its end touches. */
#include "hook_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/own.h"
#include "base/path.h"
#include "hook/process.h"
#include "ledger/counters.h"
#include "ledger/object.h"
#include "ledger/profile.h"
#include "ledger/python.h"
#include "ledger/rules.h"
#include "ledger/unwind.h"
#include "log/log.h"
#include "log/summary.h"
#include "place/hostmem.h"

#define PID 4321

static struct {
    bool no_rules, in_use, learns, held, whole, no_plain;
    const char *program, *python; /* Names; the variable of the environment. */
    struct zc_options options;
    pid_t child; /* That a fork returns. */
    CUresult version, count, name, bus, uuid;
    int devices, frames, driver_frame; /* Of a call path; which of them is the driver's. */
    struct zc_log_meta meta;
    void (*quick[2])(void);
    void (*leave)(int status, void *arg);
    unsigned exits, watched;
} has;
static struct zc_counters counters;

#define SAYS(name)                                                                                 \
    static void says_##name(void)                                                                  \
    {                                                                                              \
        tell(#name);                                                                               \
        errno = EIO;                                                                               \
    }
SAYS(thread_id)
SAYS(after_fork)
SAYS(before_fork)
SAYS(locks)
SAYS(messages)
SAYS(inherit)
SAYS(arena)
SAYS(own)
SAYS(child)
SAYS(off)
SAYS(libc)
SAYS(announced)
SAYS(close)
SAYS(pause)
SAYS(finish)
SAYS(clock)
SAYS(heap)
SAYS(memory_before_fork)
SAYS(descriptors)
SAYS(objects)
SAYS(ready)

static void *fake_sym(void *handle, const char *name);

static void fake_python(void *(*look_up)(void *handle, const char *name))
{
    assert_ptr_equal((void *)look_up, (void *)fake_sym);
    tell("python");
}

static bool fake_load(void)
{
    tell("rules");
    return !has.no_rules;
}

static const struct zc_options *fake_options(void)
{
    return &has.options;
}

static const struct zc_options *fake_read(void)
{
    tell("options");
    return &has.options;
}

static bool fake_find(void)
{
    tell("driver");
    return true;
}

static void fake_start(const struct zc_policy *policy)
{
    assert_ptr_equal(policy, &zc_rules_read);
    tell("modules");
}

static void fake_open(const char *pattern, enum zc_log_level level)
{
    tell("log %s, %d", pattern, level);
}

static void fake_meta(const struct zc_log_meta *meta)
{
    has.meta = *meta;
    assert_true(!meta->gpu || strcmp(meta->gpu, "H100") == 0);
    tell("meta%s", meta->gpu ? " of a GPU" : "");
}

__attribute__((format(printf, 3, 4))) static void
fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    (void)severity;
    tell("message %s: %.12s", code, format);
}

static int fake_exit(void (*leave)(int status, void *arg), void *arg)
{
    assert_null(arg);
    has.leave = leave;
    has.exits++;
    return 0;
}

static int fake_quick(void (*leave)(void))
{
    assert_true(has.exits < 3);
    has.quick[has.exits++ - 1] = leave;
    return 0;
}

static int fake_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    assert_true(prepare == says_before_fork && parent == says_after_fork && child);
    has.watched++;
    return 0;
}

static pid_t their_fork(void)
{
    tell("fork");
    return has.child;
}

static pid_t their_plain(void)
{
    tell("plain fork");
    errno = 7;
    return has.child;
}

static void *fake_sym(void *handle, const char *name)
{
    assert_ptr_equal(handle, RTLD_NEXT);
    return strcmp(name, "fork") == 0 ? (void *)their_fork
           : has.no_plain            ? NULL
                                     : (void *)their_plain;
}

static bool fake_is_driver(const struct zc_object *object)
{
    return (uintptr_t)object == 0x1000;
}

static void fake_unwind(struct zc_walk *walk, uint64_t from,
                        bool (*visit)(uint64_t pc, const struct zc_object *object, void *arg),
                        void *arg)
{
    assert_int_equal(from, 0);
    walk->whole = has.whole;
    for (int i = 0; i < has.frames; i++) {
        const struct zc_object *object = (void *)(uintptr_t)(i == has.driver_frame ? 0x1000
                                                             : i == 0              ? 0
                                                                                   : 0x2000);
        if (!visit(5, object, arg))
            return;
        assert_int_not_equal(i, has.driver_frame); /* Nothing matters behind it. */
    }
}

static char *fake_getenv(const char *name)
{
    assert_string_equal(name, "ZC_PYTHON");
    return (char *)has.python;
}

#define zc_thread_id_reset says_thread_id
#define zc_modules_after_fork says_after_fork
#define zc_modules_before_fork says_before_fork
#define zc_lock_reset_all says_locks
#define zc_message_reset says_messages
#define zc_modules_inherit says_inherit
#define zc_arena_reset says_arena
#define zc_own_forget says_own
#define zc_modules_child says_child
#define zc_life_child says_off
#define zc_libc_find says_libc
#define zc_options_announce says_announced
#define zc_life_close says_close
#define zc_place_pause says_pause
#define zc_modules_finish says_finish
#define zc_clock_calibrate says_clock
#define zc_hostmem_start says_heap
#define zc_place_before_fork says_memory_before_fork
#define zc_file_make_room says_descriptors
#define zc_object_init says_objects
#define zc_message_init says_ready
#define zc_rules_load fake_load
#define zc_rules_in_use() (has.in_use)
#define zc_rules_path() ("policy")
#define zc_options() fake_options()
#define zc_options_read fake_read
#define zc_real_find fake_find
#define zc_real_dlsym fake_sym
#define zc_python_find fake_python
#define zc_modules_start fake_start
#define zc_log_open fake_open
#define zc_log_meta(meta) fake_meta(meta)
#define zc_log_program() (has.program)
#define zc_profile_asked() (has.learns)
#define zc_profile_log() ("learning.jsonl")
#define zc_message fake_message
#define zc_lock_held() (has.held)
#define zc_unwind fake_unwind
#define zc_object_is_driver fake_is_driver
#define secure_getenv fake_getenv
#define getpid() (PID)
#define on_exit fake_exit
#define at_quick_exit fake_quick
#define pthread_atfork fake_atfork
#define fork my_fork
#define _Fork my_plain_fork
#define constructor used /* The tests call these. */
#define destructor used
pid_t my_fork(void);
pid_t my_plain_fork(void);
#include "../../shim/hook/process.c"

void zc_malloc_load(void)
{
    tell("malloc");
}

static CUresult get_version(int *version)
{
    *version = 13000;
    return has.version;
}

static CUresult get_count(int *count)
{
    *count = has.devices;
    return has.count;
}

static CUresult get_name(char *name, int bytes, CUdevice device)
{
    assert_true(bytes >= 128 && device == 0);
    strcpy(name, "H100");
    return has.name;
}

static CUresult get_bus(char *bus, int bytes, CUdevice device)
{
    snprintf(bus, (size_t)bytes, "bus %d", device);
    return has.bus;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    memset(uuid, device + 1, sizeof(*uuid));
    return has.uuid;
}

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    memset(&counters, 0, sizeof(counters));
    has.options.log = has.options.log_level = "";
    has.options.python = "0";
    has.program = "app";
    has.devices = 2;
    has.whole = true;
    has.driver_frame = -1;
    has.child = 77;
    zc_counters_now = &counters;
    counters.header.pid = PID;
    zc_rules_read.log = NULL;
    zc_rules_read.log_level = ZC_LOG_LEVEL_SUMMARY;
    zc_rules_read.hash = 99;
    zc_python_state = ZC_PYTHON_OFF;
    zc_hostheap.bytes = 1;
    forks.my_fork = their_fork;
    forks.plain = their_plain;
    zc_real.cuDriverGetVersion = get_version;
    zc_real.cuDeviceGetCount = get_count;
    zc_real.cuDeviceGetName = get_name;
    zc_real.cuDeviceGetPCIBusId = get_bus;
    zc_real.cuDeviceGetUuid_v2 = get_uuid;
    return 0;
}

/* True if a fork by `how` is the first of a process, and gets there by the functions in `words`. */
static bool first_fork(pid_t (*how)(void), const char *words)
{
    int status = -1;
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        forks.my_fork = forks.plain = NULL;
        zc_life_state = ZC_LIFE_OFF;
        _exit(how() == 77 && strcmp(hook_told, words) == 0 ? 3 : 4);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void a_fork_before_libzc_is_loaded_is_made_and_watched_all_the_same(void **state)
{
    (void)state;
    assert_true(first_fork(my_fork, "libc; fork"));
    assert_true(first_fork(my_plain_fork, "libc; before_fork; plain fork; after_fork"));
    has.no_plain = true;
    assert_true(first_fork(my_plain_fork, "libc; fork"));
}

static void loading_looks_for_little_and_watches_forks_once(void **state)
{
    (void)state;
    forks.my_fork = forks.plain = NULL;
    load();
    assert_told("ready; objects; descriptors; libc; malloc");
    assert_true(forks.my_fork == their_fork && forks.plain == their_plain);
    has.python = "0";
    load();
    assert_told("ready; objects; descriptors; malloc");
    has.python = "1";
    load();
    assert_told("ready; objects; descriptors; libc; python; malloc");
    zc_process_watch_forks();
    assert_int_equal(has.watched, 1);
}

#define STARTED "rules; options; driver; clock; log zc.%e.%p.jsonl, 1; modules; meta of a GPU; "

static void a_start_reads_rules_opens_the_log_and_begins_all_else_behind_it(void **state)
{
    (void)state;
    has.options.python = "1";
    has.program = "python3";
    zc_python_state = ZC_PYTHON_NONE;
    assert_true(zc_process_start());
    assert_told("rules; options; driver; clock; libc; python; log zc.%e.%p.jsonl, 1; modules; "
                "meta of a GPU; announced; message python: no Python he; heap");
    /* The last handler first: the program's calls are passed on before the log ends. */
    assert_int_equal(has.exits, 3);
    has.leave(3, NULL);
    assert_int_equal(zc_log_status, 3);
    has.quick[1]();
    has.quick[0]();
    assert_told("close; pause; close; pause; finish");
    has.options.python = "0"; /* A child starts anew, and says nothing twice. */
    assert_true(zc_process_start());
    assert_told(STARTED "heap");
    assert_int_equal(has.exits, 3);
    zc_counters_now = NULL;
    assert_false(zc_process_start());
}

static void without_rules_and_in_programs_with_more_rights_nothing_starts(void **state)
{
    (void)state;
    has.no_rules = true;
    assert_false(zc_process_start());
    has.no_rules = false;
    has.options.secure = true;
    assert_false(zc_process_start());
    assert_told("rules; rules; options");
}

static void
the_log_is_that_of_the_environment_else_of_the_policy_else_of_what_is_learnt(void **state)
{
    (void)state;
    zc_rules_read.log = "policy.jsonl";
    zc_rules_read.log_level = ZC_LOG_LEVEL_EVENTS;
    open_log();
    has.options.log = "env.jsonl";
    has.options.log_level = "allocs";
    open_log();
    has.options.log_level = "everything";
    open_log();
    assert_told("log policy.jsonl, 3; log env.jsonl, 2; message options: ZC_LOG_LEVEL; "
                "log env.jsonl, 3");
    has.options.log = has.options.log_level = "";
    zc_rules_read.log = NULL;
    has.learns = true;
    open_log();
    assert_told("log learning.jsonl, 3");
}

static void the_first_line_has_what_the_driver_tells_and_nothing_else(void **state)
{
    (void)state;
    process_write_meta();
    assert_true(has.meta.driver == 13000 && has.meta.devices == 2 && has.meta.policy_hash == 99);
    assert_string_equal(has.meta.policy_file, "policy");
    assert_string_equal(has.meta.gpus[0].pci, "bus 0");
    assert_string_equal(has.meta.gpus[1].pci, "bus 1");
    assert_true(has.meta.gpus[1].known && has.meta.gpus[1].uuid[15] == 2);
    assert_false(has.meta.gpus[2].known);
    has.bus = has.uuid = CUDA_ERROR_UNKNOWN;
    process_write_meta();
    assert_string_equal(has.meta.gpus[0].pci, "");
    assert_true(!has.meta.gpus[0].known && has.meta.gpus[0].uuid[0] == 0);
    assert_told("meta of a GPU; meta of a GPU");
    has.name = CUDA_ERROR_UNKNOWN;
    process_write_meta();
    has.name = CUDA_SUCCESS;
    has.devices = 1;
    process_write_meta();
    has.devices = 0;
    process_write_meta();
    assert_int_equal(has.meta.devices, 0);
    has.devices = 5;
    has.count = has.version = CUDA_ERROR_NOT_INITIALIZED; /* Before cuInit. */
    process_write_meta();
    assert_true(has.meta.devices == -1 && has.meta.driver == 0);
    assert_told("meta; meta of a GPU; meta; meta");
    has.count = CUDA_SUCCESS;
    has.bus = CUDA_SUCCESS;
    has.devices = ZC_LOG_GPUS + 3;
    process_write_meta();
    assert_int_equal(has.meta.devices, ZC_LOG_GPUS + 3);
    assert_string_equal(has.meta.gpus[ZC_LOG_GPUS - 1].pci, "bus 15");
}

static void a_python_that_tells_no_functions_is_told_of(void **state)
{
    (void)state;
    has.program = "python3.11";
    say_python();
    zc_python_state = ZC_PYTHON_NONE;
    has.program = "app";
    say_python();
    assert_told("");
    has.program = "python3.11";
    say_python();
    has.program = "pytho";
    say_python();
    assert_told("message python: no Python he");
}

static void the_log_ends_with_the_process_that_wrote_it(void **state)
{
    (void)state;
    unload();
    assert_told("finish");
    counters.header.pid = PID + 1; /* A child that only the kernel knows of. */
    unload();
    counters.header.pid = PID;
    hook_off();
    unload();
    assert_told("");
}

#define REST "locks; messages; inherit; arena; own; child; off"

static void a_child_forgets_what_was_its_parent_s(void **state)
{
    (void)state;
    process_child();
    assert_told("thread_id; after_fork; " REST);
    zc_life_state = ZC_LIFE_OFF; /* Nothing took a lock. */
    process_child();
    assert_told("thread_id; after_fork");
    has.in_use = true;
    process_child();
    assert_told("thread_id; after_fork; " REST);
}

static void memory_is_made_ready_for_a_fork_where_the_driver_may_be_called(void **state)
{
    (void)state;
    has.frames = 3;
    assert_int_equal(my_fork(), 77);
    assert_told("memory_before_fork; fork");
    has.driver_frame = 2; /* The driver itself forks. */
    my_fork();
    has.driver_frame = 0;
    my_fork();
    has.driver_frame = -1;
    has.whole = false; /* A handler of a signal. */
    my_fork();
    has.whole = true;
    has.held = true;
    my_fork();
    has.held = false;
    counters.header.pid = PID + 1;
    my_fork();
    counters.header.pid = PID;
    zc_hostheap.bytes = 0;
    my_fork();
    zc_hostheap.bytes = 1;
    hook_off();
    my_fork();
    assert_told("fork; fork; fork; fork; fork; fork; fork");
}

static void a_fork_without_handlers_is_held_still_for_by_libzc_itself(void **state)
{
    (void)state;
    errno = 0;
    assert_int_equal(my_plain_fork(), 77);
    assert_int_equal(errno, 7);
    assert_told("before_fork; plain fork; after_fork");
    has.child = 0;
    assert_int_equal(my_plain_fork(), 0);
    assert_told("before_fork; plain fork; thread_id; after_fork; " REST);
    has.child = -1;
    assert_int_equal(my_plain_fork(), -1);
    assert_told("before_fork; plain fork; after_fork");
    has.held = true; /* A handler that interrupted the holder of a lock can't wait for it. */
    my_plain_fork();
    assert_told("plain fork");
    has.held = false;
    forks.plain = NULL; /* An older libc. */
    my_plain_fork();
    assert_told("fork");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_fork_before_libzc_is_loaded_is_made_and_watched_all_the_same),
        TEST(loading_looks_for_little_and_watches_forks_once),
        TEST(a_start_reads_rules_opens_the_log_and_begins_all_else_behind_it),
        TEST(without_rules_and_in_programs_with_more_rights_nothing_starts),
        TEST(the_log_is_that_of_the_environment_else_of_the_policy_else_of_what_is_learnt),
        TEST(the_first_line_has_what_the_driver_tells_and_nothing_else),
        TEST(a_python_that_tells_no_functions_is_told_of),
        TEST(the_log_ends_with_the_process_that_wrote_it),
        TEST(a_child_forgets_what_was_its_parent_s),
        TEST(memory_is_made_ready_for_a_fork_where_the_driver_may_be_called),
        TEST(a_fork_without_handlers_is_held_still_for_by_libzc_itself),
    };
    return RUN_TESTS(tests);
}
