/* SPDX-License-Identifier: MIT */
/* Accesses of the CPU's to host blocks that are one with a device block: by faults, and before
 * system calls. */
#pragma once

#include <stdbool.h>

/* Takes faults over, before the first page is protected.  False, with the reason in *why, where
 * that can't be done. */
bool zc_shared_access_open(const char **why);
