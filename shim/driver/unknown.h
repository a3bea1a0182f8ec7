/* SPDX-License-Identifier: MIT */
/*
 * Driver calls that neither driver.def nor passthrough.def names: those of a newer CUDA.  The
 * program gets a trampoline for each, which keeps all arguments, asks zc_unknown_before() and jumps
 * to the driver's function, whatever its signature.
 */
#pragma once

#define ZC_UNKNOWN_SLOTS 512 /* Most functions that get one. */

#ifndef __ASSEMBLER__

#include "driver/real.h"

/* Returned in two registers: where to continue, or the answer if `answered` is not NULL. */
struct zc_choice {
    void *address;
    void *answered;
};

/* Replaces an address that the driver gave the program for a name: by libzc's wrapper, the
 * address itself where libzc knows it and does not hook it, or a trampoline, for one function
 * always the same.  NULL where none is left: then the driver has no such function. */
void *zc_real_answer(const char *name, void *real);

/* The driver's function.  The call's number is ZC_FN_COUNT + `slot`, in messages and as a launch.
 */
void *zc_unknown_real(unsigned slot);

/* Called by the trampolines before such a call; the answer is the error code for the program.
 * Defined in hook/unknown.c, above all folders that have a part in it. */
struct zc_choice zc_unknown_before(unsigned slot);

/*
 * Before a call that may use any memory of rules, in any way that the driver has: makes it what the
 * program believes it to be.  Says so once for each function.  Returns CUDA_SUCCESS, or the error
 * for the program's call, which was explained.  Rows of driver.def whose parameters libzc does not
 * look at call it, too.
 */
CUresult zc_unknown_call(enum zc_fn fn);

/* The same for a call that libzc knows and that is given a value which it does not know.  Does
 * nothing where the driver is not newer than libzc: then it refuses the value. */
CUresult zc_unknown_value(enum zc_fn fn);

#endif
