/* SPDX-License-Identifier: MIT */
/* A source of hook/ for its tests: blocks, answers of the neighbours and the driver are theirs, and
 * whatever is asked leaves its words. */
#ifndef TESTS_UNIT_HOOK_TEST_H
#define TESTS_UNIT_HOOK_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "driver/call.h"
#include "driver/stream.h"
#include "hook/diagnose.h"
#include "place/placed.h"
#include "place/verbs.h"
#include "real_test.h"

enum { HOOK_BLOCKS = 3 };
#define HOOK_BLOCK(i) (UINT64_C(0x10000000) * ((i) + 1)) /* Its first byte. */
#define HOOK_BYTES 0x5000u
#define HOOK_HOME ((CUcontext)0x77)

static struct {
    bool capture;               /* The stream captures. */
    CUdeviceptr margin, hidden; /* A page next to a block, and one of the host heap. */
    CUresult driver, retreat, state, refusal; /* Codes that calls return. */
} hook;
static struct zc_block hook_block[HOOK_BLOCKS];
static char hook_told[4096];

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    size_t n = strlen(hook_told);
    va_list list;
    assert_true(n + 200 < sizeof(hook_told));
    if (n)
        hook_told[n++] = ';', hook_told[n++] = ' ';
    va_start(list, format);
    vsnprintf(hook_told + n, sizeof(hook_told) - n, format, list);
    va_end(list);
}

/* All that was said since the last time. */
#define assert_told(words) (assert_string_equal(hook_told, words), (void)(hook_told[0] = '\0'))

/* libzc is not to do anything. */
static inline void hook_off(void)
{
    zc_life_state = ZC_LIFE_PASS;
}

/* libzc is on, there is no driver, and device blocks of libzc's stand in the ledger. */
static inline void hook_anew(void)
{
    memset(&hook, 0, sizeof(hook));
    hook_told[0] = '\0';
    zc_life_state = ZC_LIFE_ON;
    real_without_driver();
    for (unsigned i = 0; i < HOOK_BLOCKS; i++)
        hook_block[i] = (struct zc_block){.base = HOOK_BLOCK(i),
                                          .size = HOOK_BYTES,
                                          .id = i + 1,
                                          .context = HOOK_HOME,
                                          .flags = ZC_BLOCK_CONVERTED,
                                          .asked = ZC_KIND_DEVICE,
                                          .real = ZC_KIND_DEVICE,
                                          .device = 4};
}

/* The program's registered or requested host memory, placed by libzc. */
static inline struct zc_block *hook_hosted(unsigned i)
{
    hook_block[i].asked = hook_block[i].real = ZC_KIND_PINNED;
    return &hook_block[i];
}

static inline struct zc_block *hook_find(CUdeviceptr address)
{
    for (unsigned i = 0; i < HOOK_BLOCKS; i++)
        if (hook_block[i].size && address - hook_block[i].base < hook_block[i].size)
            return &hook_block[i];
    return NULL;
}

static inline struct zc_block *hook_placed(CUdeviceptr address)
{
    struct zc_block *b = hook_find(address);
    return b && b->flags & ZC_BLOCK_KNOWN ? b : NULL;
}

static inline struct zc_block *hook_converted(CUdeviceptr address)
{
    struct zc_block *b = hook_placed(address);
    return b && b->asked == ZC_KIND_DEVICE ? b : NULL;
}

static inline bool hook_in(CUdeviceptr page, CUdeviceptr address)
{
    return page && address - page < ZC_BLOCK_PAGE;
}

static inline CUresult hook_retreat(const struct zc_block *b, enum zc_fn fn, bool keeps,
                                    const char *why)
{
    (void)fn;
    if (b && b->flags & ZC_BLOCK_KNOWN)
        tell("retreat of %d%s: %s", (int)b->id, keeps ? ", kept" : "", why);
    return b ? hook.retreat : CUDA_SUCCESS;
}

static inline CUresult hook_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    (void)fn;
    tell("diagnosed %llx: %d", (unsigned long long)address, code);
    return code;
}

static inline bool hook_hold(void)
{
    tell("hold");
    return true;
}

static inline void hook_unhold(bool held)
{
    if (held)
        tell("unhold");
}

#define zc_block_find hook_find
#define zc_placed_at hook_placed
#define zc_converted_at hook_converted
#define zc_in_margin(address) hook_in(hook.margin, address)
#define zc_placed_near(address) (hook_placed(address) || zc_in_margin(address))
#define zc_hidden(address) hook_in(hook.hidden, address)
#define zc_disguise(address) (zc_hidden(address) ? (CUdeviceptr)0xd15 : (address))
#define zc_stream_state() (hook.state)
#define zc_stream_refusal() (hook.refusal)
#define zc_place_retreat hook_retreat
#define zc_diagnose hook_diagnose
#define zc_move_enter hook_hold
#define zc_move_leave hook_unhold

#endif
