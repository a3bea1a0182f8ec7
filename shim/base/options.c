/* SPDX-License-Identifier: MIT */
/* Reads the environment variables into the table of options. */
#include "base/options.h"

#include "base/job.h"
#include "base/message.h"
#include "policy/policy.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Bytes for copies of all values; a path has at most PATH_MAX, 4096. */
#define STORE 16384

struct option {
    size_t offset;        /* Offset of the field in struct zc_options. */
    const char *variable; /* Environment variable. */
    const char *fallback; /* Value if the variable is not set. */
};

static const struct option table[] = {
#define ROW(field, variable, def, help) {offsetof(struct zc_options, field), variable, def},
    ZC_OPTIONS(ROW)
#undef ROW
};
#define TABLE_SIZE (sizeof(table) / sizeof(table[0]))

static struct zc_options options = {
#define DEFAULT(field, variable, def, help) .field = def,
    ZC_OPTIONS(DEFAULT)
#undef DEFAULT
};
static struct {
    bool ignored[TABLE_SIZE]; /* Set by zc_options_read() for values without meaning. */
    size_t stored;            /* Bytes of `store` in use. */
    char store[STORE];
} values;

static bool is_one_of(const char *const words[], const char *value)
{
    for (; *words != NULL; words++)
        if (strcmp(value, *words) == 0)
            return true;
    return false;
}

bool zc_option_on(const char *value)
{
    static const char *const on[] = {"1", "yes", "on", "true", NULL};
    return is_one_of(on, value);
}

/* Only switches have a default that is not empty. */
static bool is_switch(const struct option *option)
{
    return option->fallback[0] != 0;
}

static bool is_meant(const struct option *option, const char *value)
{
    static const char *const off[] = {"0", "no", "off", "false", NULL};
    return !is_switch(option) || zc_option_on(value) || is_one_of(off, value);
}

/* Copies a value; NULL if it has no meaning, or there is no room for it. */
static const char *keep_value(const struct option *option, const char *value)
{
    size_t n = strlen(value) + 1;
    char *copy = values.store + values.stored;
    if (!is_meant(option, value) || n > STORE - values.stored)
        return NULL;
    memcpy(copy, value, n);
    values.stored += n;
    return copy;
}

const struct zc_options *zc_options_read(void)
{
    values.stored = 0;
    options.secure = getauxval(AT_SECURE) != 0;
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        const char *value = options.secure ? NULL : secure_getenv(table[i].variable);
        bool given = value != NULL && value[0] != 0;
        const char *kept = given ? keep_value(&table[i], value) : NULL;
        values.ignored[i] = given && kept == NULL;
        *(const char **)((char *)&options + table[i].offset) =
            kept != NULL ? kept : table[i].fallback;
    }
    zc_job_read();
    return &options;
}

/* Without the prefix, which would make short names similar. */
#define PREFIX "ZC_"
#define PREFIX_BYTES (sizeof(PREFIX) - 1)
#define NAME_BYTES 44 /* With the final 0; longer names are similar to none. */

static const char *const names[] = {
#define NAME(field, variable, def, help) &(variable)[PREFIX_BYTES],
    ZC_OPTIONS(NAME)
#undef NAME
        NULL};

/* Names the variable of an entry of the environment if it is nearly one of libzc's: a policy named
 * by ZC_POLCY would otherwise be ignored silently. */
static void check_name(const char *entry)
{
    char name[NAME_BYTES] = "";
    size_t n = strcspn(entry, "=");
    if (n >= NAME_BYTES || strncasecmp(entry, PREFIX, PREFIX_BYTES) != 0)
        return;
    memcpy(name, entry, n);
    const char *rest = name + PREFIX_BYTES, *near = zc_policy_nearest(rest, names, TABLE_SIZE);
    if (near && !(is_one_of(names, rest) && strncmp(name, PREFIX, PREFIX_BYTES) == 0))
        zc_message(ZC_WARN, "options", "the variable %s is not one of libzc's (nearest: ZC_%s)",
                   name, near);
}

void zc_options_announce(void)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        const char *name = table[i].variable, *value = secure_getenv(name);
        if (values.ignored[i] && is_switch(&table[i]))
            zc_message(ZC_WARN, "options", "%s=%s is neither 1 nor 0", name, value ? value : "");
        else if (values.ignored[i])
            zc_message(ZC_WARN, "options", "%s is too long and was ignored", name);
    }
    for (char **entry = environ; entry && *entry; entry++)
        check_name(*entry);
}

const struct zc_options *zc_options(void)
{
    return &options;
}
