/* SPDX-License-Identifier: MIT */
/* Calls registered parties before each launch. */
#include "driver/launch.h"

#include <string.h>

#include "base/life.h"
#include "base/module.h"
#include "base/wait.h"

#define ARGUMENTS 64        /* Most arguments of a kernel that are looked at, */
#define ARGUMENT_BYTES 4096 /* and bytes of them: CUDA C++ Programming Guide, "Parameters". */
#define SOON_MS 10          /* How long zc_launch_drain_briefly() waits. */
#define REMEMBERED 8192u    /* Of so many arguments the size is remembered. */
#define BEHIND UINT16_MAX   /* That of the one behind the last: no kernel has so many bytes. */

unsigned zc_launch_watch;
static struct {
    zc_launch_fn party[ZC_LAUNCH_PARTIES];
    uint32_t drains;            /* Calls of zc_launch_drain() and zc_launch_recheck().  Atomic. */
    uint32_t under_way;         /* Launches that the driver is being given.  Atomic. */
    uint64_t known[REMEMBERED]; /* See argument_bytes().  Atomic. */
} launches;

/* The calling thread's launch. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    void (*done[2])(const struct zc_launch *);
    uint32_t under_way; /* More than one in signal handlers. */
    bool again;         /* The launch was prepared before. */
} mine;

/* The function is set before the bit and stays after it.  So a launch that still sees the bit of a
 * party that has left finds its function or NULL. */
void zc_launch_call(enum zc_launch_party party, zc_launch_fn fn)
{
    if (!fn)
        __atomic_fetch_and(&zc_launch_watch, ~(1u << party), __ATOMIC_ACQ_REL);
    __atomic_store_n(&launches.party[party], fn, __ATOMIC_RELEASE);
    if (fn)
        __atomic_fetch_or(&zc_launch_watch, 1u << party, __ATOMIC_ACQ_REL);
}

/* After exit has begun libzc makes no calls of its own; but kernels must still find the memory and
 * the bytes that the program was given. */
CUresult zc_launch_prepare(const struct zc_launch *launch)
{
    for (unsigned i = 0; i < ZC_LAUNCH_PARTIES; i++) {
        if (zc_life_closing() && i == ZC_LAUNCH_PREFETCH)
            break;
        zc_launch_fn party = __atomic_load_n(&launches.party[i], __ATOMIC_ACQUIRE);
        CUresult result = party ? party(launch) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

void zc_launch_forget(void)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        __atomic_store_n(&launches.known[i], 0, __ATOMIC_RELAXED);
}

/*
 * SIZE_MAX where the driver does not tell it.  Behind the last argument it writes an error log of
 * its own for each question.  A function's arguments follow each other in the table, so that
 * function and place together say which one it is.
 */
static size_t argument_bytes(CUfunction f, size_t i, bool *kernel)
{
    uint64_t first = ((uintptr_t)f >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 51;
    uint64_t *slot = &launches.known[(first + i) % REMEMBERED];
    uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    size_t offset, bytes;
    if (known >> 16 == (uintptr_t)f)
        return (uint16_t)known;
    CUresult result =
        *kernel ? CUDA_ERROR_INVALID_HANDLE : zc_real.cuFuncGetParamInfo(f, i, &offset, &bytes);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) {
        CUresult other = zc_real.cuKernelGetParamInfo((CUkernel)f, i, &offset, &bytes);
        *kernel = other == CUDA_SUCCESS;
        result = *kernel || other == CUDA_ERROR_INVALID_VALUE ? other : result;
    }
    if (result != CUDA_SUCCESS)
        bytes = result == CUDA_ERROR_INVALID_VALUE ? BEHIND : SIZE_MAX;
    if (bytes <= BEHIND && (uintptr_t)f >> 48 == 0)
        __atomic_store_n(slot, (uintptr_t)f << 16 | bytes, __ATOMIC_RELAXED);
    return bytes;
}

static void words_in(const char *memory, size_t bytes, void (*word)(uint64_t, void *), void *arg)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, memory + at, sizeof(value));
        word(value, arg);
    }
}

