/* SPDX-License-Identifier: MIT */
/* Holds pairs still during a fork, so that a child never inherits one in the middle of a change. */
#pragma once

#include <stdbool.h>

/* Mark the time in which a thread holds a pair's lock, once for each lock, or changes mappings of a
 * host block that has none.  The first waits while another thread forks. */
void zc_shared_begin_work(void);
void zc_shared_end_work(void);

/* Whether the calling thread forks: a handler of signals has interrupted it. */
bool zc_shared_forking(void);
