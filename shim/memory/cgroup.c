/* SPDX-License-Identifier: MIT */
/* Memory and processors that the host, and this process's control groups, have left. */
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

/* Bytes that a group has left, or processors that it may use. */
typedef uint64_t left_fn(const struct version *version, const char *group);

struct controller {
    const char *name;
    struct version first, second;
    left_fn *left;
};

static ZC_LOCK(cgroup_lock, ZC_RANK_CGROUP);

/* Stacks of threads may be small.  Under the lock. */
static struct {
    char path[4096];  /* Of the file that is read. */
    char text[32768]; /* Of /proc/self/cgroup, which has a path for each controller. */
    char stat[8192];  /* Of memory.stat. */
} cgroup;

/* True if the comma-separated controllers of a line of /proc/self/cgroup have this one. */
static bool cgroup_names(const char *list, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at < end; at++)
        if ((at == list || at[-1] == ',') && strncmp(at, name, n) == 0 &&
            (at[n] == ',' || at[n] == ':'))
            return true;
    return false;
}

/* Finds the process's own group in /proc/self/cgroup, whose lines are NUMBER:CONTROLLERS:PATH; the
 * second version has number 0 and no controllers.  Returns the path in cgroup.text; NULL if there
 * is none. */
static char *cgroup_own_group(const struct controller *of, const struct version **version)
{
    char *own = NULL;
    if (!zc_file_text("/proc/self/cgroup", cgroup.text, sizeof(cgroup.text)))
        return NULL;
    for (char *line = cgroup.text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        bool named = cgroup_names(list + 1, group, of->name);
        if (named || (strncmp(line, "0::", 3) == 0 && !own)) {
            *version = named ? &of->first : &of->second;
            own = group + 1;
        }
        if (named)
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

/* Above `high` the kernel slows a group's processes down, to a standstill where nothing can be
 * taken back. */
static uint64_t cgroup_memory_of(const struct version *version, const char *group)
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

/* A time, and of each such time what all threads of a group may run: in one file, or in two. */
static uint64_t cgroup_processors_of(const struct version *version, const char *group)
{
    uint64_t quota, period;
    const char *behind;
    if (!zc_file_text(cgroup_file_of(version, group, version->most), cgroup.stat,
                      sizeof(cgroup.stat)) ||
        !zc_number_behind(cgroup.stat, "", &quota))
        return UINT64_MAX;
    bool told = version->held
                    ? zc_file_number(cgroup_file_of(version, group, version->held), "", &period)
                    : (behind = strchr(cgroup.stat, ' ')) && zc_number_behind(behind, "", &period);
    return told && quota && period ? quota / period + (quota % period != 0) : UINT64_MAX;
}

static const struct controller memory = {
    "memory",
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "\ntotal_inactive_file "},
    {"/sys/fs/cgroup", "memory.max", "memory.high", "memory.current", "\ninactive_file "},
    cgroup_memory_of};
static const struct controller processors = {
    "cpu",
    {.mount = "/sys/fs/cgroup/cpu", .most = "cpu.cfs_quota_us", .held = "cpu.cfs_period_us"},
    {.mount = "/sys/fs/cgroup", .most = "cpu.max"},
    cgroup_processors_of};

/* A container may see its group's path on the host, but its own group as the top folder: then only
 * the last step finds files. */
static uint64_t cgroup_least(const struct controller *of)
{
    const struct version *version = NULL;
    uint64_t least = UINT64_MAX;
    char *group = cgroup_own_group(of, &version);
    if (!group)
        return least;
    if (strstr(group, "/..")) /* It lies outside of what is mounted here. */
        *group = '\0';
    if (strcmp(group, "/") == 0)
        *group = '\0';
    for (char *slash;; *slash = '\0') {
        uint64_t left = of->left(version, group);
        least = left < least ? left : least;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
    }
}

uint64_t zc_cgroup_left(void)
{
    ZC_LOCK_HELD(mine, &cgroup_lock);
    return mine ? cgroup_least(&memory) : 0;
}

uint64_t zc_cgroup_processors(void)
{
    ZC_LOCK_HELD(mine, &cgroup_lock);
    return mine ? cgroup_least(&processors) : UINT64_MAX;
}
