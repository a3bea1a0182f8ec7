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
#define FUNCTIONS 1024u     /* Of so many the number of arguments is remembered. */

unsigned zc_launch_watch;
static struct {
    zc_launch_fn party[ZC_LAUNCH_PARTIES];
    uint32_t drains;           /* Calls of zc_launch_drain() and zc_launch_recheck().  Atomic. */
    uint32_t under_way;        /* Launches that the driver is being given.  Atomic. */
    uint64_t known[FUNCTIONS]; /* See known_of().  Atomic. */
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

/* Of a function: its address, whether it is a CUkernel, and the number of its arguments.  Behind
 * the last one the driver writes an error log of its own for each question. */
static uint64_t *known_of(CUfunction f)
{
    return &launches.known[((uintptr_t)f >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}
#define IS_KERNEL 128u

void zc_launch_forget(void)
{
    for (unsigned i = 0; i < FUNCTIONS; i++)
        __atomic_store_n(&launches.known[i], 0, __ATOMIC_RELAXED);
}

/* CUDA_ERROR_INVALID_VALUE behind the last argument, NOT_SUPPORTED where the driver tells nothing.
 */
static CUresult argument_size(CUfunction f, size_t i, uint64_t *kernel, size_t *bytes_out)
{
    size_t offset;
    CUresult of_function =
        *kernel ? CUDA_ERROR_INVALID_HANDLE : zc_real.cuFuncGetParamInfo(f, i, &offset, bytes_out);
    if (of_function == CUDA_SUCCESS || of_function == CUDA_ERROR_NOT_SUPPORTED)
        return of_function;
    CUresult result = zc_real.cuKernelGetParamInfo((CUkernel)f, i, &offset, bytes_out);
    if (result == CUDA_SUCCESS)
        *kernel = IS_KERNEL;
    else if (result != CUDA_ERROR_INVALID_VALUE)
        result = of_function == CUDA_ERROR_INVALID_VALUE ? of_function : CUDA_ERROR_NOT_SUPPORTED;
    return result;
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
    size_t bytes, left = ARGUMENT_BYTES;
    CUresult result = CUDA_SUCCESS;
    if (!launch->function)
        return false;
    if (!launch->arguments && launch->extra)
        return words_of_extra(launch->extra, word, arg);
    uint64_t *slot = known_of(launch->function), known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    known = known >> 8 == (uintptr_t)launch->function ? known : IS_KERNEL - 1;
    uint64_t i = 0, count = known % IS_KERNEL, kernel = known & IS_KERNEL;
    for (; i < count &&
           (result = argument_size(launch->function, i, &kernel, &bytes)) == CUDA_SUCCESS;
         i++) {
        if (i == ARGUMENTS || bytes > left || !launch->arguments)
            return false;
        words_in(launch->arguments[i], bytes, word, arg);
        left -= bytes;
    }
    if (result == CUDA_ERROR_INVALID_VALUE)
        __atomic_store_n(slot, (uintptr_t)launch->function << 8 | kernel | i, __ATOMIC_RELAXED);
    return result != CUDA_ERROR_NOT_SUPPORTED;
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
