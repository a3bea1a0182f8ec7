/* SPDX-License-Identifier: MIT */
/* The registry of modules; see base/module.h. */
#include "base/module.h"

#include <stddef.h>

#define MODULES(X)                                                                                 \
    X(log)                                                                                         \
    X(counters)                                                                                    \
    X(site_path)                                                                                   \
    X(traffic)                                                                                     \
    X(rules)                                                                                       \
    X(summary)                                                                                     \
    X(ranges)                                                                                      \
    X(launch)                                                                                      \
    X(marks)                                                                                       \
    X(regret)                                                                                      \
    X(limits)                                                                                      \
    X(hostheap)                                                                                    \
    X(pinned)                                                                                      \
    X(grow)                                                                                        \
    X(grown)                                                                                       \
    X(move)                                                                                        \
    X(ring)                                                                                        \
    X(links)                                                                                       \
    X(early)                                                                                       \
    X(shared_report)                                                                               \
    X(freed)                                                                                       \
    X(migrate)                                                                                     \
    X(fallback)                                                                                    \
    X(request)

#define DECLARED(name) extern const struct zc_module zc_module_##name;
MODULES(DECLARED)

#define LISTED(name) &zc_module_##name,
const struct zc_module *const zc_modules[] = {MODULES(LISTED) NULL};
