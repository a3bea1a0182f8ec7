/* SPDX-License-Identifier: MIT */
/* Calls of a newer driver that libzc does not know, and unknown values in calls that it does. */
#pragma once

#include "driver/real.h"

/*
 * Before a call that may use any memory of rules, in any way that the driver has: makes it what the
 * program believes it to be.  Says so once for each function.  Returns CUDA_SUCCESS, or the error
 * for the program's call, which was explained.
 */
CUresult zc_unknown_use(enum zc_fn fn);

/* The same for a call that libzc knows and that is given a value which it does not know.  Does
 * nothing where the driver is not newer than libzc: then it refuses the value. */
CUresult zc_unknown_value(enum zc_fn fn);