/* Pairs of a name and its value, in any order (CUDA Driver API, cuLaunchKernel). */
static bool words_of_extra(void *const *extra, void (*word)(uint64_t, void *), void *arg)
{
    const char *memory = NULL;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            memory = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            bytes = *(const size_t *)extra[1];
        else
            return false;
    }
    if (memory && bytes <= ARGUMENT_BYTES)
        words_in(memory, bytes, word, arg);
    return memory && bytes <= ARGUMENT_BYTES;
}

bool zc_launch_words(const struct zc_launch *launch, void (*word)(uint64_t, void *), void *arg)
{
    size_t left = ARGUMENT_BYTES;
    bool kernel = false;
    if (!launch->function)
        return false;
    if (!launch->arguments && launch->extra)
        return words_of_extra(launch->extra, word, arg);
    for (size_t i = 0, n; (n = argument_bytes(launch->function, i, &kernel)) != BEHIND; i++) {
        if (i == ARGUMENTS || n > left || !launch->arguments)
            return false;
        words_in(launch->arguments[i], n, word, arg);
        left -= n;
    }
    return true;
}

void zc_launch_when_done(void (*then)(const struct zc_launch *launch))
{
    mine.done[mine.done[0] && mine.done[0] != then] = then;
}

void zc_launch_done(const struct zc_launch *launch)
{
    for (unsigned i = 0; i < 2 && mine.done[i]; i++) {
        void (*then)(const struct zc_launch *) = mine.done[i];
        mine.done[i] = NULL;
        then(launch);
    }
}

void zc_launch_leave(void)
{
    mine.under_way--;
    __atomic_fetch_sub(&launches.under_way, 1, __ATOMIC_SEQ_CST);
    zc_wake(&launches.under_way);
}

/* A launch is counted before it reads `drains`, and zc_launch_drain() reads the count after it
 * has changed `drains`: so one of both sees the other. */
CUresult zc_launch_enter(CUresult (*ready)(const void *arg), const void *arg)
{
    for (mine.again = false;; mine.again = true) {
        uint32_t before = __atomic_load_n(&launches.drains, __ATOMIC_SEQ_CST);
        CUresult result = ready(arg);
        if (result != CUDA_SUCCESS)
            return result;
        mine.under_way++;
        __atomic_fetch_add(&launches.under_way, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&launches.drains, __ATOMIC_SEQ_CST) == before)
            return CUDA_SUCCESS;
        zc_launch_leave();
    }
}

bool zc_launch_again(void)
{
    return mine.again;
}

static CUresult launch_ready(const void *launch)
{
    return zc_launch_prepare(launch);
}

CUresult zc_launch_begin(const struct zc_launch *launch)
{
    CUresult result = zc_launch_enter(launch_ready, launch);
    mine.again = false;
    if (result != CUDA_SUCCESS)
        zc_launch_done(launch);
    return result;
}

void zc_launch_end(const struct zc_launch *launch)
{
    zc_launch_done(launch);
    zc_launch_leave();
}

void zc_launch_recheck(void)
{
    __atomic_fetch_add(&launches.drains, 1, __ATOMIC_SEQ_CST);
}

void zc_launch_drain(void)
{
    uint32_t now;
    zc_launch_recheck();
    while ((now = __atomic_load_n(&launches.under_way, __ATOMIC_SEQ_CST)) != mine.under_way)
        zc_wait(&launches.under_way, now);
}

bool zc_launch_drain_briefly(void)
{
    zc_launch_recheck();
    return zc_wait_until(&launches.under_way, mine.under_way, SOON_MS);
}

void zc_launch_reset(void)
{
    zc_launch_watch = 0;
    launches.under_way = mine.under_way = 0;
    for (unsigned i = 0; i < ZC_LAUNCH_PARTIES; i++)
        launches.party[i] = NULL;
    zc_launch_forget();
}

const struct zc_module zc_module_launch = {.child = zc_launch_reset};
