/* SPDX-License-Identifier: MIT */
/*
 * Shared by all programs of this folder, and independent of CUDA: the command line, the clock,
 * the checksum and the one JSON line of the result.  Plain C, so that the driver-API program and
 * the CUDA C++ programs include the same file.
 */
#ifndef KERNELS_COMMON_H
#define KERNELS_COMMON_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Exit codes; 0 is success. */
#define EXIT_WRONG 1 /* the results differ from what the CPU computed */
#define EXIT_USAGE 2 /* a bad command line; nothing was allocated */
#define EXIT_CUDA 3  /* a CUDA call or an allocation of host memory failed */

/*
 * Reads argv[index] as a whole number in min..max, or gives `fallback` when the command line is
 * shorter.  Anything else than decimal digits is refused (strtoull alone takes blanks and signs).
 */
static inline size_t size_argument(int argc, char **argv, int index, const char *what,
                                   size_t fallback, size_t min, size_t max)
{
    const char *text;
    unsigned long long value;

    if (index >= argc)
        return fallback;
    text = argv[index];
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0') {
        fprintf(stderr, "%s: %s is not a whole number: '%s'\n", argv[0], what, text);
        exit(EXIT_USAGE);
    }
    errno = 0;
    value = strtoull(text, NULL, 10);
    if (errno == ERANGE || value > max) {
        fprintf(stderr, "%s: %s is too large: %s (at most %zu)\n", argv[0], what, text, max);
        exit(EXIT_USAGE);
    }
    if (value < min) {
        fprintf(stderr, "%s: %s is too small: %s (at least %zu)\n", argv[0], what, text, min);
        exit(EXIT_USAGE);
    }
    return (size_t)value;
}

/* Reads argv[index] as a decimal number in min..max: digits, and a point with digits behind it. */
static inline double real_argument(int argc, char **argv, int index, const char *what,
                                   double fallback, double min, double max)
{
    const char *text, *rest;
    double value;

    if (index >= argc)
        return fallback;
    text = argv[index];
    rest = text + strspn(text, "0123456789");
    if (rest != text && rest[0] == '.' && rest[1] != '\0')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (rest == text || *rest != '\0') {
        fprintf(stderr, "%s: %s is not a decimal number: '%s'\n", argv[0], what, text);
        exit(EXIT_USAGE);
    }
    value = strtod(text, NULL);
    if (!(value >= min && value <= max)) {
        fprintf(stderr, "%s: %s is out of range: %s (%g to %g)\n", argv[0], what, text, min, max);
        exit(EXIT_USAGE);
    }
    return value;
}

/* Refuses more than `count` arguments; `usage` names them. */
static inline void at_most_arguments(int argc, char **argv, int count, const char *usage)
{
    if (argc - 1 > count) {
        fprintf(stderr, "usage: %s %s\n", argv[0], usage);
        exit(EXIT_USAGE);
    }
}

/* malloc that never returns NULL. */
static inline void *host_alloc(size_t bytes)
{
    void *p = malloc(bytes);

    if (p == NULL) {
        fprintf(stderr, "malloc(%zu): out of memory\n", bytes);
        exit(EXIT_CUDA);
    }
    return p;
}

/* Milliseconds of the monotonic clock. */
static inline double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/*
 * FNV-1a, 64 bits, over words of 8 bytes and then the bytes that are left, several times as fast as
 * over bytes alone.  A product carries differences upwards only, so the upper half of a word's hash
 * is folded into the lower one.  Start with FNV_START and chain the results.
 */
#define FNV_START 14695981039346656037ull
#define FNV_PRIME 1099511628211ull

static inline uint64_t fnv1a(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)data;
    uint64_t word;

    for (; bytes >= sizeof(word); bytes -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        hash = (hash ^ word) * FNV_PRIME;
        hash ^= hash >> 32;
    }
    for (; bytes > 0; bytes--, p++)
        hash = (hash ^ *p) * FNV_PRIME;
    return hash;
}

/* Steele, Lea and Flood's SplitMix64: the output for the given state. */
static inline uint64_t splitmix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/*
 * The fields of the result line, gathered until report_print writes it whole.  A program that is
 * timed by phases names them alike: alloc (both sides), fill, copy (to the GPU), kernel, result
 * (what brings results to the CPU), free; what it does between them to check itself is in none.
 */
struct report {
    char text[1024]; /* ,"name":value pairs, NUL-terminated */
    size_t length;   /* characters used in text */
    double mark;     /* now_ms() at which the phase that runs began */
};

static inline void report_size(struct report *r, const char *name, size_t value)
{
    r->length += (size_t)snprintf(r->text + r->length, sizeof(r->text) - r->length, ",\"%s\":%zu",
                                  name, value);
}

static inline void report_ms(struct report *r, const char *name, double ms)
{
    r->length += (size_t)snprintf(r->text + r->length, sizeof(r->text) - r->length,
                                  ",\"%s_ms\":%.3f", name, ms);
}

/* Begins a phase. */
static inline void phase_begin(struct report *r)
{
    r->mark = now_ms();
}

/* Ends the phase that runs, under the name that it gets in the line, and begins the next one. */
static inline void phase_end(struct report *r, const char *name)
{
    report_ms(r, name, now_ms() - r->mark);
    r->mark = now_ms();
}

/* Writes the line and gives main's exit code. */
static inline int report_print(const struct report *r, const char *program, uint64_t checksum,
                               int verified)
{
    printf("{\"program\":\"%s\"%s,\"checksum\":\"%016llx\",\"verified\":%s}\n", program, r->text,
           (unsigned long long)checksum, verified ? "true" : "false");
    if (fflush(stdout) != 0) {
        fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
        return EXIT_WRONG;
    }
    return verified ? 0 : EXIT_WRONG;
}

#endif
