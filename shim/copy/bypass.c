/* SPDX-License-Identifier: MIT */
/* Copies past the caches: streaming stores, a cache line at a time. */
#include "copy/bypass.h"

#include <stdint.h>

#ifdef __x86_64__
#include <emmintrin.h>

#define LINE ((size_t)64)

static void copy_line(char *dst, const char *src)
{
    const __m128i_u *from = (const __m128i_u *)src;
    __m128i *to = (__m128i *)(void *)dst;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
}

void zc_bypass_copy(void *dst, const void *src, size_t n)
{
    char *to = dst;
    const char *from = src;
    size_t head = -(uintptr_t)to % LINE, at;
    if (n < head + LINE) {
        __builtin_memcpy(to, from, n);
        return;
    }
    __builtin_memcpy(to, from, head);
    for (at = head; at + LINE <= n; at += LINE)
        copy_line(to + at, from + at);
    __builtin_memcpy(to + at, from + at, n - at);
    /* Streaming stores are not ordered with the stores that publish the data (Intel SDM,
     * SFENCE). */
    _mm_sfence();
}

#else

void zc_bypass_copy(void *dst, const void *src, size_t n)
{
    __builtin_memcpy(dst, src, n);
}

#endif
