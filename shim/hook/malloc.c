/* SPDX-License-Identifier: MIT */
/*
 * libc's malloc family (glibc manual, "Replacing malloc").  Every call goes on to the next
 * allocator, unless it is large enough for a rule or names a block of the host heap.
 */
#include <argz.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "driver/real.h"
#include "place/hostmem.h"
#include "hook/process.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* The functions behind libzc's.  X(name, result, parameters, arguments) */
#define FAMILY(X)                                                                                  \
    X(free, void, (void *p), (p))                                                                  \
    X(__libc_free, void, (void *p), (p))                                                           \
    X(malloc, void *, (size_t n), (n))                                                             \
    X(calloc, void *, (size_t count, size_t n), (count, n))                                        \
    X(realloc, void *, (void *p, size_t n), (p, n))                                                \
    X(reallocarray, void *, (void *p, size_t count, size_t n), (p, count, n))                      \
    X(aligned_alloc, void *, (size_t alignment, size_t n), (alignment, n))                         \
    X(posix_memalign, int, (void **out, size_t alignment, size_t n), (out, alignment, n))          \
    X(memalign, void *, (size_t alignment, size_t n), (alignment, n))                              \
    X(valloc, void *, (size_t n), (n))                                                             \
    X(pvalloc, void *, (size_t n), (n))                                                            \
    X(malloc_usable_size, size_t, (void *p), (p))                                                  \
    X(__libc_realloc, void *, (void *p, size_t n), (p, n))

/* glibc's names for programs that wrap its family; cfree is for programs from before glibc 2.26. */
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);
void cfree(void *p);

/* Until the first call each pointer leads to a function that looks up all of them. */
#define FIRST(name, result, params, args) static result first_##name params;
FAMILY(FIRST)

static struct __attribute__((aligned(64))) {
    uint32_t careful; /* Live blocks in `boot`, which no other allocator gets.  Atomic. */
#define NEXT(name, result, params, args) result(*name) params;
    FAMILY(NEXT)
} next = {
#define INITIAL(name, result, params, args) .name = first_##name,
    FAMILY(INITIAL)};

/*
 * In some glibc versions dlsym(3) calls calloc.  During the look-up it gets memory from here, which
 * is zero and never used again.  The size is stored in front of it.
 */
static char boot[16384] __attribute__((aligned(16)));
static size_t boot_used; /* Atomic. */
static __thread bool finding __attribute__((tls_model("initial-exec")));
static __thread bool asked __attribute__((tls_model("initial-exec"))); /* For memory, meanwhile. */

static bool is_boot(const void *p)
{
    return (uintptr_t)p - (uintptr_t)boot < sizeof(boot);
}

static void *boot_get(size_t n)
{
    asked = true;
    size_t step = ((n + 15) & ~(size_t)15) + 16;
    size_t at =
        n < sizeof(boot) ? __atomic_fetch_add(&boot_used, step, __ATOMIC_RELAXED) : sizeof(boot);
    if (at + step > sizeof(boot)) {
        errno = ENOMEM;
        return NULL;
    }
    __atomic_add_fetch(&next.careful, 1, __ATOMIC_RELAXED);
    memcpy(boot + at, &n, sizeof(n));
    return boot + at + 16;
}

static size_t boot_size(const void *p)
{
    size_t n;
    memcpy(&n, (const char *)p - 16, sizeof(n));
    return n;
}

/* Frees `p` if it is such a block. */
static bool boot_put(const void *p)
{
    if (!is_boot(p))
        return false;
    __atomic_sub_fetch(&next.careful, 1, __ATOMIC_RELAXED);
    return true;
}

static void *boot_move(void *to, const void *p, size_t n)
{
    if (to && p)
        memcpy(to, p, boot_size(p) < n ? boot_size(p) : n);
    if (to || !n)
        boot_put(p);
    return to;
}

