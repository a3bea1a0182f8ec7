/* SPDX-License-Identifier: MIT */
/* Results that `zc doctor --measure` has kept of devices that reach pageable memory. */
#include "shared/reach.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/message.h"
#include "memory/device.h"

#define MOST_BYTES ((size_t)32 << 10)
#define ASKED 8u

/* As scripts/zclib/costs.py has it. */
static bool find_file(struct zc_text *path)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    if (cache && cache[0] == '/')
        zc_text_fmt(path, "%s/libzc/views.tsv", cache);
    else if (home && home[0] == '/')
        zc_text_fmt(path, "%s/.cache/libzc/views.tsv", home);
    zc_text_cstr(path);
    return path->len && !path->truncated;
}

/* Only what nobody but this user, or root, can have written. */
static const char *read_file(const char *path, char *out)
{
    struct stat s;
    int fd = zc_file_open(path, O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return "is not there, or can't be read";
    bool trusted = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
                   (s.st_uid == geteuid() || s.st_uid == 0) && !(s.st_mode & (S_IWGRP | S_IWOTH)) &&
                   (size_t)s.st_size < MOST_BYTES;
    ssize_t n = trusted ? zc_file_read(fd, out, MOST_BYTES - 1) : 0;
    zc_file_close(fd);
    out[n > 0 ? n : 0] = '\0';
    return trusted ? NULL : "is ignored: it must be a file of this user's alone, below 32 KiB";
}

/* The whole line as scripts/zclib/doctor/views.py writes it; the first one says what the file is.
 */
static bool was_exact(const char *text, int device)
{
    char name[256] = "?", line[1024];
    int version = 0;
    struct zc_text t = zc_text_on(line, sizeof(line));
    zc_real.cuDeviceGetName(name, sizeof(name), device);
    zc_real.cuDriverGetVersion(&version);
    zc_text_str(&t, "\nexact 1\t");
    zc_reach_machine(&t, name, version);
    zc_text_str(&t, "\t");
    const char *found = strstr(text, zc_text_cstr(&t));
    return found && strchr(found + 1, '\n');
}

/* `reaching`: a bit for each device that does. */
static bool all_exact(uint64_t reaching)
{
    char name[4096];
    struct zc_text path = zc_text_on(name, sizeof(name));
    char *text = zc_arena_get(MOST_BYTES);
    const char *why = "has no folder (HOME, XDG_CACHE_HOME)";
    if (text && find_file(&path))
        why = read_file(name, text);
    for (int i = 0; i < 64 && !why; i++)
        if (reaching >> i & 1 && !was_exact(text, i))
            why = "does not say that they are exact with this GPU, driver and kernel";
    zc_arena_put(text, MOST_BYTES);
    if (why && zc_message_first("reach"))
        zc_message(ZC_NOTE, "reach",
                   "'shared' makes no pairs, because a device reaches pageable memory (HMM, ATS) "
                   "and %s %s: run 'zc doctor --measure'",
                   path.len ? name : "views.tsv", why);
    return !why;
}

static uint32_t reach_look(void)
{
    uint64_t reaching = 0;
    uint32_t found = ASKED;
    int devices = 0;
    zc_real.cuDeviceGetCount(&devices);
    for (int i = 0; i < devices && i < 64; i++) {
        bool ats =
            zc_device_has(i, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
        if (!ats && !zc_device_has(i, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
            continue;
        reaching |= UINT64_C(1) << i;
        found |= ZC_REACH_ANY | (ats ? ZC_REACH_ATS : 0);
    }
    return reaching && all_exact(reaching) ? found | ZC_REACH_EXACT : found;
}

uint32_t zc_reach(void)
{
    static uint32_t known; /* Atomic. */
    uint32_t found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!found) {
        found = reach_look();
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found;
}

bool zc_reach_show(uintptr_t base, size_t span, uintptr_t *window)
{
    void *second = zc_reach() & ZC_REACH_EXACT
                       ? zc_memory_move((void *)base, 0, span, MREMAP_MAYMOVE, NULL)
                       : MAP_FAILED;
    if (second == MAP_FAILED)
        return false;
    bool shown = zc_memory_protect((void *)base, span, PROT_READ) == 0;
    if (!shown)
        zc_memory_unmap(second, span);
    *window = shown ? (uintptr_t)second : 0;
    return shown;
}
