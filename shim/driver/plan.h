/* SPDX-License-Identifier: MIT */
/* The plan of a copy, from facts alone: the driver, the CPU or both make it, and how. */
#pragma once

#include <stdint.h>

enum zc_way {
    ZC_WAY_FORWARD,      /* The driver, as the program asked. */
    ZC_WAY_FORWARD_WAIT, /* The same, and the call waits until it is done. */
    ZC_WAY_REFUSE,       /* Nobody; the call has a code. */
    ZC_WAY_SPLIT,        /* Each part by its own way (hook/parts.h). */
    ZC_WAY_REMAP,        /* Nobody yet: it is pending (vmm/grow.h). */
    ZC_WAY_PAIR,         /* As the pages' states say (shared/transfer.h). */
    ZC_WAY_CPU,          /* The CPU, at once (copy/cpu.h). */
    ZC_WAY_CPU_WAIT,     /* The CPU, when the stream is done with what is before. */
    ZC_WAY_CPU_ORDERED,  /* The CPU, when its stream comes to it. */
    ZC_WAY_CPU_STAGED,   /* The same, from a buffer that has the source's bytes. */
    ZC_WAY_RING,         /* The driver, from pinned memory of libzc's (copy/staged.h). */
    ZC_WAY_THREADS,      /* The driver and threads together (copy/parallel.h). */
    ZC_WAY_LINKS,        /* The drivers of several devices (copy/links.h). */
    ZC_WAY_COUNT,
    /* No way: some facts are to be gathered first. */
    ZC_WAY_ASK_PAIR = ZC_WAY_COUNT,
    ZC_WAY_ASK_READY,
    ZC_WAY_ASK_UNWAITED,
    ZC_WAY_ASK_CPU,
    ZC_WAY_ASK_IDLE,
    ZC_WAY_ASK_THREADS,
};

/* Facts of a copy.  Those behind X_KNOWN are gathered only when a row asks for them. */
enum zc_fact {
    ZC_FACT_OURS = 1 << 0,      /* libzc made the memory of a side, or answers for it. */
    ZC_FACT_LARGE = 1 << 1,     /* THREADS or LINKS may hold, as the kinds of its memory say. */
    ZC_FACT_LEAVES = 1 << 2,    /* A range leaves its block, can't be named by the call, or is one
                                 * of a prefetch that can't be prefetched. */
    ZC_FACT_LINKS = 1 << 3,     /* The links of several devices may carry it; with THREADS_KNOWN. */
    ZC_FACT_MALFORMED = 1 << 4, /* The driver refuses its shape in any memory, or may. */
    ZC_FACT_ASYNC = 1 << 5,     /* The call has a stream. */
    ZC_FACT_CAPTURE = 1 << 6,   /* Some stream is being captured. */
    ZC_FACT_CAPTURED = 1 << 7,  /* Its own is. */
    ZC_FACT_AWAITED = 1 << 8,   /* Streams may wait for the program, and the call has a twin with
                                 * a stream. */
    ZC_FACT_SHARED = 1 << 9,    /* A side is of the place `shared`, or one with such a block. */
    ZC_FACT_MAPPED = 1 << 10,   /* A side is mapped, and the shape is one that the CPU copies. */
    ZC_FACT_SHORT = 1 << 11,    /* One line that is short enough for a buffer. */

    ZC_FACT_READY_KNOWN = 1 << 12,   /* The memory was made ready, */
    ZC_FACT_FAILED = 1 << 13,        /* which the driver refused; or else */
    ZC_FACT_PENDING = 1 << 14,       /* the copy is that of a growing array and was left pending. */
    ZC_FACT_TO_PAGEABLE = 1 << 15,   /* It must keep the meaning that copies to, */
    ZC_FACT_FROM_PAGEABLE = 1 << 16, /* and from pageable memory have; */
    ZC_FACT_TO_STAGED = 1 << 17,     /* for memory that the driver takes for pinned, too. */
    ZC_FACT_FROM_STAGED = 1 << 18,
    ZC_FACT_RING = 1 << 19, /* FROM_STAGED alone, and the ring may send it in parts. */

    ZC_FACT_UNWAITED_KNOWN = 1 << 20,
    ZC_FACT_UNWAITED = 1 << 21, /* The call must not wait, though it has no stream. */
    ZC_FACT_CPU_KNOWN = 1 << 22,
    ZC_FACT_CPU = 1 << 23, /* The CPU reaches both sides, and reads the source fast. */
    ZC_FACT_IDLE_KNOWN = 1 << 24,
    ZC_FACT_IDLE = 1 << 25, /* The stream has nothing to do before the copy. */
    ZC_FACT_THREADS_KNOWN = 1 << 26,
    ZC_FACT_THREADS = 1 << 27, /* The policy and both sides are right for threads. */
    ZC_FACT_INWARD = 1 << 28,  /* To the device. */
    ZC_FACT_PAIR_KNOWN = 1 << 29,
    ZC_FACT_PAIR = 1 << 30, /* It goes between a host block and the device block one with it. */
};
#define ZC_FACT_BORDER (UINT32_C(1) << 31) /* A range crosses a border (hook/parts.h). */

/* The fact, where it holds. */
#define ZC_FACT_IF(fact, holds) ((holds) ? (uint32_t)ZC_FACT_##fact : 0)

/* By the table in plan.def, which has the reasons.  Nothing but the facts counts. */
enum zc_way zc_plan(uint32_t facts);
