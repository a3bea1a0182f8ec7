/* SPDX-License-Identifier: MIT */
/*
 * A program that copies between host and device blocks at random, beside plain copies of what each
 * must hold: every byte that it reads anywhere must be the plain one.  It is right by itself; under
 * rules that make each host block and its device block one memory, their coherence is what it asks.
 *
 *   pair_model [steps [seed [write]]], or pair_model many, as rounds.h says
 *
 * `write`: kernels write device blocks, too.  Prints one JSON line; status 77 where no GPU answers,
 * 1 at the first difference.
 */
#include <cuda_runtime.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../preload/programs/rounds.h"
#include "pair_model.cuh"

#define BLOCKS 4
#define WINDOW 4096 /* Bytes of most accesses. */

/* One host block, one device block, and what they must hold.  The plain ones come from calloc, so
 * that a rule for malloc leaves them alone. */
struct pair {
    unsigned char *h, *d;   /* The program's; NULL where freed. */
    unsigned char *hp, *dp; /* The plain ones. */
    size_t bytes;
    bool known; /* All of d was written once. */
};

static struct pair pairs[BLOCKS];
static unsigned char *other; /* A host buffer that no rule pairs. */
static unsigned *sum;        /* Of sum_bytes, in device memory. */
static cudaStream_t stream;
static unsigned long long seed, at_step, counts[16];
static bool writes;
static int reaches; /* The device reaches pageable memory. */

static unsigned below(size_t n)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((seed >> 33) % n);
}

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "step %llu: %s: %s\n", at_step, what, cudaGetErrorString(error));
    exit(1);
}

static void differs(const char *what, size_t at)
{
    fprintf(stderr, "step %llu: %s differs at byte %zu\n", at_step, what, at);
    exit(1);
}

static void same(const char *what, const unsigned char *is, const unsigned char *plain, size_t n)
{
    if (memcmp(is, plain, n) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (is[i] != plain[i])
            differs(what, i);
}

static void fill(struct pair *p)
{
    for (size_t i = 0; i < p->bytes; i += 64)
        p->h[i] = p->hp[i] = (unsigned char)below(256);
}

/* Host block first, or device block first. */
static void drop(struct pair *p)
{
    if (below(2)) {
        free(p->h);
        if (p->known) { /* The device block goes on alone. */
            must(cudaMemcpy(other, p->d, WINDOW, cudaMemcpyDeviceToHost), "from d alone");
            same("d alone", other, p->dp, WINDOW);
        }
        must(cudaFree(p->d), "cudaFree");
    } else {
        must(cudaFree(p->d), "cudaFree");
        same("h alone", p->h, p->hp, p->bytes);
        free(p->h);
    }
    free(p->hp);
    free(p->dp);
}

/* A byte that another thread, or another process, writes. */
struct job {
    unsigned char *to;
    unsigned char byte;
};

static void *write_there(void *arg)
{
    struct job *job = (struct job *)arg;
    *job->to = job->byte;
    return NULL;
}

static bool write_from_process(struct job *job)
{
    struct iovec local = {&job->byte, 1}, remote = {job->to, 1};
    int status = 1;
    pid_t parent = getpid(), child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(syscall(SYS_process_vm_writev, parent, &local, 1ul, &remote, 1ul, 0ul) != 1);
    return waitpid(child, &status, 0) == child && status == 0;
}

static bool write_from_thread(struct job *job)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, write_there, job) == 0 && pthread_join(thread, NULL) == 0;
}

/* By whatever can write it; a host may forbid some of that. */
static void write_byte(struct job job)
{
    static int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    static int file = (int)syscall(SYS_memfd_create, "source", 1u);
    bool done = false;
    switch (below(512)) {
    case 0:
        done = write_from_process(&job);
        break;
    case 1:
        done = write_from_thread(&job);
        break;
    case 2:
        done = pwrite(memory, &job.byte, 1, (off_t)(size_t)job.to) == 1;
        break;
    case 3:
        done = pwrite(file, &job.byte, 1, 0) == 1 &&
               syscall(SYS_pread64, file, job.to, (size_t)1, (off_t)0) == 1;
        break;
    default:
        break;
    }
    if (!done)
        *job.to = job.byte;
}

static void cpu_access(struct pair *p, size_t low, size_t n, bool write)
{
    if (!write) {
        same("h", p->h + low, p->hp + low, n < 64 ? n : 64);
        return;
    }
    p->hp[low] = (unsigned char)below(256);
    struct job job = {p->h + low, p->hp[low]};
    write_byte(job);
}

