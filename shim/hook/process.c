/* SPDX-License-Identifier: MIT */
/* Starts libzc at the first CUDA call and anew in a forked child; ends it with the process. */
#include "hook/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/errno.h"
#include "base/file.h"
#include "base/life.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/own.h"
#include "base/path.h"
#include "driver/real.h"
#include "ledger/counters.h"
#include "ledger/object.h"
#include "ledger/profile.h"
#include "ledger/python.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "ledger/unwind.h"
#include "log/log.h"
#include "log/summary.h"
#include "place/fallback.h"
#include "place/hostmem.h"
#include "place/verbs.h"

static struct {
    pid_t (*fork)(void);  /* With the handlers of pthread_atfork(3). */
    pid_t (*plain)(void); /* Without: _Fork, where libc has it: from glibc 2.34 on. */
} forks;

/* False in a child that only the kernel knows of, such as one of clone(2): log, counters and driver
 * belong to its parent, and another thread may have held a lock. */
static bool own_process(void)
{
    return zc_counters()->header.pid == (uint32_t)getpid();
}

static void open_log(void)
{
    const struct zc_options *options = zc_options();
    const char *pattern = *options->log ? options->log : zc_rules()->log;
    enum zc_policy_log_level wanted = zc_rules()->log_level;
    if (*options->log_level && !zc_log_level_from_name(options->log_level, &wanted))
        zc_message(ZC_WARN, "options", "ZC_LOG_LEVEL=%s is not summary, allocs or events",
                   options->log_level);
    static const enum zc_log_level levels[] = {ZC_LOG_SUMMARY, ZC_LOG_ALLOCS, ZC_LOG_EVENTS};
    if (!pattern)
        pattern = zc_profile_asked() ? zc_profile_log() : "zc.%e.%p.jsonl";
    zc_log_open(pattern, levels[wanted]);
}

static void describe_gpu(int ordinal, struct zc_log_gpu *gpu)
{
    CUuuid uuid;
    if (zc_real.cuDeviceGetPCIBusId(gpu->pci, sizeof(gpu->pci), ordinal) != CUDA_SUCCESS)
        gpu->pci[0] = '\0';
    gpu->known = zc_real.cuDeviceGetUuid_v2(&uuid, ordinal) == CUDA_SUCCESS;
    if (gpu->known)
        memcpy(gpu->uuid, uuid.bytes, sizeof(gpu->uuid));
}

/* Asks the driver for its version and devices.  Before cuInit it says nothing, and the fields stay
 * unknown. */
static void process_write_meta(void)
{
    char gpu[256] = "";
    struct zc_log_meta meta = {
        .policy_file = zc_rules_path(), .policy_hash = zc_rules()->hash, .devices = -1};
    int count;
    if (zc_real.cuDriverGetVersion(&meta.driver) != CUDA_SUCCESS)
        meta.driver = 0;
    if (zc_real.cuDeviceGetCount(&count) == CUDA_SUCCESS)
        meta.devices = count;
    if (meta.devices > 0 && zc_real.cuDeviceGetName(gpu, sizeof(gpu), 0) == CUDA_SUCCESS)
        meta.gpu = gpu;
    for (int i = 0; i < meta.devices && i < ZC_LOG_GPUS; i++)
        describe_gpu(i, &meta.gpus[i]);
    zc_log_meta(&meta);
}

/* POSIX allows only async-signal-safe functions in the child of a threaded process: everything here
 * is plain stores, system calls and mmap(2). */
static void process_child(void)
{
    zc_thread_id_reset();
    zc_modules_after_fork();
    if (__atomic_load_n(&zc_life_state, __ATOMIC_RELAXED) == ZC_LIFE_OFF && !zc_rules_in_use())
        return; /* Before the first CUDA call only requests that rules match take locks. */
    zc_lock_reset_all();
    zc_message_reset();
    zc_modules_inherit();
    zc_arena_reset();
    zc_own_forget();
    zc_modules_child();
    zc_life_child();
}

static void find_python(bool asked)
{
    if (!asked)
        return;
    zc_libc_find();
    zc_python_find(zc_real_dlsym);
}

static void say_python(void)
{
    if (zc_python() == ZC_PYTHON_NONE && strncmp(zc_log_program(), "python", 6) == 0)
        zc_message(ZC_NOTE, "python", "no Python here exports its functions: call paths have none");
}

/* Done once, even if a forked child starts anew.  The log is open first, because it gets every
 * message, while standard error gets only so many of each kind. */
