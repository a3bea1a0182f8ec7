/* SPDX-License-Identifier: MIT */
/* Control of the simulation: counts, ordered failures, the trace, and the prologue and epilogue of
 * each entry point. */
#define _GNU_SOURCE
#include "life.h"
#include "stream.h"
#include "../sim.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern struct sim_call *__start_sim_calls[];
extern struct sim_call *__stop_sim_calls[];

/* An order to fail. */
struct failure {
    struct failure *next; /* newest first */
    CUresult result;      /* what to return */
    unsigned nth;         /* which call, 0 for every one */
    unsigned seen;        /* calls since the order */
    char name[];          /* entry point */
};

/* Actions before a call. */
static const char *_Atomic awaited;
static void (*then)(void);

SIM_EXPORT void sim_before(const char *name, void (*fn)(void))
{
    then = fn;
    awaited = name;
}

/* Only one thread meets the call. */
static void meet(const char *name)
{
    const char *wanted = awaited;
    if (wanted && strcmp(wanted, name) == 0 &&
        atomic_compare_exchange_strong(&awaited, &wanted, NULL))
        then();
}

/* Of its own lock, because a failing call must not wait for the driver. */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static struct failure *failures;
static _Atomic bool failing;
static int trace_fd = -1;
static __thread CUstream null_stream = CU_STREAM_LEGACY;

CUstream sim_default_stream(void)
{
    return null_stream;
}

struct sim_call *sim_call_find(const char *name)
{
    struct sim_call *stub = NULL;
    for (struct sim_call **c = __start_sim_calls; c < __stop_sim_calls; c++) {
        if (strcmp((*c)->name, name) != 0)
            continue;
        if ((*c)->when != SIM_STUB)
            return *c;
        stub = *c;
    }
    return stub;
}

SIM_EXPORT unsigned long long sim_calls(const char *name)
{
    struct sim_call *call = sim_call_find(name);
    return call ? call->count : 0;
}

SIM_EXPORT void sim_reset_counts(void)
{
    for (struct sim_call **c = __start_sim_calls; c < __stop_sim_calls; c++)
        (*c)->count = 0;
}

static void failures_drop(const char *name)
{
    struct failure **p = &failures;
    while (*p) {
        struct failure *f = *p;
        if (name && strcmp(f->name, name) != 0) {
            p = &f->next;
            continue;
        }
        *p = f->next;
        free(f);
    }
}

SIM_EXPORT void sim_fail(const char *name, CUresult result, unsigned nth)
{
    pthread_mutex_lock(&failure_lock);
    if (!name || result == CUDA_SUCCESS) {
        failures_drop(name);
    } else {
        struct failure *f = calloc(1, sizeof *f + strlen(name) + 1);
        f->result = result;
        f->nth = nth;
        strcpy(f->name, name);
        f->next = failures;
        failures = f;
    }
    failing = failures != NULL;
    pthread_mutex_unlock(&failure_lock);
}

static CUresult failure_of(const char *name)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&failure_lock);
    for (struct failure *f = failures; f; f = f->next) {
        if (strcmp(f->name, name) != 0)
            continue;
        f->seen++;
        if (result == CUDA_SUCCESS && (f->nth == 0 || f->nth == f->seen))
            result = f->result;
    }
    pthread_mutex_unlock(&failure_lock);
    return result;
}

/* SIM_FAIL is a list "name:code:nth,...". */
static void failures_read(void)
{
    const char *text = getenv("SIM_FAIL");
    char name[128];
    int code, used;
    unsigned nth;
    while (text && sscanf(text, "%127[^:]:%d:%u%n", name, &code, &nth, &used) == 3) {
        sim_fail(name, (CUresult)code, nth);
        text += used;
        if (*text++ != ',')
            break;
    }
}

__attribute__((constructor)) static void control_start(void)
{
    const char *path = getenv("SIM_TRACE");
    if (path && *path)
        trace_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    failures_read();
}

bool sim_enter(struct sim_call *call, CUresult *result)
{
    call->count++;
    if (awaited)
        meet(call->name);
    if (failing && (*result = failure_of(call->name)) != CUDA_SUCCESS)
        return false;
    if ((*result = sim_life_check(call->when)) != CUDA_SUCCESS)
        return false;
    if (call->when == SIM_AFTER_INIT && sim_in_host_function()) {
        *result = CUDA_ERROR_NOT_PERMITTED;
        return false;
    }
    null_stream = call->null_stream;
    sim_relock();
    return true;
}

CUresult sim_leave(struct sim_call *call, bool entered, CUresult result)
{
    if (entered)
        sim_unlock();
    if (trace_fd >= 0) {
        char line[160];
        int n = snprintf(line, sizeof line, "%s %d\n", call->name, (int)result);
        if (write(trace_fd, line, (size_t)n) < 0)
            trace_fd = -1;
    }
    return result;
}