static void *boot_realloc(const void *p, size_t n)
{
    return boot_move(n ? next.malloc(n) : NULL, p, n);
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
    finding = true;
    zc_process_watch_forks();
    zc_libc_find();
    zc_memory_find();
    /* All are kept at once: what comes from `boot` meanwhile must not get to only some of them. */
#define LOOK_UP(name, result, params, args)                                                        \
    result(*found_##name) params = (result(*) params)zc_real_dlsym(RTLD_NEXT, #name);
    FAMILY(LOOK_UP)
    if (passed_by())
        zc_hostmem_leave("another allocator comes before libzc");
    else
        zc_hostmem_behind((void *)found_malloc);
    finding = false;
#define KEEP(name, result, params, args)                                                           \
    __atomic_store_n(&next.name, found_##name, __ATOMIC_RELEASE);
    FAMILY(KEEP)
}

/* The call continues once everything is found; a call from inside the look-up gets `meanwhile`. */
#define FIRST_OR(name, result, params, args, meanwhile)                                            \
    static result first_##name params                                                              \
    {                                                                                              \
        if (finding)                                                                               \
            return meanwhile;                                                                      \
        find_real_malloc();                                                                        \
        return next.name args;                                                                     \
    }
static void *malloc_nothing(void)
{
    errno = ENOMEM;
    return NULL;
}
static void *boot_array(size_t count, size_t n)
{
    size_t bytes;
    return __builtin_mul_overflow(count, n, &bytes) ? malloc_nothing() : boot_get(bytes);
}
static void *boot_grow(void *p, size_t n)
{
    return p && !is_boot(p) ? malloc_nothing() : boot_move(boot_get(n), p, n);
}
FIRST_OR(malloc, void *, (size_t n), (n), boot_get(n))
FIRST_OR(calloc, void *, (size_t count, size_t n), (count, n), boot_array(count, n))
FIRST_OR(realloc, void *, (void *p, size_t n), (p, n), boot_grow(p, n))
FIRST_OR(reallocarray, void *, (void *p, size_t count, size_t n), (p, count, n), malloc_nothing())
FIRST_OR(aligned_alloc, void *, (size_t alignment, size_t n), (alignment, n), malloc_nothing())
FIRST_OR(posix_memalign, int, (void **out, size_t alignment, size_t n), (out, alignment, n), ENOMEM)
FIRST_OR(memalign, void *, (size_t alignment, size_t n), (alignment, n), malloc_nothing())
FIRST_OR(valloc, void *, (size_t n), (n), malloc_nothing())
FIRST_OR(pvalloc, void *, (size_t n), (n), malloc_nothing())
FIRST_OR(malloc_usable_size, size_t, (void *p), (p), is_boot(p) ? boot_size(p) : 0)
FIRST_OR(__libc_realloc, void *, (void *p, size_t n), (p, n), boot_grow(p, n))
FIRST_OR(free, void, (void *p), (p), (void)boot_put(p))
FIRST_OR(__libc_free, void, (void *p), (p), (void)boot_put(p))

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

/* True for a pointer that the next allocator may have at once. */
static bool malloc_plain(const void *p)
{
    return LIKELY(!zc_hostmem_owns(p) && !__atomic_load_n(&next.careful, __ATOMIC_RELAXED));
}

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

SLOW void free_with_care(void *p)
{
    if (zc_hostmem_owns(p))
        zc_hostmem_put(p);
    else if (!boot_put(p))
        next.free(p);
}

EXPORT void free(void *p)
{
    if (malloc_plain(p))
        next.free(p);
    else
        free_with_care(p);
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
        if (is_boot(p))                                                                            \
            return boot_realloc(p, bytes);                                                         \
        void *moved = zc_hostmem_small(bytes) ? NULL : move_in(p, &request);                       \
        return moved ? moved : next.name args;                                                     \
    }
RESIZE(realloc, (void *p, size_t n), (p, n), n)
RESIZE(reallocarray, (void *p, size_t count, size_t n), (p, count, n), count *n)

EXPORT void *realloc(void *p, size_t n)
{
    return zc_hostmem_small(n) && malloc_plain(p) ? next.realloc(p, n) : large_realloc(p, n);
}

EXPORT void *reallocarray(void *p, size_t count, size_t n)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, n, &bytes)) {
        errno = ENOMEM; /* The block is unchanged. */
        return NULL;
    }
    return zc_hostmem_small(bytes) && malloc_plain(p) ? next.reallocarray(p, count, n)
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
    if (LIKELY(!zc_hostmem_owns(p)))
        return is_boot(p) ? boot_size(p) : next.malloc_usable_size(p);
    return zc_hostmem_size(p);
}

/* Requests under glibc's own names stay with glibc, but may be given any block. */
EXPORT void *__libc_realloc(void *p, size_t n)
{
    if (zc_hostmem_owns(p))
        return large_realloc(p, n);
    return is_boot(p) ? boot_realloc(p, n) : next.__libc_realloc(p, n);
}

EXPORT void __libc_free(void *p)
{
    if (zc_hostmem_owns(p))
        zc_hostmem_put(p);
    else if (!boot_put(p))
        next.__libc_free(p);
}

EXPORT void cfree(void *p)
{
    free(p);
}
