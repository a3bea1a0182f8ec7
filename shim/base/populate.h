/* SPDX-License-Identifier: MIT */
/* Takes libzc's own page faults early, where they cost nothing. */
#pragma once

/*
 * Maps libzc's code and tables, and the memory that its arena hands out next (madvise(2),
 * MADV_POPULATE_*), so that a program's first requests do not fault them in page by page.  Called
 * in cuInit, which takes a thousand times as long.  Does nothing before Linux 5.14.
 */
void zc_populate(void);
