/* SPDX-License-Identifier: MIT */
/* Which pages of a private mapping of a file are no longer the file's: the kernel's page table
 * tells, whoever wrote them and by whatever means (proc_pid_pagemap(5)). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* False, with the reason in *why, where the kernel does not tell that here.  Asks once. */
bool zc_pagemap_works(const char **why);

/* How many of `looks` pages, spread evenly over the private memory of [low, high), another process
 * has, too: a child of fork(2), as long as neither has written them.  0 where the kernel can't be
 * asked. */
unsigned zc_pagemap_inherited(uintptr_t low, uintptr_t high, unsigned looks);

/* Visits the runs of such pages in [low, high), of whole pages, in order of address.  A page that
 * another thread writes meanwhile may be missed; each visit comes after the kernel was asked for
 * its pages.  Where the kernel can't be asked any more, as without descriptors, all count. */
void zc_pagemap_each(uintptr_t low, uintptr_t high,
                     void (*visit)(uintptr_t from, uintptr_t to, void *arg), void *arg);
