/* SPDX-License-Identifier: MIT */
/* Whether the program's calls of the malloc family come to libzc first. */
#pragma once

#include <stdbool.h>

/* True if an object before libzc, the program or a library, defines a libc function that takes
 * blocks: it may get blocks of libzc's to free.  Takes the loader's lock. */
bool zc_front_is_taken(void);
