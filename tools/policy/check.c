/* SPDX-License-Identifier: MIT */
/* zc-policy check: every fault of a file, in the parser's words. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "place/fallback.h"
#include "tools/policy/policy_tool.h"

static struct file file;

/* The library's message is "FILE:LINE: text" or without a place. */
static void tell_warning(enum zc_severity severity, const char *code, const char *text)
{
    size_t n = strlen(file.path);
    unsigned line = 0;
    int used = 0;

    (void)severity;
    (void)code;
    file.warnings++;
    if (strncmp(text, file.path, n) == 0 && sscanf(text + n, ":%u: %n", &line, &used) == 1 && used)
        printf("%s:%u:1: warning: %s\n", file.path, line, text + n + used);
    else
        printf("%s:1:1: warning: %s\n", file.path, text);
}

/* What the library would say of places and keys that it does not carry out. It speaks to stderr and
 * to its log; here it finds the one closed, and this program is the other. */
static void check_places(void)
{
    int saved = dup(STDERR_FILENO);

    close(STDERR_FILENO);
    zc_message_init();
    zc_message_set_sink(tell_warning);
    zc_place_check_policy(&file.policy);
    if (saved >= 0) {
        dup2(saved, STDERR_FILENO);
        close(saved);
    }
}

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
    check_places();
    rules = (unsigned)file.policy.rule_count;
    printf("%s: %u usable rule%s, %d error%s, %u warning%s\n", file.path, rules, plural(rules),
           file.errors, plural((unsigned)file.errors), file.warnings, plural(file.warnings));
    return file.errors > 0 ? TOOL_FAULTY : TOOL_OK;
}
