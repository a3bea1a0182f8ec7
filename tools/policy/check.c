/* SPDX-License-Identifier: MIT */
/* zc-policy check: every fault of a file, in the parser's words. */
#include <stdio.h>

#include "tools/policy/policy_tool.h"

static struct file file;

static const char *plural(unsigned n)
{
    return n == 1 ? "" : "s";
}

int tool_check(int argc, char **argv)
{
    unsigned rules;

    if (argc > 1) {
        fputs("zc: check takes one file\n", stderr);
        return TOOL_USAGE;
    }
    if (!file_read(&file, argc > 0 ? argv[0] : NULL, TELL))
        return TOOL_FAULTY;
    rules = (unsigned)file.policy.rule_count;
    printf("%s: %u usable rule%s, %d error%s, %u warning%s\n", file.path, rules, plural(rules),
           file.errors, plural((unsigned)file.errors), file.warnings, plural(file.warnings));
    return file.errors > 0 ? TOOL_FAULTY : TOOL_OK;
}
