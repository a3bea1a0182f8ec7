/* SPDX-License-Identifier: MIT */
/* What the host, and the control groups that limit this process, leave of memory. */
#include "memory/cgroup.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"

/* The first version writes a number near 2^63 where there is no limit, the second the word max. */
#define NO_LIMIT ((uint64_t)1 << 60)

struct version {
    const char *mount, *most, *high, *held; /* The folder, its files, */
    const char *cache;                      /* a word of its memory.stat. */
};
/* Above `high` the kernel slows its processes down, to a standstill where nothing can be taken
 * back. */
static const struct version second = {"/sys/fs/cgroup", "memory.max", "memory.high",
                                      "memory.current", "\ninactive_file "};
static const struct version first = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                     "memory.limit_in_bytes", "memory.usage_in_bytes",
                                     "\ntotal_inactive_file "};

/* Stacks of threads may be small.  The text has a path for each controller. */
static char path[4096], text[32768];

/* True if the comma-separated controllers of a line of /proc/self/cgroup have `memory`. */
static bool names_memory(const char *list, const char *end)
{
    for (const char *at = list; at < end; at++)
        if ((at == list || at[-1] == ',') && strncmp(at, "memory", 6) == 0 &&
            (at[6] == ',' || at[6] == ':'))
            return true;
    return false;
}

/* Finds the process's own group in /proc/self/cgroup, whose lines are NUMBER:CONTROLLERS:PATH; the
 * second version has number 0 and no controllers.  Returns the path in `text`; NULL if there is
 * none. */
static char *own_group(const struct version **version)
{
    char *own = NULL;
    if (!zc_file_text("/proc/self/cgroup", text, sizeof(text)))
        return NULL;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        bool memory = names_memory(list + 1, group);
        if (memory || (strncmp(line, "0::", 3) == 0 && !own)) {
            *version = memory ? &first : &second;
            own = group + 1;
        }
        if (memory)
            break;
    }
    return own;
}

static const char *file_of(const struct version *version, const char *group, const char *name)
{
    struct zc_text t = zc_text_on(path, sizeof(path));
    zc_text_fmt(&t, "%s%s/%s", version->mount, group, name);
    return t.truncated ? "" : zc_text_cstr(&t);
}

/* Files that were read count as held, but the kernel takes them back first. */
static uint64_t cached(const struct version *version, const char *group)
{
    static char stat[8192];
    uint64_t bytes = 0;
    if (zc_file_text(file_of(version, group, "memory.stat"), stat, sizeof(stat)))
        zc_number_behind(stat, version->cache, &bytes);
    return bytes;
}

/* NO_LIMIT if there is none. */
static uint64_t bytes_in(const char *file)
{
    uint64_t bytes;
    return zc_file_number(file, "", &bytes) && bytes < NO_LIMIT ? bytes : NO_LIMIT;
}

static bool limit_of(const struct version *version, const char *group, struct zc_cgroup *out)
{
    uint64_t held, most = bytes_in(file_of(version, group, version->most));
    uint64_t high = bytes_in(file_of(version, group, version->high));
    struct stat folder;
    most = high < most ? high : most;
    if (most == NO_LIMIT || !zc_file_number(file_of(version, group, version->held), "", &held) ||
        stat(file_of(version, group, ""), &folder) != 0)
        return false;
    uint64_t cache = cached(version, group);
    held -= cache < held ? cache : held;
    *out = (struct zc_cgroup){folder.st_ino, most > held ? most - held : 0};
    return true;
}

static unsigned add(struct zc_cgroup *out, unsigned n, unsigned cap, struct zc_cgroup group)
{
    unsigned most = n;
    if (n < cap) {
        out[n] = group;
        return n + 1;
    }
    for (unsigned i = 0; i < n; i++)
        if (out[i].left > group.left && (most == n || out[i].left > out[most].left))
            most = i;
    if (most == n)
        return n;
    memmove(&out[most], &out[most + 1], (n - most - 1) * sizeof(*out));
    out[n - 1] = group;
    return n;
}

/* A container may see its group's path on the host, but its own group as the top folder: then only
 * the last step finds files. */
unsigned zc_cgroup_limits(struct zc_cgroup *out, unsigned cap)
{
    const struct version *version = NULL;
    unsigned n = 0;
    char *group = own_group(&version);
    if (!group)
        return 0;
    if (strstr(group, "/..")) /* It lies outside of what is mounted here. */
        *group = '\0';
    for (char *slash; cap; *slash = '\0') {
        struct zc_cgroup found;
        if (strcmp(group, "/") == 0)
            *group = '\0';
        if (limit_of(version, group, &found))
            n = add(out, n, cap, found);
        slash = strrchr(group, '/');
        if (!slash)
            break;
    }
    return n;
}

uint64_t zc_available(struct zc_available *out)
{
    uint64_t kib = 0;
    out->host = zc_file_number("/proc/meminfo", "MemAvailable:", &kib) ? kib << 10 : 0;
    out->groups = zc_cgroup_limits(out->group, ZC_CGROUPS);
    uint64_t least = out->host;
    for (unsigned i = 0; i < out->groups; i++)
        least = out->group[i].left < least ? out->group[i].left : least;
    return least;
}
