/* SPDX-License-Identifier: MIT */
/* Finds the profile of this program: by its build, script, GPU, driver and libzc's version. */
#include "ledger/profile.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/path.h"
#include "base/version.h"

#define LOGS 16u /* Of a program, that wait to be read. */
#define ENDING ".conf"

/* Compiled in: a program may have the library alone. */
__asm__(".pushsection .rodata\n"
        "zc_everyday: .incbin \"policy/presets/everyday.conf\"\n"
        "zc_everyday_end: .popsection\n");
extern const char zc_everyday[] __attribute__((visibility("hidden")));
extern const char zc_everyday_end[] __attribute__((visibility("hidden")));

static struct {
    char path[PATH_MAX]; /* "" without a cache. */
    char text[65536];    /* Of a file, for a moment, and the log's path. */
} profile;               /* Not on the stack: that of a thread may have 16 KiB. */

bool zc_profile_learns(void)
{
    return strcmp(zc_options()->policy, "auto") == 0;
}

bool zc_profile_asked(void)
{
    return zc_profile_learns() || strcmp(zc_options()->policy, "auto-frozen") == 0;
}

const char *zc_profile_taught(void)
{
    return profile.path[0] && zc_profile_learns() ? profile.path : NULL;
}

const char *zc_profile_base(size_t *bytes_out)
{
    *bytes_out = (size_t)((uintptr_t)zc_everyday_end - (uintptr_t)zc_everyday);
    return zc_everyday;
}

/* The first bytes of a file: of an executable they hold its build id. */
static uint64_t add_file(uint64_t key, const char *path)
{
    size_t n = zc_file_text(path, profile.text, sizeof(profile.text));
    return key * 31 + zc_hash(profile.text, n);
}

/* Of an interpreter its script, or the code or module that is named instead. */
static uint64_t add_script(uint64_t key)
{
    struct stat s;
    const char *word = zc_log_script(profile.text, sizeof(profile.text));
    if (!word)
        return key;
    key = key * 31 + zc_hash(word, strlen(word));
    /* Nothing is read of a pipe: the interpreter would miss it. */
    return stat(word, &s) == 0 && S_ISREG(s.st_mode) ? add_file(key, word) : key;
}

/* The model of the first GPU as the bus numbers it: the driver's own file asks the GPU. */
static uint64_t add_gpu(uint64_t key)
{
    glob_t found;
    char device[64];
    struct zc_text path = zc_text_on(device, sizeof(device));
    if (glob("/proc/driver/nvidia/gpus/*", 0, NULL, &found) != 0)
        return key;
    zc_text_fmt(&path, "/sys/bus/pci/devices/%s/device", strrchr(found.gl_pathv[0], '/') + 1);
    zc_text_cstr(&path);
    globfree(&found);
    return add_file(key, device);
}

const char *zc_profile_find(void)
{
    struct zc_text path = zc_text_on(profile.path, sizeof(profile.path));
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    uint64_t key = add_file(zc_hash(ZC_VERSION, strlen(ZC_VERSION)), "/proc/self/exe");
    key = add_gpu(add_file(add_script(key), "/proc/driver/nvidia/version"));
    if (cache && *cache == '/')
        zc_text_str(&path, cache);
    else if (home && *home == '/' && access(home, F_OK) == 0)
        zc_text_fmt(&path, "%s/.cache", home);
    else
        return NULL;
    zc_text_fmt(&path, "/libzc/auto/%s-", zc_log_program());
    zc_text_hex(&path, key, 16);
    zc_text_str(&path, ENDING);
    zc_text_cstr(&path);
    if (path.truncated)
        profile.path[0] = '\0';
    return path.truncated ? NULL : profile.path;
}

/* The folders are made as the XDG Base Directory Specification has it. */
const char *zc_profile_log(void)
{
    struct zc_text log = zc_text_on(profile.text, PATH_MAX);
    bool ready = false;
    if (!zc_profile_taught() || strchr(profile.path, '%'))
        return "off";
    zc_text_raw(&log, profile.path, strlen(profile.path) - strlen(ENDING));
    zc_text_fmt(&log, ".%u.jsonl", (unsigned)getpid() % LOGS);
    zc_text_cstr(&log);
    for (char *slash = profile.text; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = '\0';
        mkdir(profile.text, 0700);
        ready = access(profile.text, W_OK) == 0;
    }
    return ready && access(profile.text, F_OK) != 0 ? profile.text : "off";
}
