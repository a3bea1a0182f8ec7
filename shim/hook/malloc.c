/* SPDX-License-Identifier: MIT */
/*
 * libc's malloc family (glibc manual, "Replacing malloc").  Every call goes on to the next
 * allocator, unless it is large enough for a rule or names a block of the host heap.
 */
#include <argz.h>
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "driver/real.h"
#include "place/hostmem.h"
#include "hook/process.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* The functions behind libzc's.  X(name, result, parameters, arguments, meanwhile): the last is the
 * answer to a thread that is looking them up.  dlsym(3) then goes on without memory, which it wants
 * for the text of an error, and in old versions of glibc for its state. */
#define FAMILY(X)                                                                                  \
    X(free, void, (void *p), (p), (void)p)                                                         \
    X(__libc_free, void, (void *p), (p), (void)p)                                                  \
    X(malloc, void *, (size_t n), (n), nothing())                                                  \
    X(calloc, void *, (size_t count, size_t n), (count, n), nothing())                             \
    X(realloc, void *, (void *p, size_t n), (p, n), nothing())                                     \
    X(reallocarray, void *, (void *p, size_t count, size_t n), (p, count, n), nothing())           \
    X(aligned_alloc, void *, (size_t alignment, size_t n), (alignment, n), nothing())              \
    X(posix_memalign, int, (void **out, size_t alignment, size_t n), (out, alignment, n), ENOMEM)  \
    X(memalign, void *, (size_t alignment, size_t n), (alignment, n), nothing())                   \
    X(valloc, void *, (size_t n), (n), nothing())                                                  \
    X(pvalloc, void *, (size_t n), (n), nothing())                                                 \
    X(malloc_usable_size, size_t, (void *p), (p), 0)                                               \
    X(__libc_realloc, void *, (void *p, size_t n), (p, n), nothing())

/* glibc's names for programs that wrap its family; cfree is for programs from before glibc 2.26. */
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);
void cfree(void *p);

/* Until the first call each pointer leads to a function that looks up all of them. */
#define FIRST(name, result, params, args, meanwhile) static result first_##name params;
FAMILY(FIRST)

static struct __attribute__((aligned(64))) {
#define NEXT(name, result, params, args, meanwhile) result(*name) params;
    FAMILY(NEXT)
} next = {
#define INITIAL(name, result, params, args, meanwhile) .name = first_##name,
    FAMILY(INITIAL)};

static __thread bool finding __attribute__((tls_model("initial-exec")));
static __thread bool asked __attribute__((tls_model("initial-exec"))); /* For memory, meanwhile. */

static void *nothing(void)
{
    asked = true;
    errno = ENOMEM;
    return NULL;
}

/* An object before libzc, the program or a library, may serve the family itself, and would be given
 * libzc's blocks to free.  Whether requests come here is asked by making one as libc makes it: what
 * dlsym(3) finds is no answer in a program that is not position-independent, but can be called in
 * any.  Another thread that has found everything meanwhile has asked, too. */
static bool passed_by(void)
{
    static char word[] = "";
    char *const words[] = {word, NULL};
    void (*put)(void *) = (void (*)(void *))zc_real_dlsym(RTLD_DEFAULT, "free");
    char *made = NULL;
    size_t bytes;
    asked = false;
    /* A function that no sanitizer replaces: they may not be ready yet. */
    argz_create(words, &made, &bytes);
    put(made);
    return !asked && __atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) == first_malloc;
}

/* Several threads may run this at once; all store the same values. */
static void find_real_malloc(void)
{
    int saved = errno;
    finding = true;
    zc_process_watch_forks();
    zc_libc_find();
    zc_memory_find();
#define LOOK_UP(name, result, params, args, meanwhile)                                             \
    result(*found_##name) params = (result(*) params)zc_real_dlsym(RTLD_NEXT, #name);
    FAMILY(LOOK_UP)
    if (passed_by())
        zc_hostmem_disable("another allocator comes before libzc");
    else
        zc_hostmem_behind((void *)found_malloc, (void *)gnu_get_libc_version);
    finding = false;
    errno = saved;
#define KEEP(name, result, params, args, meanwhile)                                                \
    __atomic_store_n(&next.name, found_##name, __ATOMIC_RELEASE);
    FAMILY(KEEP)
}

/* The call continues once everything is found. */
#define FIRST_CALL(name, result, params, args, meanwhile)                                          \
    static result first_##name params                                                              \
    {                                                                                              \
        if (finding)                                                                               \
            return meanwhile;                                                                      \
        find_real_malloc();                                                                        \
        return next.name args;                                                                     \
    }
FAMILY(FIRST_CALL)

void zc_malloc_load(void)
{
    if (__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) == first_malloc)
        find_real_malloc();
}

/* The slow paths are separate functions that the exported ones end in.  So the exported ones need
 * no frame, and the frame and return address seen here are the caller's. */
#define ASK(which, bytes, boundary, zeroed)                                                        \
    {                                                                                              \
        .api = ZC_API_##which, .size = (bytes), .alignment = (boundary), .zero = (zeroed),         \
        .frame = __builtin_frame_address(0), .pc = __builtin_return_address(0)                     \
    }
#define SLOW __attribute__((noinline)) static

static bool power_of_two(size_t n)
{
    return n && !(n & (n - 1));
}

/* The allocators before and behind libzc must be known first. */
SLOW void *heap_get(const struct zc_hostmem_request *request)
{
    if (finding)
        return NULL;
    zc_malloc_load();
    return zc_hostmem_get(request);
}

/* A function of the family whose request of `bytes` the heap takes if it `fits`. */
#define REQUEST(name, params, args, bytes, boundary, fits)                                         \
    SLOW void *large_##name params                                                                 \
    {                                                                                              \
        const struct zc_hostmem_request request = ASK(name, bytes, boundary, false);               \
        void *p = (fits) ? heap_get(&request) : NULL;                                              \
        return p ? p : next.name args;                                                             \
    }                                                                                              \
    EXPORT void *name params                                                                       \
    {                                                                                              \
        return zc_hostmem_small(n) ? next.name args : large_##name args;                           \
    }
REQUEST(malloc, (size_t n), (n), n, 1, true)
REQUEST(aligned_alloc, (size_t alignment, size_t n), (alignment, n), n, alignment,
        power_of_two(alignment))
REQUEST(memalign, (size_t alignment, size_t n), (alignment, n), n, alignment,
        power_of_two(alignment))
REQUEST(valloc, (size_t n), (n), n, zc_page_end(1), true)
REQUEST(pvalloc, (size_t n), (n), zc_page_end(n), zc_page_end(1), request.size >= n)

SLOW void *large_calloc(size_t count, size_t n)
{
    const struct zc_hostmem_request request = ASK(calloc, count * n, 1, true);
    void *p = heap_get(&request);
    return p ? p : next.calloc(count, n);
}

/* libc refuses an overflow. */
EXPORT void *calloc(size_t count, size_t n)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, n, &bytes) || zc_hostmem_small(bytes))
        return next.calloc(count, n);
    return large_calloc(count, n);
}

