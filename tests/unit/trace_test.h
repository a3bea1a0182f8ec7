/* SPDX-License-Identifier: MIT */
/* A line of what the calls of a case have said, in their order. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base_test.h"

static char trace[2048];

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    size_t n = strlen(trace);
    va_list list;
    va_start(list, format);
    vsnprintf(trace + n, sizeof(trace) - n, format, list);
    va_end(list);
}
