/* SPDX-License-Identifier: MIT */
/*
 * Tells helgrind what atomic operations mean, which it takes for plain loads and stores: an object
 * that is accessed by one is exempt from checking, and what a release wrote is ordered before what
 * follows the acquire that reads it.  So libzc's locks, which are made of atomics, order what they
 * guard.  Included by the compiler before every file of a build that is meant for helgrind.
 *
 * Helgrind manual, "Helgrind Client Requests".  A macro is not expanded within its own expansion,
 * so that the names below are the compiler's there.
 */
#ifndef TESTS_STRESS_HELGRIND_H
#define TESTS_STRESS_HELGRIND_H

#ifndef __ASSEMBLER__
#include <valgrind/helgrind.h>

#pragma GCC diagnostic ignored "-Wshadow" /* One operation's value may be another's argument. */

#define HG_RELEASES(order) ((order) != __ATOMIC_RELAXED && (order) != __ATOMIC_ACQUIRE)
#define HG_ACQUIRES(order) ((order) != __ATOMIC_RELAXED && (order) != __ATOMIC_RELEASE)

/* The object, the order, and the operation on `hg_at` whose value is that of all. */
#define HG_ATOMIC(object, order, operation)                                                        \
    __extension__({                                                                                \
        __auto_type hg_at = (object);                                                              \
        VALGRIND_HG_DISABLE_CHECKING(hg_at, sizeof(*hg_at));                                       \
        if (HG_RELEASES(order))                                                                    \
            ANNOTATE_HAPPENS_BEFORE(hg_at);                                                        \
        __auto_type hg_value = (operation);                                                        \
        if (HG_ACQUIRES(order))                                                                    \
            ANNOTATE_HAPPENS_AFTER(hg_at);                                                         \
        hg_value;                                                                                  \
    })

#define __atomic_load_n(p, order) HG_ATOMIC(p, order, __atomic_load_n(hg_at, order))
#define __atomic_exchange_n(p, v, order) HG_ATOMIC(p, order, __atomic_exchange_n(hg_at, v, order))
#define __atomic_fetch_add(p, v, order) HG_ATOMIC(p, order, __atomic_fetch_add(hg_at, v, order))
#define __atomic_fetch_sub(p, v, order) HG_ATOMIC(p, order, __atomic_fetch_sub(hg_at, v, order))
#define __atomic_fetch_or(p, v, order) HG_ATOMIC(p, order, __atomic_fetch_or(hg_at, v, order))
#define __atomic_fetch_and(p, v, order) HG_ATOMIC(p, order, __atomic_fetch_and(hg_at, v, order))
#define __atomic_add_fetch(p, v, order) HG_ATOMIC(p, order, __atomic_add_fetch(hg_at, v, order))
#define __atomic_sub_fetch(p, v, order) HG_ATOMIC(p, order, __atomic_sub_fetch(hg_at, v, order))
#define __atomic_store_n(p, v, order)                                                              \
    (void)HG_ATOMIC(p, order, (__atomic_store_n(hg_at, v, order), 0))
#define __atomic_compare_exchange_n(p, expected, v, weak, order, otherwise)                        \
    HG_ATOMIC(p, order, __atomic_compare_exchange_n(hg_at, expected, v, weak, order, otherwise))

#endif
#endif
