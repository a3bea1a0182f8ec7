/* Large copies between pinned and managed memory, by way of bounce buffers in device memory. */
#ifndef ZC_COPY_BOUNCE_H
#define ZC_COPY_BOUNCE_H

#include "driver/copy.h"

/*
 * The copy engine moves bytes over the link more slowly from and to managed pages than device
 * memory, in whatever way it is asked; inside the device they cost next to nothing.  So a copy of
 * 16 MiB or more goes part by part over the link and through one of two buffers, while the other
 * one is emptied.  True when it is on its way, or for a call without a stream done, or the driver
 * refused a part (c->result); false, and nothing done, where the copy is another one, the device
 * has no room for buffers, or they are in use in another stream, which it must not wait for.
 */
bool zc_bounce_copy(struct zc_copy *c);

/* Gives the buffers back that no copy uses, and returns of how many contexts.  Waits for nothing;
 * does nothing while a capture is under way. */
unsigned zc_bounce_trim(void);

/* The same with those that copies use, for which it waits.  Where a stream may wait for the program
 * it says in a message that it can't.  Not while a capture is under way. */
unsigned zc_bounce_wait(void);

/* Bytes that the current device has in buffers. */
uint64_t zc_bounce_bytes(void);

/* A context is gone, and with it its buffers. */
void zc_bounce_forget(CUcontext context);

void zc_bounce_reset(void); /* For the child of fork(2). */

#endif
