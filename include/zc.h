/* SPDX-License-Identifier: MIT */
/*
 * For programs that tell or ask libzc something.  Nothing is linked: where libzc is not preloaded,
 * these functions say so, and the program runs as it is.  With a compiler other than GCC they find
 * it only from position-independent code (-fPIE, -fPIC), which most compilers make by themselves.
 */
#ifndef ZC_H
#define ZC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define ZC_WEAK __attribute__((weak, noplt))
#else
#define ZC_WEAK __attribute__((weak))
#endif

/* A block of memory.  Texts are valid to the end of the process. */
struct zc_memory {
    uint64_t address;     /* Its first address, */
    uint64_t bytes;       /* and the bytes that were asked for. */
    int64_t device_bytes; /* Bytes of it in device memory now; -1 for managed memory, whose pages
                           * the driver moves. */
    const char *request;  /* The request, by its driver name: "cuMemAlloc". */
    const char *place;    /* "device", "mapped", "managed", "vmm", "shared" or "pinned". */
    const char *kind;     /* Its real kind: "Device", "Pinned", "Managed", "Pageable". */
    const char *rule;     /* The rule that took the request; NULL if none did. */
    uint32_t site;        /* Id of its call path, which the log has as eight hex digits. */
    int32_t device;       /* CUDA ordinal; -1 for none. */
};

/* libzc's own, absent without it.  Call the functions below. */
int zc_lib_push(const char *name) ZC_WEAK;
int zc_lib_pop(void) ZC_WEAK;
int zc_lib_query(const void *address, struct zc_memory *memory, size_t bytes) ZC_WEAK;

/* 1 if libzc is there. */
static inline int zc_present(void)
{
    return zc_lib_query != NULL;
}

/* Begins a range of the calling thread, and ends the innermost one.  They give its level, from 0;
 * less than 0 without libzc, and where there is none to end. */
static inline int zc_push(const char *name)
{
    return zc_lib_push ? zc_lib_push(name) : -1;
}
static inline int zc_pop(void)
{
    return zc_lib_pop ? zc_lib_pop() : -1;
}

/* Tells of the block that an address is in, which no thread may free meanwhile.  1 if it is known;
 * else 0, and *memory is as it was. */
static inline int zc_query(const void *address, struct zc_memory *memory)
{
    return zc_lib_query ? zc_lib_query(address, memory, sizeof(*memory)) : 0;
}

#ifdef __cplusplus
}
#endif

#endif
