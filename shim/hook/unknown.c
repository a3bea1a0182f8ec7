/* SPDX-License-Identifier: MIT */
/*
 * Before a driver call that libzc does not know, the memory of rules is made what the program
 * believes it to be.  The trampoline jumps to the driver, so nothing of libzc's runs behind the
 * call: whatever it gives the GPU or waits for, libzc needs no part in it.
 */
#include <string.h>

#include "base/life.h"
#include "base/message.h"
#include "base/own.h"
#include "base/text.h"
#include "base/version.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/unknown.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "log/summary.h"
#include "place/verbs.h"

/* The newest CUDA of which libzc knows all values that calls are given. */
#define KNOWN 13040

static ZC_OWN bool said[ZC_FN_COUNT + ZC_UNKNOWN_SLOTS]; /* By function.  Atomic. */

/* Without rules nothing changes but the log. */
static void unknown_say(enum zc_fn fn, const char *what)
{
    char text[256];
    if (zc_rules()->rule_count) {
        zc_message(ZC_WARN, "unknown",
                   "libzc %s does not know %s%s, so it prepares all memory of rules for any use "
                   "before each such call, and from here on pins no blocks with 'async = staged' "
                   "and makes no pairs; a newer libzc may know it",
                   ZC_VERSION, what, zc_fn_name(fn));
        return;
    }
    struct zc_text line = zc_text_on(text, sizeof(text));
    zc_text_fmt(&line, "libzc %s does not know %s%s", ZC_VERSION, what, zc_fn_name(fn));
    zc_log_warn(ZC_NOTE, "unknown", zc_text_cstr(&line));
}

/* Makes the memory of rules ready for whatever a call does with it.  `what` of it is unknown. */
static CUresult unknown_prepare(enum zc_fn fn, const char *what)
{
    __atomic_fetch_add(&zc_log_unknown.calls, 1, __ATOMIC_RELAXED);
    if (!__atomic_exchange_n(&said[fn], true, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&zc_log_unknown.functions, 1, __ATOMIC_RELAXED);
        unknown_say(fn, what);
    }
    return zc_rules()->rule_count ? zc_place_expose(fn) : CUDA_SUCCESS;
}

CUresult zc_unknown_value(enum zc_fn fn)
{
    int version = 0;
    bool newer = zc_real.cuDriverGetVersion(&version) == CUDA_SUCCESS && version > KNOWN;
    return newer ? unknown_prepare(fn, "a value that was given to ") : CUDA_SUCCESS;
}

/* "Recapture", too. */
static bool begins_capture(const char *name)
{
    return strstr(name, "Begin") && strstr(name, "apture");
}

/* Before the first call that libzc knows there is nothing to prepare. */
CUresult zc_unknown_call(enum zc_fn fn)
{
    if (__atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) != ZC_LIFE_ON)
        return CUDA_SUCCESS;
    zc_launch_forget(); /* It may unload code. */
    CUresult result = unknown_prepare(fn, "");
    if (result == CUDA_SUCCESS && begins_capture(zc_fn_name(fn)))
        zc_capture_begun(NULL);
    return result;
}

struct zc_choice zc_unknown_before(unsigned slot)
{
    CUresult result = zc_unknown_call((enum zc_fn)(ZC_FN_COUNT + slot));
    return result == CUDA_SUCCESS ? (struct zc_choice){zc_unknown_real(slot), NULL}
                                  : (struct zc_choice){(void *)(uintptr_t)result, (void *)1};
}
