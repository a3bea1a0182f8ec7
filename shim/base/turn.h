/* SPDX-License-Identifier: MIT */
/* A turn: mutual exclusion that may last while the driver is called, as no lock of libzc's may. */
#ifndef ZC_BASE_TURN_H
#define ZC_BASE_TURN_H

#include <stdbool.h>
#include <stdint.h>

/* One thread at a time has the turn; zeroed memory is one that nobody has. */
struct zc_turn {
    uint32_t holder; /* Thread that has it, 0 for none.  Atomic. */
};

/* Waits until the turn is free and takes it.  False where the calling thread has it already: in a
 * signal handler that interrupted it, which then passes through. */
bool zc_turn_take(struct zc_turn *turn);

void zc_turn_drop(struct zc_turn *turn);

#endif
