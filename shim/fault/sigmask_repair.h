/* SPDX-License-Identifier: MIT */
/* Opens SIGSEGV where the program blocked it before fault handling began. */
#ifndef ZC_FAULT_SIGMASK_REPAIR_H
#define ZC_FAULT_SIGMASK_REPAIR_H

#include <stdint.h>

/* Signals whose actions hold SIGSEGV in sa_mask in the program's view.  Atomic. */
extern uint64_t zc_repair_masks;

/* Takes SIGSEGV out of the sa_mask of every action of the process. */
void zc_repair_actions(void);

/* Opens SIGSEGV in the calling thread if it blocks it, and keeps its view. */
void zc_repair_self(void);

/* Opens SIGSEGV in every thread that blocks it.  Waits for them up to a second.  NULL, or why a
 * thread could not be reached. */
const char *zc_repair_threads(void);

#endif
