/* SPDX-License-Identifier: MIT */
/* Whether the program's calls of the malloc family come to libzc first. */
#ifndef ZC_HOOK_FRONT_H
#define ZC_HOOK_FRONT_H

#include <stdbool.h>

/* True where an object before libzc, the program itself or a library, defines a function of libc's
 * that is given blocks: then it may get blocks of libzc's to free.  Takes the loader's lock. */
bool zc_front_is_taken(void);

#endif
