/* SPDX-License-Identifier: MIT */
/* Memory that the host, and the control groups that limit this process, have left. */
#include "memory/cgroup.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/lock.h"
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

static ZC_LOCK(cgroup_lock, ZC_RANK_CGROUP);

/* Stacks of threads may be small.  Under the lock. */
static struct {
    char path[4096];  /* Of the file that is read. */
    char text[32768]; /* Of /proc/self/cgroup, which has a path for each controller. */
    char stat[8192];  /* Of memory.stat. */
} cgroup;

/* True if the comma-separated controllers of a line of /proc/self/cgroup have `memory`. */
static bool cgroup_names_memory(const char *list, const char *end)
{
    for (const char *at = list; at < end; at++)
        if ((at == list || at[-1] == ',') && strncmp(at, "memory", 6) == 0 &&
            (at[6] == ',' || at[6] == ':'))
            return true;
    return false;
}

/* Finds the process's own group in /proc/self/cgroup, whose lines are NUMBER:CONTROLLERS:PATH; the
 * second version has number 0 and no controllers.  Returns the path in cgroup.text; NULL if there
 * is none. */
static char *cgroup_own_group(const struct version **version)
{
    char *own = NULL;
    if (!zc_file_text("/proc/self/cgroup", cgroup.text, sizeof(cgroup.text)))
        return NULL;
    for (char *line = cgroup.text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        bool memory = cgroup_names_memory(list + 1, group);
        if (memory || (strncmp(line, "0::", 3) == 0 && !own)) {
            *version = memory ? &first : &second;
            own = group + 1;
        }
        if (memory)
            break;
    }
    return own;
}

static const char *cgroup_file_of(const struct version *version, const char *group,
                                  const char *name)
{
    struct zc_text t = zc_text_on(cgroup.path, sizeof(cgroup.path));
    zc_text_fmt(&t, "%s%s/%s", version->mount, group, name);
    return t.truncated ? "" : zc_text_cstr(&t);
}

/* Files that were read count as held, but the kernel takes them back first. */
static uint64_t cgroup_cached(const struct version *version, const char *group)
{
    uint64_t bytes = 0;
    if (zc_file_text(cgroup_file_of(version, group, "memory.stat"), cgroup.stat,
                     sizeof(cgroup.stat)))
        zc_number_behind(cgroup.stat, version->cache, &bytes);
    return bytes;
}

/* NO_LIMIT if there is none. */
static uint64_t cgroup_bytes_in(const char *file)
{
    uint64_t bytes;
    return zc_file_number(file, "", &bytes) && bytes < NO_LIMIT ? bytes : NO_LIMIT;
}

/* Bytes that a group leaves. */
static uint64_t cgroup_left_of(const struct version *version, const char *group)
{
    uint64_t held, most = cgroup_bytes_in(cgroup_file_of(version, group, version->most));
    uint64_t high = cgroup_bytes_in(cgroup_file_of(version, group, version->high));
    most = high < most ? high : most;
    if (most == NO_LIMIT ||
        !zc_file_number(cgroup_file_of(version, group, version->held), "", &held))
        return UINT64_MAX;
    uint64_t cache = cgroup_cached(version, group);
    held -= cache < held ? cache : held;
    return most > held ? most - held : 0;
}

/* A container may see its group's path on the host, but its own group as the top folder: then only
 * the last step finds files. */
static uint64_t cgroup_least(void)
{
    const struct version *version = NULL;
    uint64_t least = UINT64_MAX;
    char *group = cgroup_own_group(&version);
    if (!group)
        return least;
    if (strstr(group, "/..")) /* It lies outside of what is mounted here. */
        *group = '\0';
    if (strcmp(group, "/") == 0)
        *group = '\0';
    for (char *slash;; *slash = '\0') {
        uint64_t left = cgroup_left_of(version, group);
        least = left < least ? left : least;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
    }
}

uint64_t zc_cgroup_left(void)
{
    if (!zc_lock_take(&cgroup_lock))
        return 0;
    uint64_t left = cgroup_least();
    zc_lock_drop(&cgroup_lock);
    return left;
}

uint64_t zc_available(void)
{
    uint64_t kib, left = zc_cgroup_left();
    uint64_t host = zc_file_number("/proc/meminfo", "MemAvailable:", &kib) ? kib << 10 : 0;
    return host < left ? host : left;
}