static void copy_in(struct pair *p, size_t low, size_t n, bool async)
{
    if (!p->known && n < p->bytes)
        return;
    if (async)
        must(cudaMemcpyAsync(p->d + low, p->h + low, n, cudaMemcpyHostToDevice, stream), "in");
    else
        must(cudaMemcpy(p->d + low, p->h + low, n, cudaMemcpyHostToDevice), "in");
    memcpy(p->dp + low, p->hp + low, n);
    p->known = true;
    p->h[low] = p->hp[low] = (unsigned char)below(256); /* A pageable buffer is free again. */
}

/* From the block's own device block, or from that of another one. */
static void copy_out(struct pair *p, const struct pair *from, size_t low, size_t n)
{
    if (!from->known || low + n > from->bytes)
        return;
    must(cudaStreamSynchronize(stream), "stream");
    must(cudaMemcpy(p->h + low, from->d + low, n, cudaMemcpyDeviceToHost), "out");
    memcpy(p->hp + low, from->dp + low, n);
    same("h after a copy", p->h + low, p->hp + low, n < WINDOW ? n : WINDOW);
}

static void other_in(struct pair *p, size_t low, size_t n)
{
    n = n < WINDOW ? n : WINDOW;
    if (!p->known)
        return;
    for (size_t i = 0; i < n; i++)
        other[i] = p->dp[low + i] = (unsigned char)below(256);
    must(cudaMemcpy(p->d + low, other, n, cudaMemcpyHostToDevice), "other in");
}

static void other_out(struct pair *p, size_t low, size_t n)
{
    n = n < WINDOW ? n : WINDOW;
    if (!p->known)
        return;
    must(cudaStreamSynchronize(stream), "stream");
    must(cudaMemcpy(other, p->d + low, n, cudaMemcpyDeviceToHost), "other out");
    same("d", other, p->dp + low, n);
}

static void set(struct pair *p, size_t low, size_t n)
{
    int value = (int)below(256);
    if (!p->known) {
        low = 0;
        n = p->bytes;
    }
    must(cudaMemset(p->d + low, value, n), "set");
    memset(p->dp + low, value, n);
    p->known = true;
}

static void between(struct pair *p, size_t low, size_t n)
{
    struct pair *q = &pairs[below(BLOCKS)];
    if (q == p || !q->known || !p->known || low + n > q->bytes)
        return;
    must(cudaMemcpy(p->d + low, q->d + low, n, cudaMemcpyDeviceToDevice), "between");
    memcpy(p->dp + low, q->dp + low, n);
}

static void kernel_reads(struct pair *p, size_t low, size_t n)
{
    unsigned got = 0, want = 0;
    n = n < WINDOW ? n : WINDOW;
    if (!p->known)
        return;
    must(cudaMemsetAsync(sum, 0, sizeof(*sum), stream), "sum");
    sum_bytes<<<(unsigned)(n + 255) / 256, 256, 0, stream>>>(p->d + low, (int)n, sum);
    must(cudaMemcpyAsync(&got, sum, sizeof(got), cudaMemcpyDeviceToHost, stream), "sum");
    must(cudaStreamSynchronize(stream), "kernel");
    for (size_t i = 0; i < n; i++)
        want += p->dp[low + i] * (unsigned)(i % 251 + 1);
    if (got != want)
        differs("what a kernel reads", low);
}

/* If the device reaches pageable memory: a kernel writes h. */
static void kernel_writes_host(struct pair *p, size_t low, size_t n)
{
    unsigned with = below(256);
    n = n < WINDOW ? n : WINDOW;
    write_bytes<<<(unsigned)(n + 255) / 256, 256, 0, stream>>>(p->h + low, (int)n, with);
    for (size_t i = 0; i < n; i++)
        p->hp[low + i] = (unsigned char)(with + (unsigned)i * 7u);
    must(cudaStreamSynchronize(stream), "kernel");
    same("h that a kernel wrote", p->h + low, p->hp + low, n);
}

static void kernel_writes(struct pair *p, size_t low, size_t n)
{
    unsigned with = below(256);
    n = n < WINDOW ? n : WINDOW;
    if (!writes)
        return;
    if (!p->known) { /* An output. */
        low = 0;
        n = p->bytes;
    }
    write_bytes<<<(unsigned)(n + 255) / 256, 256, 0, stream>>>(p->d + low, (int)n, with);
    for (size_t i = 0; i < n; i++)
        p->dp[low + i] = (unsigned char)(with + (unsigned)i * 7u);
    p->known = true;
    if (below(2))
        must(cudaStreamSynchronize(stream), "kernel");
}

