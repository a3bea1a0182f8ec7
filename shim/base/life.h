/* SPDX-License-Identifier: MIT */
/* libzc's life in a process: off until the first CUDA call, fresh in a forked child. */
#ifndef ZC_BASE_LIFE_H
#define ZC_BASE_LIFE_H

#include <stdbool.h>

enum zc_life {
    ZC_LIFE_OFF,      /* No CUDA call yet: nothing is recorded, no file exists. */
    ZC_LIFE_STARTING, /* One thread reads the policy and opens the log. */
    ZC_LIFE_ON,       /* Catching and recording. */
    ZC_LIFE_PASS,     /* AT_SECURE, or no memory for the counters: pure pass-through for good. */
};

extern int zc_life_state; /* enum zc_life; read with relaxed loads on hot paths. */

/* Starts libzc at a call in a process that it is off in, and says whether it is on: other threads
 * wait for the one that starts it, a signal handler of that thread passes through.  The child of
 * fork(2) inherits a driver that answers nothing, and is started by zc_life_init() alone. */
bool zc_life_start(void);

/* Starts libzc after a cuInit that succeeded. */
void zc_life_init(void);

static inline bool zc_life_on(void)
{
    return __builtin_expect(__atomic_load_n(&zc_life_state, __ATOMIC_RELAXED) == ZC_LIFE_ON, 1) ||
           zc_life_start();
}

/* True once exit(3) has begun.  From then on libzc makes no driver call of its own, because the
 * driver may be gone at any moment; the program's own calls are still passed on. */
bool zc_life_closing(void);

/* exit(3) begins. */
void zc_life_close(void);

/* For the child of fork(2): libzc is off, and stays so until the child's own cuInit succeeds where
 * its parent was on or starting. */
void zc_life_child(void);

/* What starting takes, by the thread that starts: says whether libzc is on then.  Defined on top of
 * all rooms, in hook/process.c. */
bool zc_process_start(void);

#endif
