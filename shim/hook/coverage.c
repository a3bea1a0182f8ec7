/* SPDX-License-Identifier: MIT */
/* Records memory entry points that programs ask for and libzc does not hook. */
#include "hook/coverage.h"

#include <stdint.h>
#include <string.h>

#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/text.h"

#define MISSED_MAX 64 /* Names that are stored; others are only counted. */
#define NAME_MAX_BYTES 64

static struct {
    uint32_t used; /* 1: the name is complete. */
    char name[NAME_MAX_BYTES];
} missed[MISSED_MAX];
static uint32_t next_missed;
static uint64_t caught_count, alone_count, other_count;

static const struct {
    const char *name;
    const char *reason;
} alone[] = {
#define ZC_PASSTHROUGH(name, reason) {#name, reason},
#include "passthrough.def"
#undef ZC_PASSTHROUGH
};

/* Length of a name without suffixes such as _v2 and _ptsz. */
static size_t stem(const char *symbol)
{
    size_t n = strlen(symbol);
    if (n > 5 && (!memcmp(symbol + n - 5, "_ptsz", 5) || !memcmp(symbol + n - 5, "_ptds", 5)))
        n -= 5;
    if (n > 3 && symbol[n - 3] == '_' && symbol[n - 2] == 'v' && symbol[n - 1] >= '0' &&
        symbol[n - 1] <= '9')
        n -= 3;
    return n;
}

const char *zc_coverage_passthrough(const char *symbol)
{
    size_t n = stem(symbol);
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
        if (!strncmp(alone[i].name, symbol, n) && !alone[i].name[n])
            return alone[i].reason;
    return NULL;
}

bool zc_coverage_is_memory(const char *symbol)
{
    static const char *const starts[] = {
        "cuArray",           "cuMipmappedArray",   "cuPointer",
        "cuModuleGetGlobal", "cuLibraryGetGlobal", "cuIpcGetMem",
        "cuIpcOpenMem",      "cuIpcCloseMem",      "cuTexRefSetAddress"};
    if (strstr(symbol, "Mem") || strstr(symbol, "StreamWriteValue"))
        return true;
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (!strncmp(symbol, starts[i], strlen(starts[i])))
            return true;
    return false;
}

void zc_coverage_note(const char *symbol, bool caught)
{
    if (caught) {
        __atomic_fetch_add(&caught_count, 1, __ATOMIC_RELAXED);
    } else if (!zc_coverage_is_memory(symbol)) {
        __atomic_fetch_add(&other_count, 1, __ATOMIC_RELAXED);
    } else if (zc_coverage_passthrough(symbol)) {
        __atomic_fetch_add(&alone_count, 1, __ATOMIC_RELAXED);
    } else {
        uint32_t i = __atomic_fetch_add(&next_missed, 1, __ATOMIC_RELAXED);
        if (i >= MISSED_MAX)
            return;
        strncpy(missed[i].name, symbol, NAME_MAX_BYTES - 1);
        __atomic_store_n(&missed[i].used, 1, __ATOMIC_RELEASE);
    }
}

static void coverage_finish(void)
{
    if (!zc_option_on(zc_options()->debug))
        return;
    char buffer[2048];
    struct zc_text text = zc_text_on(buffer, sizeof(buffer));
    uint32_t n = __atomic_load_n(&next_missed, __ATOMIC_ACQUIRE);
    zc_text_fmt(&text, "coverage: %U caught, %U left alone, %U not about memory, %u missed",
                caught_count, alone_count, other_count, n);
    for (uint32_t i = 0; i < n && i < MISSED_MAX; i++)
        if (__atomic_load_n(&missed[i].used, __ATOMIC_ACQUIRE))
            zc_text_fmt(&text, " %s", missed[i].name);
    zc_message(ZC_DEBUG, "coverage", "%s", zc_text_cstr(&text));
}

const struct zc_module zc_module_coverage = {.finish = coverage_finish};