static void make(struct pair *p)
{
    bool host_first = below(2);
    p->bytes = ((size_t)2 << 20) + below(4 << 20);
    p->hp = (unsigned char *)calloc(1, p->bytes);
    p->dp = (unsigned char *)calloc(1, p->bytes);
    if (!host_first)
        must(cudaMalloc((void **)&p->d, p->bytes), "cudaMalloc");
    p->h = (unsigned char *)malloc(p->bytes);
    memset(p->h, 1, p->bytes);
    memset(p->hp, 1, p->bytes);
    if (host_first && below(2))
        fill(p);
    if (host_first)
        must(cudaMalloc((void **)&p->d, p->bytes), "cudaMalloc");
    p->known = false;
    if (writes && below(2)) { /* An output: written by kernels alone, and then copied whole. */
        kernel_writes(p, 0, p->bytes);
        copy_out(p, p, 0, p->bytes);
    }
}

static void child_reads(struct pair *p)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        p->h[0] ^= 1; /* Its own copy. */
        _exit(memcmp(p->h + 1, p->hp + 1, p->bytes - 1) != 0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        differs("h in a child", 0);
    same("h beside a child", p->h, p->hp, 1);
}

static void grow(struct pair *p)
{
    size_t more = p->bytes + below(1 << 20);
    unsigned char *h = (unsigned char *)realloc(p->h, more), *keep = p->hp;
    same("h after realloc", h, keep, p->bytes);
    p->h = (unsigned char *)realloc(h, p->bytes);
}

/* One step: mostly the CPU, as in programs. */
static void step(void)
{
    struct pair *p = &pairs[below(BLOCKS)];
    unsigned what = below(1000);
    size_t low = below(p->bytes), n = 1 + below(p->bytes - low);
    if (below(2)) { /* Programs mostly copy all. */
        low = 0;
        n = p->bytes;
    }
    static const unsigned until[] = {959, 967, 973, 978, 982, 985, 988, 990, 995, 999};
    unsigned kind = 0;
    while (kind < 10 && what >= until[kind])
        kind++;
    counts[kind]++;
    switch (kind) {
    case 0:
        cpu_access(p, below(p->bytes - 64), 64, what % 2);
        break;
    case 1:
        copy_in(p, low, n, what % 2);
        break;
    case 2:
        copy_out(p, p, low, n);
        break;
    case 3:
        other_in(p, low, n);
        break;
    case 4:
        other_out(p, low, n);
        break;
    case 5:
        set(p, low, n);
        break;
    case 6:
        between(p, low, n);
        break;
    case 7:
        copy_out(p, &pairs[below(BLOCKS)], low, n);
        break;
    case 8:
        if (reaches && below(2))
            kernel_writes_host(p, low, n);
        kernel_reads(p, low, n);
        break;
    case 9:
        kernel_writes(p, low, n);
        break;
    default:
        if (below(20) == 0) {
            child_reads(p);
        } else if (below(4) == 0) {
            grow(p);
        } else {
            drop(p);
            make(p);
        }
    }
}

static int run(int argc, char **argv)
{
    unsigned long long steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    int devices = 0;
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    writes = argc > 3 && strcmp(argv[3], "write") == 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return 77;
    must(cudaDeviceGetAttribute(&reaches, cudaDevAttrPageableMemoryAccess, 0), "attribute");
    memset(counts, 0, sizeof(counts));
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    other = (unsigned char *)malloc(WINDOW);
    must(cudaMalloc((void **)&sum, sizeof(*sum)), "cudaMalloc");
    must(cudaStreamCreate(&stream), "stream");
    for (int i = 0; i < BLOCKS; i++)
        make(&pairs[i]);
    for (at_step = 0; at_step < steps; at_step++)
        step();
    for (int i = 0; i < BLOCKS; i++)
        drop(&pairs[i]);
    must(cudaStreamDestroy(stream), "stream");
    must(cudaFree(sum), "cudaFree");
    free(other);
    must(cudaDeviceReset(), "reset");
    printf("{\"program\":\"pair_model\",\"steps\":%llu,\"copies_in\":%llu,\"copies_out\":%llu,"
           "\"kernels\":%llu,\"verified\":true}\n",
           steps, counts[1], counts[2] + counts[7], counts[8] + counts[9]);
    return 0;
}

int main(int argc, char **argv)
{
    return run_rounds(argc, argv, run);
}
