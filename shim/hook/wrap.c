/* SPDX-License-Identifier: MIT */
/* The exported wrappers, all generated from the table. */
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/unknown.h"
#include "hook/diagnose.h"
#include "hook/copy.h"
#include "hook/graph.h"
#include "hook/request.h"
#include "memory/reclaim.h"
#include "place/migrate.h"
#include "place/verbs.h"

#define ZC_EXPORT __attribute__((visibility("default")))
#define ZC_ENTRY(name, flavour)                                                                    \
    {                                                                                              \
        ZC_FN_##name, flavour, __builtin_frame_address(0), __builtin_return_address(0)             \
    }

/* How every wrapper begins. */
#define ENTER(name, base, params)                                                                  \
    ZC_EXPORT CUresult name params                                                                 \
    {                                                                                              \
        __typeof__(base) *real = ZC_REAL(name);                                                    \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_SUPPORTED;

/* Of what `quick` rows describe the compiler makes no struct. */
#define QUICK(describe)                                                                            \
    ({                                                                                             \
        struct zc_copy c;                                                                          \
        c.src.side = ZC_SIDE_NONE;                                                                 \
        c.src.address = 0;                                                                         \
        describe;                                                                                  \
        zc_copy_quick(&plain, c.dst.side, c.dst.address, c.src.side, c.src.address, c.bytes);      \
    })
/* `forward` is the driver's answer to a call that is left to it. */
#define COPY(name, base, flavour, params, args, quick, describe, forward)                          \
    ENTER(name, base, params)                                                                      \
    struct zc_plain_copy plain;                                                                    \
    CUresult result = CUDA_SUCCESS;                                                                \
    const bool made = quick && QUICK(describe);                                                    \
    if (made) {                                                                                    \
        const uint64_t start = zc_ticks();                                                         \
        result = real args;                                                                        \
        if (__builtin_expect(result == CUDA_SUCCESS, 1)) {                                         \
            zc_traffic_plain(&plain, zc_ticks() - start);                                          \
            zc_place_tidy();                                                                       \
            return result;                                                                         \
        }                                                                                          \
    }                                                                                              \
    struct zc_copy c;                                                                              \
    zc_copy_init(&c, ZC_FN_##name, flavour);                                                       \
    c.frame = __builtin_frame_address(0);                                                          \
    c.pc = __builtin_return_address(0);                                                            \
    describe;                                                                                      \
    c.result = result;                                                                             \
    if (made)                                                                                      \
        zc_copy_resolve(&c);                                                                       \
    else if (!zc_copy_begin(&c))                                                                   \
        c.result = forward;                                                                        \
    return zc_check_sticky(ZC_FN_##name, zc_copy_end(&c));                                         \
    }
#define ZC_COPY(name, base, flavour, params, args, quick, describe)                                \
    COPY(name, base, flavour, params, args, quick, describe, real args)
/* If the other form refuses the call, this form refuses it with its own code, or does it anyway. */
#define ZC_SYNC(name, base, flavour, other, params, args, quick, describe)                         \
    COPY(name, base, flavour, params, args, quick, (c.sync = true, describe),                      \
         !(c.facts & ZC_FACT_UNWAITED) ||                                                          \
                 ZC_FLAVOURED(flavour, other)(ZC_UNPAREN args, NULL) != CUDA_SUCCESS               \
             ? real args                                                                           \
             : CUDA_SUCCESS)
#define ZC_CALL(name, base, flavour, params, args)                                                 \
    ENTER(name, base, params)                                                                      \
    const struct zc_entry entry = ZC_ENTRY(name, flavour);                                         \
    return zc_check_sticky(ZC_FN_##name, zc_do_##base(real, &entry, ZC_UNPAREN args));             \
    }
#define ZC_NOTE(name, base, flavour, params, args, note)                                           \
    ENTER(name, base, params)                                                                      \
    const struct zc_entry entry __attribute__((unused)) = ZC_ENTRY(name, flavour);                 \
    CUresult result = ZC_RECLAIMING(real args);                                                    \
    if (result == CUDA_SUCCESS && zc_life_on())                                                    \
        note;                                                                                      \
    return zc_check_sticky(ZC_FN_##name, result);                                                  \
    }
#define ZC_REFUSE(name, base, flavour, params, args, refusal)                                      \
    ENTER(name, base, params)                                                                      \
    const CUresult refused = refusal;                                                              \
    return refused != CUDA_SUCCESS ? refused : zc_check_sticky(ZC_FN_##name, real args);           \
    }
#define ZC_LEND(name, base, flavour, params, args, address)                                        \
    ENTER(name, base, params)                                                                      \
    if (zc_in_margin(address))                                                                     \
        return zc_stream_refusal();                                                                \
    CUresult result = zc_life_on() && zc_converted_at(address) ? zc_stream_refusal() : real args;  \
    bool theirs = result == CUDA_SUCCESS || zc_hosted_at(address); /* Refused bare, too. */        \
    return zc_check_sticky(ZC_FN_##name,                                                           \
                           theirs ? result : zc_diagnose(ZC_FN_##name, address, result));          \
    }
#define ZC_WATCH(name, base, flavour, params, args, describe)                                      \
    ENTER(name, base, params)                                                                      \
    struct zc_copy c;                                                                              \
    zc_copy_init(&c, ZC_FN_##name, flavour);                                                       \
    describe;                                                                                      \
    CUresult result = zc_copy_before_node(&c);                                                     \
    if (result == CUDA_SUCCESS && !c.made)                                                         \
        result = zc_copy_after_node(&c, ZC_HOLDING_STILL(real args));                              \
    return zc_check_sticky(ZC_FN_##name, result);                                                  \
    }
/* A tail call if no party watches launches: two loads and two branches.  All else is in a function
 * of its own, because it needs a frame, which the compiler would make before it looks. */
#define ZC_LAUNCH(name, base, flavour, params, args, stream, function, arguments, extra, threads)  \
    __attribute__((noinline)) static CUresult watched_##name params                                \
    {                                                                                              \
        __typeof__(base) *real = ZC_REAL(name);                                                    \
        if (!real)                                                                                 \
            return CUDA_ERROR_NOT_SUPPORTED;                                                       \
        const struct zc_launch launch = {ZC_FN_##name, flavour, stream,  function, arguments,      \
                                         extra,        NULL,    threads, true};                    \
        CUresult result = zc_launch_begin(&launch);                                                \
        if (result == CUDA_SUCCESS) {                                                              \
            result = real args;                                                                    \
            zc_launch_end(&launch);                                                                \
        }                                                                                          \
        return zc_check_sticky(ZC_FN_##name, result);                                              \
    }                                                                                              \
    ZC_EXPORT CUresult name params                                                                 \
    {                                                                                              \
        __typeof__(base) *real = zc_real.name;                                                     \
        bool watched = __atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED);                        \
        return __builtin_expect(real && !watched, 1) ? real args : watched_##name args;            \
    }
#define ZC_CHECK(name, base, flavour, params, args)                                                \
    ENTER(name, base, params)                                                                      \
    return zc_check_sticky(ZC_FN_##name, ZC_RECLAIMING(real args));                                \
    }
#include "driver.def"
