/* SPDX-License-Identifier: MIT */
/* Launches, and other work given to the GPU whose memory accesses no call describes. */
#pragma once

#include "driver/real.h"

/* The parties, in the order in which they are called. */
enum zc_launch_party {
    ZC_LAUNCH_GROW,     /* vmm: make pending copies. */
    ZC_LAUNCH_LAZY,     /* vmm: attach memory. */
    ZC_LAUNCH_SHARED,   /* shared: decide what lies behind blocks, and time kernels. */
    ZC_LAUNCH_MOVE,     /* vmm: move blocks to where kernels use them. */
    ZC_LAUNCH_PREFETCH, /* managed: prefetch pages to where they will be used. */
    ZC_LAUNCH_DIAGNOSE, /* All places: check for the sticky error of a failed kernel. */
    ZC_LAUNCH_PARTIES
};

#define ZC_LAUNCH_NAMED 64 /* Most blocks of a launch that are looked after. */

/* Arguments of a graph's kernels from when it was made: an address in each block that moves.
 * The handle tells less: another graph has it next. */
struct zc_launch_graph {
    uint64_t kernels; /* Stands for these kernels, in whatever graph. */
    unsigned count;
    uint64_t address[ZC_LAUNCH_NAMED];
};

/* Work that is about to be given to the driver. */
struct zc_launch {
    enum zc_fn fn;           /* Entry point. */
    enum zc_flavour flavour; /* Meaning of the NULL stream. */
    CUstream stream;         /* As the program gave it; NULL for calls without one. */
    CUfunction function;     /* cuLaunchKernel and its kin: the kernel, or a CUkernel; else NULL. */
    void **arguments;        /* Its kernelParams, or NULL; */
    void **extra;            /* then these may have all arguments in one piece. */
    const struct zc_launch_graph *graph; /* cuGraphLaunch of one that names blocks; else NULL. */
    uint64_t threads;                    /* Of the kernel; 0: unknown. */
    bool kernels; /* Kernels or a graph.  False for calls that name addresses without being
                   * described as copies: stream memory operations, batches, nodes of graphs,
                   * imports. */
};

static inline uint64_t zc_threads(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                  unsigned bz)
{
    return (uint64_t)gx * gy * gz * ((uint64_t)bx * by * bz);
}

/* Called before the driver.  If it returns an error, the program gets that, and nothing is
 * launched. */
typedef CUresult (*zc_launch_fn)(const struct zc_launch *launch);

/* One bit for each party that wants to be called.  Atomic.  Every launch reads it with one relaxed
 * load.  A party sets its bit before the program's call that made it necessary returns, so a launch
 * ordered after that call sees the bit. */
extern unsigned zc_launch_watch;

/* Calls `fn` before each launch from now on; NULL: no more. */
void zc_launch_call(enum zc_launch_party party, zc_launch_fn fn);

/* Calls the parties until one refuses. */
CUresult zc_launch_prepare(const struct zc_launch *launch);

/* Called by a party: it has been called for this launch before. */
bool zc_launch_again(void);

/* The same for a launch that zc_launch_end() follows, if this returns CUDA_SUCCESS. */
CUresult zc_launch_begin(const struct zc_launch *launch);

/* Calls `word` for every 8 aligned bytes of a kernel's arguments, also inside of structures: what
 * addresses the launch passes is among them.  The driver reads the same bytes next.  False if the
 * arguments are not known. */
bool zc_launch_words(const struct zc_launch *launch, void (*word)(uint64_t word, void *arg),
                     void *arg);

/* Before functions go: another one may have the handle next. */
void zc_launch_forget(void);

/* Called by a party: the thread's launch calls the function once more after the driver, and one
 * other at most. */
void zc_launch_when_done(void (*done)(const struct zc_launch *launch));

/* After the driver has answered the launch of zc_launch_prepare(), or a party refused it. */
void zc_launch_done(const struct zc_launch *launch);

/* The same after zc_launch_begin(). */
void zc_launch_end(const struct zc_launch *launch);

/*
 * For a call that uses memory in its thread, or gives it to the driver: until zc_launch_leave(),
 * others' zc_launch_drain() waits for it.  `ready` says whether the memory is as the call needs
 * it, and is called again after a zc_launch_drain() meanwhile.  Returns its error, and then the
 * call has not begun.  Nothing that takes driver/lock.h may come in between.
 */
CUresult zc_launch_enter(CUresult (*ready)(const void *arg), const void *arg);
void zc_launch_leave(void);

/* Calls `ready` again of those that are entering. */
void zc_launch_recheck(void);

/* Waits until the driver has been given what other threads' launches are giving it, and until they
 * have left what they entered.  For later ones `ready` is called again. */
void zc_launch_drain(void);

/* The same, but gives up soon where the driver does not answer them.  True if it has. */
bool zc_launch_drain_briefly(void);

/* The same for calls that launch no kernels, fast for the common case that no party is
 * registered. */
static inline CUresult zc_launch_before(enum zc_fn fn, enum zc_flavour flavour, CUstream stream)
{
    if (__builtin_expect(!__atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED), 1))
        return CUDA_SUCCESS;
    const struct zc_launch launch = {.fn = fn, .flavour = flavour, .stream = stream};
    return zc_launch_prepare(&launch);
}

void zc_launch_reset(void); /* For the child of fork(2): no party is registered. */