EXPORT void free(void *p)
{
    if (LIKELY(!zc_hostmem_owns(p)))
        next.free(p);
    else
        zc_hostmem_put(p);
}

/* Moves a block from the heap to libc. */
static void *move_out(void *p, const struct zc_hostmem_request *request)
{
    size_t size = zc_hostmem_size(p);
    void *moved = next.malloc(request->size);
    if (moved) {
        memcpy(moved, p, size < request->size ? size : request->size);
        zc_hostmem_put(p);
    }
    return moved;
}

/* Moves a block from libc to the heap; NULL if no rule wants it there. */
static void *move_in(void *p, const struct zc_hostmem_request *request)
{
    void *moved = heap_get(request);
    size_t size = moved && p ? next.malloc_usable_size(p) : 0;
    if (size)
        memcpy(moved, p, size < request->size ? size : request->size);
    if (moved)
        next.free(p);
    return moved;
}

/* A size of 0 frees, as in glibc (glibc manual, "Changing the Size of a Block"). */
static void *resize_ours(void *p, const struct zc_hostmem_request *request)
{
    if (!request->size) {
        zc_hostmem_put(p);
        return NULL;
    }
    void *resized = zc_hostmem_resize(p, request);
    return resized ? resized : move_out(p, request);
}

#define RESIZE(name, params, args, bytes)                                                          \
    SLOW void *large_##name params                                                                 \
    {                                                                                              \
        const struct zc_hostmem_request request = ASK(name, bytes, 1, false);                      \
        if (zc_hostmem_owns(p))                                                                    \
            return resize_ours(p, &request);                                                       \
        void *moved = zc_hostmem_small(bytes) ? NULL : move_in(p, &request);                       \
        return moved ? moved : next.name args;                                                     \
    }
RESIZE(realloc, (void *p, size_t n), (p, n), n)
RESIZE(reallocarray, (void *p, size_t count, size_t n), (p, count, n), count *n)

EXPORT void *realloc(void *p, size_t n)
{
    return zc_hostmem_small(n) && !zc_hostmem_owns(p) ? next.realloc(p, n) : large_realloc(p, n);
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, n, &bytes)) {
        errno = ENOMEM; /* The block is unchanged. */
        return NULL;
    }
    return zc_hostmem_small(bytes) && !zc_hostmem_owns(p) ? next.reallocarray(p, count, n)
                                                          : large_reallocarray(p, count, n);
}

SLOW int large_posix_memalign(void **out, size_t alignment, size_t n)
{
    const struct zc_hostmem_request request = ASK(posix_memalign, n, alignment, false);
    bool good = power_of_two(alignment) && alignment % sizeof(void *) == 0;
    void *p = good ? heap_get(&request) : NULL;
    int result = p ? 0 : next.posix_memalign(out, alignment, n);
    if (p)
        *out = p;
    return result;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t n)
{
    return zc_hostmem_small(n) ? next.posix_memalign(out, alignment, n)
                               : large_posix_memalign(out, alignment, n);
}

EXPORT size_t malloc_usable_size(void *p)
{
    return LIKELY(!zc_hostmem_owns(p)) ? next.malloc_usable_size(p) : zc_hostmem_size(p);
}

/* Requests under glibc's own names stay with glibc, but may be given any block. */
EXPORT void *__libc_realloc(void *p, size_t n)
{
    return zc_hostmem_owns(p) ? large_realloc(p, n) : next.__libc_realloc(p, n);
}

EXPORT void __libc_free(void *p)
{
    if (zc_hostmem_owns(p))
        zc_hostmem_put(p);
    else
        next.__libc_free(p);
}

EXPORT void cfree(void *p)
{
    free(p);
}
