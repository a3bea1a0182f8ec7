/* SPDX-License-Identifier: MIT */
/* The environment variables: one table, read once. */
#pragma once

#include <stdbool.h>

/* X(field, variable, default text, help) */
#define ZC_OPTIONS(X)                                                                              \
    X(policy, "ZC_POLICY", "", "policy file; empty: ./policy.conf, then /etc/zc/policy.conf")      \
    X(log, "ZC_LOG", "", "log path pattern, or off; empty: what the policy says")                  \
    X(log_level, "ZC_LOG_LEVEL", "", "summary, allocs or events; empty: the policy's")             \
    X(summary, "ZC_SUMMARY", "1", "1 prints the summary on stderr at exit, 0 does not")            \
    X(run, "ZC_RUN", "", "id of the run, for the log; zc run sets it")                             \
    X(strict, "ZC_STRICT", "0", "1 refuses a faulty policy file whole")                            \
    X(python, "ZC_PYTHON", "0", "1 adds Python functions and lines to call paths")

struct zc_options {
#define ZC_OPTION_FIELD(field, variable, def, help) const char *field;
    ZC_OPTIONS(ZC_OPTION_FIELD) /* Pointers into the environment or constants; never NULL. */
#undef ZC_OPTION_FIELD
    bool secure; /* AT_SECURE: every option has its default, and no file may be opened. */
};

/*
 * Reads the environment by secure_getenv(3), and getauxval(AT_SECURE).  Under AT_SECURE all options
 * have their defaults, and libzc only passes calls through.  Reads the launcher's variables as well
 * (base/job.h).  Called once, at the first CUDA call.
 * The strings are copied, because a program may change its environment later.  Prints nothing.
 */
const struct zc_options *zc_options_read(void);

/* Reports variables whose values have no meaning, so that the defaults apply, and those whose names
 * are nearly ones of libzc's.  Reads the environment, as getenv(3) does. */
void zc_options_announce(void);

/* The options as last read; defaults before zc_options_read(). */
const struct zc_options *zc_options(void);

/* True for "1", "yes", "on", "true". */
bool zc_option_on(const char *value);
