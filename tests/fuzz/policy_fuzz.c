/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the policy parser, and matches and explains a few requests against what it accepted.
 * Built with libFuzzer, or with replay.c to run kept inputs.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A message must be one printable line, whatever the file holds. */
static void check_report(void *ctx, enum zc_policy_severity severity, unsigned line,
                         unsigned column, const char *message)
{
    unsigned *errors = ctx;

    if (line == 0 || column == 0)
        abort();
    for (const char *c = message; *c != '\0'; c++) {
        if (*c < 0x20 || *c > 0x7e)
            abort();
    }
    *errors += severity == ZC_SEVERITY_ERROR;
}

static void check_verdict(void *ctx, const struct zc_verdict *verdict)
{
    const struct zc_rule **taker = ctx;

    if ((verdict->outcome == ZC_OUTCOME_FAILS) != (verdict->key != NULL))
        abort();
    if (verdict->outcome == ZC_OUTCOME_TAKES)
        *taker = verdict->rule;
}

/* The answer of explain before a match must be that of the match. */
static void check_requests(const struct zc_policy *policy)
{
    static const char *const names[] = {NULL, "", "libfoo.so.1", "python3"};

    for (unsigned i = 0; i < 2 * ZC_API_COUNT; i++) {
        struct zc_match request = {.api = (enum zc_api)(i % ZC_API_COUNT),
                                   .size = (size_t)1 << (i % 40),
                                   .module = names[i % 4],
                                   .site = i * 0x9e3779b1u,
                                   .exe = names[(i + 1) % 4],
                                   .thread = names[(i + 2) % 4],
                                   .device = (int)(i % 4) - 1};
        const struct zc_rule *told = NULL;
        const struct zc_rule *explained = zc_policy_explain(policy, &request, check_verdict, &told);
        const struct zc_rule *matched = zc_policy_match(policy, &request);

        if (explained != matched || told != matched)
            abort();
        if (matched != NULL && (zc_api_places(request.api) == 0 || matched->place.count == 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zc_policy_memory memory = {.size = zc_policy_memory_for(size)};
    struct zc_policy policy;
    unsigned reported = 0;

    memory.base = malloc(memory.size);
    if (memory.base == NULL)
        return 0;
    int errors = zc_policy_parse("fuzz", (const char *)data, size, &memory, check_report, &reported,
                                 &policy);
    if ((errors == 0) != (reported == 0) || memory.used > memory.size)
        abort();
    check_requests(&policy);
    free(memory.base);
    return 0;
}
