/* CUPTI's counters of unified memory, where the policy asks for them. */
#ifndef ZC_DRIVER_CUPTI_H
#define ZC_DRIVER_CUPTI_H

/*
 * Loads CUPTI and has it count migrations and page faults of managed memory: the process can have
 * no other user of its activity records then.  Called once, after cuInit and before the program has
 * a context.  What can't be had is said once, and in the log.
 */
void zc_cupti_start(void);

/* Collects what CUPTI still holds.  Called while the driver is there; without zc_cupti_start() it
 * does nothing. */
void zc_cupti_finish(void);

#endif
