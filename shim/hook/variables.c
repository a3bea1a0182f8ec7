/* SPDX-License-Identifier: MIT */
/* Warns of environment variables with mistyped names. */
#include "hook/variables.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/options.h"
#include "policy/policy.h"

#define PREFIX "ZC_"
#define PREFIX_BYTES (sizeof(PREFIX) - 1)
#define NAME_BYTES 44 /* With the final 0; longer names are similar to none. */

/* Without the prefix, which would make short names similar. */
static const char *const known[] = {
#define NAME(field, variable, def, help) &(variable)[PREFIX_BYTES],
    ZC_OPTIONS(NAME)
#undef NAME
};
#define KNOWN (sizeof(known) / sizeof(known[0]))

static bool is_known(const char *rest)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(rest, known[i]) == 0)
            return true;
    return false;
}

void zc_variables_check(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[NAME_BYTES] = "";
        size_t n = strcspn(*entry, "=");
        if (n >= NAME_BYTES || strncasecmp(*entry, PREFIX, PREFIX_BYTES) != 0)
            continue;
        memcpy(name, *entry, n);
        const char *rest = name + PREFIX_BYTES, *near = zc_policy_nearest(rest, known, KNOWN);
        if (near && !(is_known(rest) && strncmp(name, PREFIX, PREFIX_BYTES) == 0))
            zc_message(ZC_WARN, "options", "the variable %s is not one of libzc's (nearest: ZC_%s)",
                       name, near);
    }
}
