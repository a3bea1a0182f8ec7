/* SPDX-License-Identifier: MIT */
/* Unblocks SIGSEGV in threads and actions that blocked it before fault handling began. */
#pragma once

#include <stdint.h>

/* Signals whose sa_mask contains SIGSEGV in the program's view.  Atomic. */
extern uint64_t zc_repair_masks;

/* Removes SIGSEGV from the sa_mask of every action of the process. */
void zc_repair_actions(void);

/* Unblocks SIGSEGV in the calling thread, and keeps the program's view of it. */
void zc_repair_self(void);

/* Unblocks SIGSEGV in every thread that blocks it.  Waits up to a second for them.  Returns NULL,
 * or why a thread could not be reached. */
const char *zc_repair_threads(void);
