/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs that time something: the driver's functions that they call, a
 * clock, and medians.
 *
 * DRIVER(X), which the program defines first, lists these functions; COMMON_CALLS is part of it.
 */
#ifndef PROGRAMS_SPEED_H
#define PROGRAMS_SPEED_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COMMON_CALLS(X)                                                                            \
    X(cuInit)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)

/* The driver's functions by their names; NULL for those that it does not have. */
static struct {
#define FIELD(name) __typeof__(name) *name;
    DRIVER(FIELD)
#undef FIELD
} cu;

/* Ends the program with status 1 where a call fails that must not. */
static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(name, ...) check(#name, cu.name(__VA_ARGS__))

/* Makes the first GPU's primary context current; ends the program with status 77 where there is
 * none. */
static void start_driver(void)
{
    CUcontext context;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle)
        exit(77);
#define FIND(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
    DRIVER(FIND)
#undef FIND
    if (!cu.cuInit || cu.cuInit(0) != CUDA_SUCCESS)
        exit(77);
    CHECK(cuDevicePrimaryCtxRetain, &context, 0);
    CHECK(cuCtxSetCurrent, context);
}

/* Milliseconds from a point in the past. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values, too. */
__attribute__((unused)) static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

#endif
