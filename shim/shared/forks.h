/* SPDX-License-Identifier: MIT */
/* Pairs while a process forks: a child must not get one that a thread is at work on. */
#ifndef ZC_SHARED_FORKS_H
#define ZC_SHARED_FORKS_H

/* Around the time in which a thread holds locks of pairs, once for each; the first waits while
 * another thread forks. */
void zc_shared_begin_work(void);
void zc_shared_end_work(void);

#endif
