/* SPDX-License-Identifier: MIT */
/*
 * zc-policy: what the command zc asks of a policy file, answered by the library's own parser, so
 * that there is no second grammar. Text goes to stdout for programs to read: one record a line, its
 * fields separated by the byte 0x1f, which no policy can hold (control bytes are faults).
 */
#ifndef ZC_TOOLS_POLICY_TOOL_H
#define ZC_TOOLS_POLICY_TOOL_H

#include "policy/policy.h"

#define FIELD_END '\x1f'

/* Exit statuses. */
enum { TOOL_OK, TOOL_FAULTY, TOOL_USAGE };

/* A policy file in memory. */
struct file {
    char path[4096];         /* as found, for messages: without control bytes */
    char *text;              /* of size bytes; owned, never freed: the program ends soon */
    size_t size;             /* bytes of text */
    struct zc_policy policy; /* parsed from text */
    int errors;              /* faults that leave something out */
    unsigned warnings;       /* others */
};

/* How faults are told: as lines for people on stdout, or not at all. */
enum telling { TELL, TELL_NOTHING };

/*
 * Opens as the library does (NULL or "": $ZC_POLICY, ./policy.conf, the file for all users) and
 * parses. Returns false after a message on stderr where there is no file or it must not be used.
 */
bool file_read(struct file *file, const char *path, enum telling telling);

/* The commands of main.c's table: arguments after the command's name; an exit status. */
int tool_check(int argc, char **argv);
int tool_explain(int argc, char **argv);
int tool_path(int argc, char **argv);
int tool_keys(int argc, char **argv);
int tool_apis(int argc, char **argv);
int tool_rank(int argc, char **argv);
int tool_get(int argc, char **argv);
int tool_set(int argc, char **argv);

#endif
