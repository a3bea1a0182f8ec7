/* SPDX-License-Identifier: MIT */
/*
 * zc-policy set FILE RULE.KEY=VALUE...: prints the file with these values; zc-policy get FILE
 * RULE.KEY prints one. RULE is the name of a rule, or `defaults` for the section of that name. A
 * key that is there gets the value, and one that is not is added behind the section's head;
 * comments stay. The result is parsed, so that a fault is told before anything runs under it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/internal.h"
#include "tools/policy/policy_tool.h"

/* One RULE.KEY=VALUE. */
struct setting {
    struct zc_slice rule;  /* name of the rule, or "defaults" */
    struct zc_slice key;   /* name of the key */
    struct zc_slice value; /* the text after the equals sign, trimmed */
};

/* The place of a setting in a text. */
struct spot {
    size_t head_end;       /* offset behind the line of the section's head; 0: no such section */
    struct zc_slice value; /* the key's value; at == NULL where the key is not given */
};

/* RULE.KEY=VALUE, or RULE.KEY where no value is wanted. Rule names may hold dots, keys none. */
static bool read_setting(const char *argument, bool with_value, struct setting *out)
{
    struct zc_slice left;
    size_t dot;

    zc_slice_split(zc_slice_of(argument), '=', &left, &out->value);
    for (dot = left.n; dot > 0 && left.at[dot - 1] != '.'; dot--)
        ;
    if (dot < 2 || dot == left.n || (out->value.n > 0) != with_value) {
        fprintf(stderr, "zc: '%s' is not of the form RULE.KEY%s\n", argument,
                with_value ? "=VALUE" : "");
        return false;
    }
    out->rule = (struct zc_slice){left.at, dot - 1};
    out->key = (struct zc_slice){left.at + dot, left.n - dot};
    return true;
}

