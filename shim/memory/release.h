/* SPDX-License-Identifier: MIT */
/* Memory on its way back to the driver. */
#ifndef ZC_MEMORY_RELEASE_H
#define ZC_MEMORY_RELEASE_H

#include <stdbool.h>

/*
 * Memory that libzc keeps is first taken out of its list and then given back to the driver, because
 * the driver is called without a lock.  In between, another thread that lacks memory would find it
 * in neither.  These two calls mark that time, so that the thread can wait.  They nest, and never
 * request memory.
 */
void zc_release_begin(void);
void zc_release_end(void);

/* As zc_await_note(): threads that wait here look again, because streams may wait for them. */
void zc_release_await(void);

/* Waits until nothing is on its way, and tells whether other threads have been at it since *seen,
 * which is 0 at first and kept for the next question.  Does not wait where a stream may wait for
 * the program, which the other thread may wait for, and not with driver/lock.h, which
 * that may need. */
bool zc_release_wait(unsigned *seen);

#endif
