/* SPDX-License-Identifier: MIT */
/* What the assembly stubs and their C halves share. */
#pragma once

/* Returned in two registers: where to continue, or the answer if `answered` is not NULL. */
struct zc_choice {
    void *address;
    void *answered;
};

/* Reports objects that were opened out of libzc's reach before libzc was on: a process without CUDA
 * must print nothing. */
void zc_loader_report(void);

struct zc_choice zc_dlsym_choose(void *handle, const char *name);
struct zc_choice zc_dlopen_choose(const char *file, int mode);
struct zc_choice zc_dlmopen_choose(long namespace_id, const char *file, int mode);
