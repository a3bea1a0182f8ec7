/* SPDX-License-Identifier: MIT */
/* Calls the callbacks of all modules. */
#include "base/module.h"

#include <stddef.h>

static size_t module_count(void)
{
    size_t n = 0;
    while (zc_modules[n])
        n++;
    return n;
}

#define EACH(name, params, args, next)                                                             \
    void zc_modules_##name params                                                                  \
    {                                                                                              \
        for (size_t i = 0, n = module_count(); i < n; i++)                                         \
            if (zc_modules[next]->name)                                                            \
                zc_modules[next]->name args;                                                       \
    }
#define UPWARDS(name, params, args) EACH(name, params, args, i)
#define DOWNWARDS(name, params, args) EACH(name, params, args, n - 1 - i)

UPWARDS(start, (const struct zc_policy *policy), (policy))
DOWNWARDS(before_fork, (void), ())
UPWARDS(after_fork, (void), ())
UPWARDS(inherit, (void), ())
UPWARDS(child, (void), ())
DOWNWARDS(context_lost, (struct CUctx_st * context), (context))
DOWNWARDS(context_gone, (struct CUctx_st * context), (context))
DOWNWARDS(finish, (void), ())

unsigned zc_modules_reclaim(int place)
{
    unsigned sum = 0;
    for (size_t i = module_count(); i-- > 0;)
        if (zc_modules[i]->reclaim)
            sum += zc_modules[i]->reclaim(place);
    for (size_t i = module_count(); i-- > 0 && !sum;)
        sum += zc_modules[i]->yield ? zc_modules[i]->yield(place) : 0;
    return sum;
}