static void announce(void)
{
    static bool announced;
    if (announced)
        return;
    announced = true;
    zc_options_announce();
    say_python();
}

static void leave_driver(void)
{
    zc_life_close();
    zc_place_pause();
}

static void leave_with(int status, void *none)
{
    (void)none;
    zc_log_status = status;
    leave_driver();
}

/* The driver may be gone: only memory and the log are touched.  Later calls still count in memory,
 * and pass through. */
__attribute__((destructor)) static void unload(void)
{
    if (__atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) != ZC_LIFE_ON || !own_process())
        return;
    zc_modules_finish();
}

bool zc_process_start(void)
{
    static bool registered;
    if (!zc_rules_load())
        return false;
    /* Once more: a program may set variables for libzc after its first large request. */
    if (zc_options_read()->secure)
        return false;
    zc_real_find(); /* Another thread may not have found all functions yet. */
    zc_clock_calibrate();
    find_python(zc_option_on(zc_options()->python));
    /* Handlers run in reverse order of registration.  This one is registered at the first cuInit,
     * after the runtime's, so it runs before the runtime releases the driver. */
    if (!registered) {
        on_exit(leave_with, NULL);   /* As atexit(3), but it tells the status. */
        (void)at_quick_exit(unload); /* quick_exit(3) calls no destructors. */
        (void)at_quick_exit(leave_driver);
        registered = true;
    }
    open_log();
    zc_modules_start(zc_rules());
    process_write_meta();
    announce();
    zc_hostmem_start();
    return zc_counters() != NULL;
}

/* Handlers before a fork run in reverse order of registration, and those of the program may wait
 * for a lock under which another thread allocates.  So the heap is held last, as libc's own is. */
void zc_process_watch_forks(void)
{
    static uint32_t watching;
    if (__atomic_exchange_n(&watching, 1, __ATOMIC_RELAXED))
        return;
    pthread_atfork(zc_modules_before_fork, zc_modules_after_fork, process_child);
    zc_libc_find();
    forks.fork = (pid_t(*)(void))zc_real_dlsym(RTLD_NEXT, "fork");
    forks.plain = (pid_t(*)(void))zc_real_dlsym(RTLD_NEXT, "_Fork");
}

static bool outside_driver(uint64_t pc, const struct zc_object *object, void *arg)
{
    (void)pc;
    *(bool *)arg = object && zc_object_is_driver(object);
    return !*(bool *)arg;
}

/* False in a call of the driver's, and in a handler of signals, which may have interrupted one. */
static bool may_call_driver(void)
{
    struct zc_walk walk;
    bool inside = false;
    if (__atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) != ZC_LIFE_ON || !own_process() ||
        zc_lock_held())
        return false;
    zc_unwind(&walk, 0, outside_driver, &inside);
    return walk.whole && !inside;
}

/* Handlers of forks run under locks of libraries, that of the driver perhaps, so what calls the
 * driver comes before all of them. */
__attribute__((visibility("default"))) pid_t fork(void)
{
    zc_process_watch_forks();
    if (__atomic_load_n(&zc_hostheap.bytes, __ATOMIC_RELAXED) && may_call_driver())
        zc_place_before_fork();
    return forks.fork();
}

/* No handler sees it, and a handler of signals may call it.  One that interrupted the holder of a
 * lock, or a fork, can't wait for other threads: its child is one that only the kernel knows of. */
__attribute__((visibility("default"))) pid_t _Fork(void)
{
    zc_process_watch_forks();
    if (!forks.plain)
        return forks.fork();
    if (zc_lock_held())
        return forks.plain();
    zc_modules_before_fork();
    pid_t pid = forks.plain();
    ZC_KEEPS_ERRNO;
    (pid == 0 ? process_child : zc_modules_after_fork)();
    return pid;
}

/* Loading costs a look at descriptor 2, at the environment and for two symbols, and room for
 * descriptors; it touches nothing of CUDA.  Several threads may place host blocks before the first
 * CUDA call, so forks matter from here on. */
__attribute__((constructor)) static void load(void)
{
    zc_message_init();
    zc_object_init();
    zc_file_make_room();
    zc_process_watch_forks();
    /* Sites of host blocks begin before the first CUDA call. */
    const char *python = secure_getenv("ZC_PYTHON");
    find_python(python && zc_option_on(python));
    if (zc_malloc_load)
        zc_malloc_load();
}
