/* SPDX-License-Identifier: MIT */
/* Memory on its way back to the driver. */
#ifndef ZC_MEMORY_RELEASE_H
#define ZC_MEMORY_RELEASE_H

#include <stdbool.h>

/*
 * Who gives kept memory back first takes it out of the list that it is kept in, because the driver
 * is called without a lock.  Meanwhile another thread that lacks memory finds neither: between
 * these two it is told to wait.  They nest, and make no request for memory.
 */
void zc_release_begin(void);
void zc_release_end(void);

/* Waits until nothing is on its way, and tells whether other threads have been at it since *seen,
 * which is 0 at first and kept for the next question.  Does not wait where a stream may wait for
 * the program, which the other thread may wait for, and not with driver/lock.h, which
 * that may need. */
bool zc_release_wait(unsigned *seen);

#endif
