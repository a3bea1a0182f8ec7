/* SPDX-License-Identifier: MIT */
/* The summary for people: about twenty lines of at most 80 columns on stderr. */
#pragma once

#include "log/summary.h"

/* Prints on stderr that calls were refused, if there were any, below the table for people if that
 * is wanted. */
void zc_summary_print(const struct zc_summary *summary, bool table);
