/* SPDX-License-Identifier: MIT */
/* The steps of zc-views: each tries one thing that a pair relies on, in a process of its own. */
#pragma once

#include "tools/views/driver.h"

struct view_step {
    const char *name;
    const char *what; /* That it shows, as the end of "exact: ". */
    void (*run)(const struct view_device *device);
    bool without_hmm; /* HMM is left off for the process. */
};

extern const struct view_step view_steps[];
extern const unsigned view_step_count;
