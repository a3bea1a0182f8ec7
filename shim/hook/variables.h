/* SPDX-License-Identifier: MIT */
/* Warns of environment variables with mistyped names. */
#pragma once

/* Warns of each variable whose name is similar to one of libzc's: a policy named by ZC_POLCY would
 * otherwise be ignored silently.  Reads the environment, as getenv(3) does. */
void zc_variables_check(void);
