/* SPDX-License-Identifier: MIT */
/*
 * zc-policy explain FILE: what the rules say to requests.
 *
 * A line of stdin is a request, in fields: api, size in bytes, module, site in hex, exe, thread,
 * device, which of the fitting requests it is (`nth`; empty: counted by the
 * rules, as in a process), and whether an array has grown (`yes`, or empty). An empty field is a
 * fact that is not known. Each request is answered by a line for each rule: name, line, `takes`,
 * `fails` or `behind`, key, what the file wants, what the request has, the rule's places; and a
 * last line: `end` and the name of the rule that takes it. What is no request is answered by one
 * line: `refused` and why.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/internal.h"
#include "tools/policy/policy_tool.h"

enum { API, SIZE, MODULE, SITE, EXE, THREAD, DEVICE, NTH, GROWN, FIELDS };

static const char *const outcomes[] = {
    [ZC_OUTCOME_TAKES] = "takes", [ZC_OUTCOME_FAILS] = "fails", [ZC_OUTCOME_BEHIND] = "behind"};

static void print_places(const struct zc_rule *rule)
{
    for (unsigned i = 0; i < rule->place.count; i++)
        printf("%s%s", i > 0 ? ", " : "", zc_place_name(rule->place.item[i]));
}

static void print_verdict(void *ctx, const struct zc_verdict *verdict)
{
    (void)ctx;
    printf("%s%c%u%c%s%c%s%c%s%c%s%c", verdict->rule->name, FIELD_END, verdict->rule->line,
           FIELD_END, outcomes[verdict->outcome], FIELD_END,
           verdict->key != NULL ? verdict->key->name : "", FIELD_END,
           verdict->wanted != NULL ? verdict->wanted : "", FIELD_END,
           verdict->got != NULL ? verdict->got : "", FIELD_END);
    print_places(verdict->rule);
    putchar('\n');
}

/* Cuts a line at its separators; returns the number of fields. */
static size_t cut(char *line, char *field[FIELDS])
{
    size_t n = 0;

    line[strcspn(line, "\n")] = '\0';
    while (line != NULL && n < FIELDS) {
        char *end = strchr(line, FIELD_END);

        field[n++] = line;
        if (end != NULL)
            *end++ = '\0';
        line = end;
    }
    return line == NULL ? n : n + 1;
}

static const char *known(const char *field)
{
    return field[0] != '\0' ? field : NULL;
}

static void tell_unknown_api(const char *name)
{
    const char *near = zc_api_nearest(zc_slice_of(name));

    printf("refused%c'%s' is no request that a policy can name", FIELD_END, name);
    if (near != NULL)
        printf(" (nearest: %s)", near);
    putchar('\n');
}

/* The request of a line; false after the answer why it is none. */
static bool read_request(char *field[FIELDS], struct zc_match *request)
{
    uint64_t size = 0;

    memset(request, 0, sizeof *request);
    if (!zc_api_from_name(field[API], &request->api)) {
        tell_unknown_api(field[API]);
        return false;
    }
    if (!zc_size_from_text(field[SIZE], strlen(field[SIZE]), &size)) {
        printf("refused%c'%s' is no size (4096, 64K, 2M, 1G)\n", FIELD_END, field[SIZE]);
        return false;
    }
    request->size = (size_t)size;
    request->module = known(field[MODULE]);
    request->site = (uint32_t)strtoul(field[SITE], NULL, 16);
    request->exe = known(field[EXE]);
    request->thread = known(field[THREAD]);
    request->grown = strcmp(field[GROWN], "yes") == 0;
    request->device = field[DEVICE][0] != '\0' ? atoi(field[DEVICE]) : -1;
    return true;
}

/* Makes this request the nth that fits, for all rules alike. */
static void set_ordinal(const struct zc_policy *policy, const char *nth)
{
    uint64_t before = strtoull(nth, NULL, 10);

    for (size_t i = 0; before > 0 && i < policy->rule_count; i++)
        atomic_store(&policy->rules[i].counters->fits, before - 1);
}

/* False where the line is not even a question. */
static bool answer(const struct zc_policy *policy, char *line)
{
    char *field[FIELDS];
    struct zc_match request;
    const struct zc_rule *rule;

    if (cut(line, field) != FIELDS) {
        fputs("zc: a request has ten fields\n", stderr);
        return false;
    }
    if (read_request(field, &request)) {
        set_ordinal(policy, field[NTH]);
        zc_policy_explain(policy, &request, print_verdict, NULL);
        rule = zc_policy_match(policy, &request);
        printf("end%c%s\n", FIELD_END, rule != NULL ? rule->name : "");
    }
    fflush(stdout); /* Whoever asks waits for the answer before the next question. */
    return true;
}

int tool_explain(int argc, char **argv)
{
    static struct file file;
    char *line = NULL;
    size_t capacity = 0;
    int status = TOOL_OK;

    if (argc != 1) {
        fputs("zc: explain takes one file\n", stderr);
        return TOOL_USAGE;
    }
    if (!file_read(&file, argv[0], TELL_NOTHING))
        return TOOL_FAULTY;
    if (file.errors > 0)
        fprintf(stderr, "zc: %s: %d faulty part%s left out; 'zc check' names them\n", file.path,
                file.errors, file.errors == 1 ? " is" : "s are");
    while (status == TOOL_OK && getline(&line, &capacity, stdin) > 0)
        if (!answer(&file.policy, line))
            status = TOOL_USAGE;
    free(line);
    return status;
}
