/* SPDX-License-Identifier: MIT */
/* libzc's state in a process: off until the first CUDA call, and off again in a forked child. */
#pragma once

#include <stdbool.h>

enum zc_life {
    ZC_LIFE_OFF,      /* No CUDA call yet: nothing is recorded, no file exists. */
    ZC_LIFE_STARTING, /* One thread reads the policy and opens the log. */
    ZC_LIFE_ON,       /* Hooking and recording. */
    ZC_LIFE_PASS,     /* AT_SECURE, or no memory for the counters: pure pass-through from now on. */
};

extern int zc_life_state; /* enum zc_life; read with relaxed loads on hot paths. */

/* Starts libzc if it is off, and returns whether it is on.  Other threads wait for the one that
 * starts it; a signal handler in that thread passes through.  A child of fork(2) inherits a driver
 * that answers nothing, and only zc_life_init() starts libzc there. */
bool zc_life_start(void);

/* Starts libzc after a cuInit that succeeded. */
void zc_life_init(void);

static inline bool zc_life_on(void)
{
    return __builtin_expect(__atomic_load_n(&zc_life_state, __ATOMIC_RELAXED) == ZC_LIFE_ON, 1) ||
           zc_life_start();
}

/* True once exit(3) has begun.  From then on libzc makes no driver calls of its own, because the
 * driver may disappear at any moment.  The program's calls are still passed on. */
bool zc_life_closing(void);

/* exit(3) begins. */
void zc_life_close(void);

/* True in a child that was forked from a process which used CUDA, until its own cuInit succeeds:
 * the driver that it inherited answers nothing. */
bool zc_life_inherited(void);

/* For the child of fork(2): libzc is off.  If it was on or starting in the parent, it stays off
 * until the child's own cuInit succeeds. */
void zc_life_child(void);

/* The work of starting, done by one thread; returns whether libzc is on.  Defined in
 * hook/process.c, above all other folders. */
bool zc_process_start(void);
