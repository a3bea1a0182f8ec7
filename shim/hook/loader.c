/* SPDX-License-Identifier: MIT */
/* The C half of the hooks on dlsym, dlopen and dlmopen.  It decides, but never calls on behalf of
 * the caller if the caller's identity matters. */
#include <dlfcn.h>

#include "base/message.h"
#include "driver/real.h"
#include "driver/unknown.h"
#include "place/hostmem.h"

struct zc_choice zc_dlsym_choose(void *handle, const char *name);
struct zc_choice zc_dlopen_choose(const char *file, int mode);
struct zc_choice zc_dlmopen_choose(long namespace_id, const char *file, int mode);

/* A driver name: "cu" and a capital letter.  Names of cuBLAS, cuDNN and curl also begin with "cu";
 * only the address distinguishes them, see below. */
static bool driver_name(const char *name)
{
    return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

static struct zc_choice go_on(void *real)
{
    return (struct zc_choice){real, NULL};
}

static struct zc_choice loader_answer(void *address)
{
    return (struct zc_choice){address, (void *)1};
}

/* Instrumented builds call dlsym before their run time is ready, so this path has no
 * instrumentation. */
__attribute__((no_sanitize("address", "thread", "undefined"))) struct zc_choice
zc_dlsym_choose(void *handle, const char *name)
{
    if (__builtin_expect(zc_real_dlsym == NULL, 0))
        zc_libc_find();
    /* The real function answers RTLD_NEXT for the real caller: an interposer before libzc then
     * finds libzc's wrapper, and one after it finds libcuda's function. */
    if (!driver_name(name) || handle == RTLD_NEXT)
        return go_on((void *)zc_real_dlsym);
    void *address = zc_real_dlsym(handle, name);
    if (address && zc_is_wrapper(address)) {
        /* Found in the global scope.  If the process has no driver, or its driver lacks the
         * function, the wrapper could call nothing, so the program gets the answer that it would
         * get without libzc. */
        bool behind = zc_real_find() && zc_driver_has(address);
        return loader_answer(behind ? address : zc_real_dlsym(RTLD_NEXT, name));
    }
    void *given = address ? zc_real_answer(name, address) : address;
    /* RTLD_DEFAULT includes the caller's own libraries, and dlerror(3) names the caller: so the
     * real function looks up everything that libzc leaves alone. */
    return given != address ? loader_answer(given) : go_on((void *)zc_real_dlsym);
}

/* Tells of the first object of each kind that was opened out of libzc's reach. */
static void say_unreached(const char *code, const char *file, const char *why)
{
    if (zc_message_first(code))
        zc_message(ZC_WARN, code, "%s %s", file, why);
}

struct zc_choice zc_dlopen_choose(const char *file, int mode)
{
    zc_libc_find();
    /* The object's own scope comes before every preload then. */
    if (file && (mode & RTLD_DEEPBIND)) {
        say_unreached("deepbind", file,
                      "is opened with RTLD_DEEPBIND: CUDA calls that it binds by itself pass by "
                      "libzc (calls through libcudart are still seen)");
        /* Its free(3) and realloc(3) are libc's own, which do not know the host heap's blocks. */
        zc_hostmem_leave("a library that RTLD_DEEPBIND binds to libc's free() may be given them");
    }
    return go_on((void *)zc_real_dlopen);
}

struct zc_choice zc_dlmopen_choose(long namespace_id, const char *file, int mode)
{
    static void *real;
    (void)mode;
    zc_libc_find();
    if (file && namespace_id != LM_ID_BASE)
        say_unreached("dlmopen", file,
                      "is opened in a namespace of its own, where libzc is not: its CUDA calls are "
                      "not seen");
    if (!__atomic_load_n(&real, __ATOMIC_ACQUIRE))
        __atomic_store_n(&real, zc_real_dlsym(RTLD_NEXT, "dlmopen"), __ATOMIC_RELEASE);
    return go_on(real);
}
