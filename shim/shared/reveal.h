/* conflict = reveal: the CPU waits for the device, and sees what kernels wrote. */
#ifndef ZC_SHARED_REVEAL_H
#define ZC_SHARED_REVEAL_H

#include "shared/pair.h"

/* Starts the thread that waits for devices on behalf of fault handlers, in which no CUDA call may
 * be made.  False where it can't be had. */
bool zc_shared_reveal_start(void);

/* From a fault handler: waits for the device of the pair, then shows d's content as h's on the page
 * at an offset.  False when that is not possible. */
bool zc_shared_reveal(struct zc_shared *pair, uint64_t offset);

/* From a call of the program's: the same. */
bool zc_shared_reveal_in_call(struct zc_shared *pair, uint64_t offset);

#endif