static bool same(struct zc_slice a, struct zc_slice b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

/* Whether a line without comment is the head of the setting's section. */
static bool is_head(struct zc_slice line, const struct setting *setting)
{
    struct zc_slice inner;

    if (line.n < 2 || line.at[0] != '[' || line.at[line.n - 1] != ']')
        return false;
    inner = zc_slice_trim((struct zc_slice){line.at + 1, line.n - 2});
    if (zc_slice_is(setting->rule, "defaults"))
        return zc_slice_is(inner, "defaults");
    if (inner.n < 5 || memcmp(inner.at, "rule", 4) != 0 ||
        (inner.at[4] != ' ' && inner.at[4] != '\t'))
        return false;
    return same(zc_slice_trim((struct zc_slice){inner.at + 4, inner.n - 4}), setting->rule);
}

static struct spot find(struct zc_slice text, const struct setting *setting)
{
    struct spot spot = {0, {NULL, 0}};
    struct zc_slice rest = text, raw, name, value;
    bool inside = false;

    while (zc_slice_next_line(&rest, &raw)) {
        struct zc_slice line = zc_slice_trim(zc_slice_without_comment(raw));

        if (line.n > 0 && line.at[0] == '[') {
            if (inside)
                break;
            inside = is_head(line, setting);
            if (inside)
                spot.head_end = (size_t)(rest.at - text.at);
        } else if (inside && zc_slice_split(line, '=', &name, &value) && same(name, setting->key)) {
            spot.value = value;
            break;
        }
    }
    return spot;
}

/* The nearest rule's name, for a message; NULL where none is near. */
static const char *nearest_rule(const struct zc_policy *policy, struct zc_slice name)
{
    struct zc_nearest nearest;

    zc_nearest_start(&nearest, name);
    for (size_t i = 0; i < policy->rule_count; i++)
        zc_nearest_offer(&nearest, policy->rules[i].name);
    return nearest.best;
}

/* Tells that the file has no rule of the setting's name. */
static void say_missing(const struct file *file, const struct setting *setting)
{
    const char *near = nearest_rule(&file->policy, setting->rule);

    fprintf(stderr, "zc: %s has no rule '%.*s'%s%s%s\n", file->path, (int)setting->rule.n,
            setting->rule.at, near != NULL ? " (nearest: " : "", near != NULL ? near : "",
            near != NULL ? ")" : "");
}

/* The text with the setting, in new memory; NULL after a message. A [defaults] that is missing is
 * added at the end, so that the rules keep their line numbers. */
static char *apply(const struct file *file, struct zc_slice text, const struct setting *setting,
                   size_t *size_out)
{
    struct spot spot = find(text, setting);
    bool defaults = zc_slice_is(setting->rule, "defaults"), missing = spot.head_end == 0;
    size_t room = text.n + setting->key.n + setting->value.n + 32;
    size_t before, after;
    char *out;
    int n;

    if (missing && !defaults) {
        say_missing(file, setting);
        return NULL;
    }
    out = malloc(room);
    if (out == NULL)
        return NULL;
    before = spot.value.at != NULL ? (size_t)(spot.value.at - text.at)
             : missing             ? text.n
                                   : spot.head_end;
    after = before + (spot.value.at != NULL ? spot.value.n : 0);
    memcpy(out, text.at, before);
    if (spot.value.at != NULL)
        n = snprintf(out + before, room - before, "%.*s", (int)setting->value.n, setting->value.at);
    else /* The line before may be the last one and lack its line end. */
        n = snprintf(out + before, room - before, "%s%s%.*s = %.*s\n",
                     before == 0 || text.at[before - 1] == '\n' ? "" : "\n",
                     missing ? "\n[defaults]\n" : "", (int)setting->key.n, setting->key.at,
                     (int)setting->value.n, setting->value.at);
    memcpy(out + before + n, text.at + after, text.n - after);
    *size_out = text.n - (after - before) + (size_t)n;
    return out;
}

/* Tells faults of the edited text on stderr; they can only come from the settings, because the file
 * had none. */
static void report(void *ctx, enum zc_policy_severity severity, unsigned line, unsigned column,
                   const char *message)
{
    (void)column;
    if (severity == ZC_SEVERITY_ERROR)
        fprintf(stderr, "zc: %s with --set, line %u: %s\n", (const char *)ctx, line, message);
}

static bool still_right(struct file *file, const char *text, size_t size)
{
    struct zc_policy_memory memory = {.size = zc_policy_memory_for(size)};
    struct zc_policy policy;
    int errors;

    memory.base = malloc(memory.size);
    if (memory.base == NULL)
        return false;
    errors = zc_policy_parse(file->path, text, size, &memory, report, file->path, &policy);
    free(memory.base);
    return errors == 0;
}

int tool_get(int argc, char **argv)
{
    static struct file file;
    struct setting setting;
    struct zc_slice value;

    if (argc != 2) {
        fputs("zc: get takes a file and a key\n", stderr);
        return TOOL_USAGE;
    }
    if (!read_setting(argv[1], false, &setting))
        return TOOL_USAGE;
    if (!file_read(&file, argv[0], TELL_NOTHING))
        return TOOL_FAULTY;
    value = find((struct zc_slice){file.text, file.size}, &setting).value;
    if (value.at == NULL)
        return TOOL_FAULTY;
    printf("%.*s\n", (int)value.n, value.at);
    return TOOL_OK;
}

int tool_set(int argc, char **argv)
{
    static struct file file;
    struct setting setting;
    char *text;
    size_t size;

    if (argc < 1) {
        fputs("zc: set takes a file and settings\n", stderr);
        return TOOL_USAGE;
    }
    if (!file_read(&file, argv[0], TELL_NOTHING))
        return TOOL_FAULTY;
    if (file.errors > 0) {
        fprintf(stderr, "zc: %s has faults; 'zc check' names them\n", file.path);
        return TOOL_FAULTY;
    }
    text = file.text;
    size = file.size;
    for (int i = 1; i < argc; i++) {
        if (!read_setting(argv[i], true, &setting))
            return TOOL_USAGE;
        text = apply(&file, (struct zc_slice){text, size}, &setting, &size);
        if (text == NULL)
            return TOOL_FAULTY;
    }
    if (!still_right(&file, text, size))
        return TOOL_FAULTY;
    return fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0 ? TOOL_OK : TOOL_FAULTY;
}
