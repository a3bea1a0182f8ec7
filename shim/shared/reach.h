/* SPDX-License-Identifier: MIT */
/* Devices that reach pageable memory, by HMM or ATS: kernels may be given host blocks as well. */
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/text.h"

enum {
    ZC_REACH_ANY = 1,   /* A device reaches pageable memory, */
    ZC_REACH_ATS = 2,   /* by the CPU's page table, which mapped device memory switches off for the
                         * ZC_REACH_GRANULE around it. */
    ZC_REACH_EXACT = 4, /* Pairs are exact all the same: `zc doctor --measure` has found that on
                         * each such device, with this driver and kernel. */
};
#define ZC_REACH_GRANULE ((size_t)512 << 20)

/* How the process's devices reach memory.  Says once why pairs are not known to be exact. */
uint32_t zc_reach(void);

/* Pages that are mapped at an address are shown to GPUs by the CPU's page table alone, where that
 * is exact.  Nobody may write them there then: *window is where libzc does.  Else false. */
bool zc_reach_show(uintptr_t base, size_t span, uintptr_t *window);

/* Appends what that depends on.  `cuda`: from cuDriverGetVersion. */
static inline void zc_reach_machine(struct zc_text *t, const char *gpu, int cuda)
{
    struct utsname host = {0};
    char driver[64];
    size_t start = t->len;
    uname(&host);
    zc_file_text("/sys/module/nvidia/version", driver, sizeof(driver));
    driver[strcspn(driver, "\n")] = '\0';
    zc_text_fmt(t, "%s, CUDA %d.%d, driver %s, Linux %s", gpu, cuda / 1000, cuda % 1000 / 10,
                driver[0] ? driver : "unknown", host.release);
    zc_text_disarm(t, start);
}
