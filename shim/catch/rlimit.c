/*
 * Functions that set RLIMIT_AS.  The addresses that the host heap has reserved count against it,
 * used or not, so that the program could map nothing more.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "catch/real.h"
#include "place/hostheap.h"

#define EXPORT __attribute__((visibility("default")))

static void *find(const char *name)
{
    zc_libc_find();
    return zc_real_dlsym(RTLD_NEXT, name);
}

static int after(int result, bool addresses)
{
    int saved = errno;
    if (result == 0 && addresses)
        zc_hostheap_fit();
    errno = saved;
    return result;
}

#define SET(name, type)                                                                            \
    EXPORT int name(__rlimit_resource_t resource, const struct type *limit)                        \
    {                                                                                              \
        __typeof__(name) *real = (__typeof__(name) *)find(#name);                                  \
        return after(real(resource, limit), resource == RLIMIT_AS);                                \
    }

#define EXCHANGE(name, type)                                                                       \
    EXPORT int name(pid_t pid, enum __rlimit_resource resource, const struct type *limit,          \
                    struct type *old)                                                              \
    {                                                                                              \
        __typeof__(name) *real = (__typeof__(name) *)find(#name);                                  \
        bool own = pid == 0 || pid == getpid();                                                    \
        return after(real(pid, resource, limit, old), limit && own && resource == RLIMIT_AS);      \
    }

SET(setrlimit, rlimit)
SET(setrlimit64, rlimit64)
EXCHANGE(prlimit, rlimit)
EXCHANGE(prlimit64, rlimit64)
