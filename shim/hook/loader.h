/* SPDX-License-Identifier: MIT */
/* Shared by the assembly stubs and their C halves. */
#pragma once

#include "driver/unknown.h"

struct zc_choice zc_dlsym_choose(void *handle, const char *name);
struct zc_choice zc_dlopen_choose(const char *file, int mode);
struct zc_choice zc_dlmopen_choose(long namespace_id, const char *file, int mode);
