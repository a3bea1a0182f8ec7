/* SPDX-License-Identifier: MIT */
/*
 * Shared by the programs that ask hardware about memory: printing one line a fact, what
 * kernels and copies find at an address, and groups of facts.
 *
 * Every group runs in a process of its own, because a kernel that faults ends the use of CUDA in
 * its process.
 */
#ifndef FACTS_CUH
#define FACTS_CUH

#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "view_facts.cuh"

#define PAGE ((size_t)2 << 20) /* A huge page; all mappings are multiples of it. */
#define WORDS (PAGE / sizeof(int))

static int *out;          /* Device memory, PAGE bytes. */
static size_t copy_bytes; /* Size of the group's copies: drivers treat small ones differently. */

static void say(const char *fact, cudaError_t error)
{
    printf("%s: %s\n", fact, cudaGetErrorName(error)); /* the driver's codes are the same */
    fflush(stdout);
    cudaGetLastError();
}

static void show(const char *fact, int value)
{
    printf("%s: %d\n", fact, value);
    fflush(stdout);
}

static void kernel_reads(const char *fact, volatile int *p)
{
    int value = -1;
    cudaError_t error;

    load_number<<<1, 1>>>((const int *)p, out);
    error = cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess)
        say(fact, error);
    else
        show(fact, value);
}

__attribute__((unused)) static void kernel_writes(const char *fact, volatile int *p, int value)
{
    store_number<<<1, 1>>>((int *)p, value);
    say(fact, cudaDeviceSynchronize());
}

/* A copy from `p` to device memory that names `p` as memory of the kind's source. */
static void copy_reads_as(const char *fact, volatile int *p, cudaMemcpyKind kind)
{
    int value = -1;
    cudaError_t error = cudaMemcpy(out, (void *)p, copy_bytes, kind);

    if (error != cudaSuccess) {
        say(fact, error);
        return;
    }
    cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost);
    show(fact, value);
}

__attribute__((unused)) static void copy_reads(const char *fact, volatile int *p)
{
    copy_reads_as(fact, p, cudaMemcpyHostToDevice);
}

__attribute__((unused)) static void copy_writes(const char *fact, volatile int *p, int value)
{
    cudaMemcpy(out, &value, sizeof(value), cudaMemcpyHostToDevice);
    say(fact, cudaMemcpy((void *)p, out, copy_bytes, cudaMemcpyDeviceToHost));
}

__attribute__((unused)) static void memory_type(const char *fact, volatile int *p)
{
    struct cudaPointerAttributes attributes;
    cudaError_t error = cudaPointerGetAttributes(&attributes, (void *)p);

    if (error != cudaSuccess)
        say(fact, error);
    else
        show(fact, (int)attributes.type);
}

struct group {
    const char *name;  /* a comment line ahead of its facts */
    void (*run)(void); /* prints them */
    bool copies;       /* the size of copies may matter */
};

static const size_t sizes[] = {sizeof(int), 64 << 10, 1 << 20};

/* In a child that has not yet used CUDA. */
static int run_group(const struct group *group, size_t bytes)
{
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return 77;
    if (cudaMalloc((void **)&out, PAGE) != cudaSuccess)
        return 1;
    copy_bytes = bytes;
    printf("# %s", group->name);
    if (group->copies)
        printf(", copies of %zu bytes", bytes);
    printf("\n");
    group->run();
    return fflush(stdout) == 0 ? 0 : 1;
}

static int status_of_group(const struct group *group, size_t bytes)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(run_group(group, bytes));
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

/* Gives the exit status of the program of that name. */
static int run_groups(const char *program, const struct group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < (groups[i].copies ? 3 : 1); k++) {
            int status = status_of_group(&groups[i], sizes[k]);

            if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
                fprintf(stderr, "%s: no GPU answers\n", program);
                return 77;
            }
            if (status != 0)
                printf("ended: status %d\n", status);
            fflush(stdout);
        }
    }
    return 0;
}

#endif
