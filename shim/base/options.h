/* SPDX-License-Identifier: MIT */
/* The environment variables: one table, read once. */
#ifndef ZC_BASE_OPTIONS_H
#define ZC_BASE_OPTIONS_H

#include <stdbool.h>

/* X(field, variable, default text, help) */
#define ZC_OPTIONS(X)                                                                              \
    X(policy, "ZC_POLICY", "", "policy file; empty: ./policy.conf, then /etc/zc/policy.conf")      \
    X(log, "ZC_LOG", "", "log path pattern, or off; empty: what the policy says")                  \
    X(log_level, "ZC_LOG_LEVEL", "", "summary, allocs or events; empty: what the policy says")     \
    X(summary, "ZC_SUMMARY", "1", "1 prints the summary on stderr at exit, 0 does not")            \
    X(strict, "ZC_STRICT", "0", "1 refuses a faulty policy file whole")                            \
    X(debug, "ZC_DEBUG", "0", "1 prints debug messages and the coverage line at exit")

struct zc_options {
#define ZC_OPTION_FIELD(field, variable, def, help) const char *field;
    ZC_OPTIONS(ZC_OPTION_FIELD) /* Pointers into the environment or constants; never NULL. */
#undef ZC_OPTION_FIELD
    bool secure; /* AT_SECURE: every variable has its default, and nothing may be opened. */
};

/*
 * Reads the environment by secure_getenv(3), and getauxval(AT_SECURE).  Under AT_SECURE all fields
 * are defaults and libzc is a pure pass-through.  Called once, at the first CUDA call; the strings
 * are copied, because a program may change its environment afterwards.  Says nothing.
 */
const struct zc_options *zc_options_read(void);

/* Says which variables have values that mean nothing, so that their defaults hold. */
void zc_options_announce(void);

/* The table read last; defaults before zc_options_read(). */
const struct zc_options *zc_options(void);

/*
 * The process's rank in its job, from the variables of Open MPI, PMIx, PMI, MVAPICH and Slurm; "0"
 * outside a job, before zc_options_read() and under AT_SECURE.  Digits only, fit for a file name.
 */
const char *zc_option_rank(void);

/* True for "1", "yes", "on", "true". */
bool zc_option_on(const char *value);

#endif
