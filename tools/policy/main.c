/* SPDX-License-Identifier: MIT */
/* zc-policy: its commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/policy/policy_tool.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* arguments and effect */
} commands[] = {
    {"check", tool_check, "[FILE]  report faults as FILE:LINE:COLUMN: text; status 1 on errors"},
    {"explain", tool_explain, "FILE    judge the requests on stdin, a line each; see explain.c"},
    {"path", tool_path, "[FILE]   print which file a program would get; status 1 for none"},
    {"keys", tool_keys, "        print the table of keys; see keys.c"},
    {"apis", tool_apis, "        print the names that the key `api` knows"},
    {"rank", tool_rank, "        print the rank that a launcher told; status 1 for none"},
    {"get", tool_get, "FILE RULE.KEY  print the key's value; status 1 where it is not given"},
    {"set", tool_set, "FILE RULE.KEY=VALUE...  print the file with these values"},
};

/* The exit status, after what was printed has arrived. */
static int flushed(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "zc: standard output: %s\n", strerror(errno != 0 ? errno : EIO));
    return TOOL_FAULTY;
}

int main(int argc, char **argv)
{
    const size_t count = sizeof commands / sizeof commands[0];

    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return flushed(commands[i].run(argc - 2, argv + 2));
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "zc-policy %s %s\n", commands[i].name, commands[i].help);
    return TOOL_USAGE;
}
