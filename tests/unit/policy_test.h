/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of policy/: a text parsed into a policy, and the faults that were reported.
 */
#ifndef ZC_POLICY_TEST_H
#define ZC_POLICY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

/* One fault as it was reported. */
struct fault {
    enum zc_policy_severity severity;
    unsigned line;
    unsigned column;
    char message[400];
};

/* A parsed text; parsed_free() gives its memory back. */
struct parsed {
    struct zc_policy policy;
    struct zc_policy_memory memory;
    int errors;              /* as zc_policy_parse() returned */
    struct fault fault[128]; /* the first ones */
    unsigned faults;         /* all of them */
};

static inline void collect_fault(void *ctx, enum zc_policy_severity severity, unsigned line,
                                 unsigned column, const char *message)
{
    struct parsed *parsed = ctx;

    if (parsed->faults < sizeof parsed->fault / sizeof parsed->fault[0]) {
        struct fault *fault = &parsed->fault[parsed->faults];

        fault->severity = severity;
        fault->line = line;
        fault->column = column;
        snprintf(fault->message, sizeof fault->message, "%s", message);
    }
    parsed->faults++;
}

/* Parses n bytes with exactly the memory that zc_policy_memory_for() asks for. The bytes lie at the
 * end of a block of their own, so that a sanitizer sees a read past them. */
static inline struct parsed *parse_bytes(const char *text, size_t n)
{
    struct parsed *parsed = calloc(1, sizeof *parsed);
    char *copy = malloc(n > 0 ? n : 1);

    assert_non_null(parsed);
    assert_non_null(copy);
    if (n > 0)
        memcpy(copy, text, n);
    parsed->memory.size = zc_policy_memory_for(n);
    parsed->memory.base = malloc(parsed->memory.size);
    assert_non_null(parsed->memory.base);
    memset(parsed->memory.base, 0xa5, parsed->memory.size);
    parsed->errors = zc_policy_parse("policy.conf", copy, n, &parsed->memory, collect_fault, parsed,
                                     &parsed->policy);
    free(copy);
    return parsed;
}

static inline struct parsed *parse_text(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static inline void parsed_free(struct parsed *parsed)
{
    free(parsed->memory.base);
    free(parsed);
}

/* Parses a text that must have no fault, but that a rule may be alone in sharing. */
static inline struct parsed *parse_good(const char *text)
{
    struct parsed *parsed = parse_text(text);

    for (unsigned i = 0; i < parsed->faults; i++) {
        const struct fault *fault = &parsed->fault[i];

        if (strstr(fault->message, "shares nothing") == NULL &&
            strstr(fault->message, "not placed by this version") == NULL)
            fail_msg("line %u: %s", fault->line, fault->message);
    }
    return parsed;
}

/* A device request of 1 MiB, for tests to vary. */
static inline struct zc_match some_request(void)
{
    struct zc_match request = {.api = ZC_API_cuMemAlloc,
                               .size = 1 << 20,
                               .module = "libfoo.so.1",
                               .site = 0x3f9a1c22,
                               .exe = "app",
                               .thread = "worker",
                               .device = 0,
                               .rank = 3,
                               .local_rank = 1,
                               .host = "node7"};

    return request;
}

#endif
