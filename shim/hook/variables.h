/* SPDX-License-Identifier: MIT */
/* Environment variables that are nearly libzc's. */
#ifndef ZC_HOOK_VARIABLES_H
#define ZC_HOOK_VARIABLES_H

/* Warns of each variable whose name is not one of libzc's but nearly so: a policy that is named by
 * ZC_POLCY would be missed in silence.  Reads the environment, as getenv(3) does. */
void zc_variables_check(void);

#endif
