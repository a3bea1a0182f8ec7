/* SPDX-License-Identifier: MIT */
/* libc's malloc family against C17, POSIX and the glibc manual, in sizes on both sides of every
 * threshold of the host heap.  Prints what fails; run bare and under libzc. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* glibc's other names. */
void __libc_free(void *p);
void *__libc_realloc(void *p, size_t n);
void old_cfree(void *p);
#ifdef __x86_64__
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");
#else
__asm__(".symver old_cfree, cfree@GLIBC_2.17");
#endif

static unsigned checks, failures;

#define CHECK(condition, n)                                                                        \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            printf("%s, line %d, size %zu: %s\n", __func__, __LINE__, (size_t)(n), #condition);    \
        }                                                                                          \
    } while (0)

static const size_t sizes[] = {0,      1,       1000,    65535,   65536,   65537,    100000,
                               131072, 1 << 20, 1048577, 2 << 20, 3 << 20, 20 << 20, 9999999};
#define EACH_SIZE(n)                                                                               \
    for (size_t at_##n = 0, n;                                                                     \
         at_##n < sizeof(sizes) / sizeof(sizes[0]) && (n = sizes[at_##n], 1); at_##n++)

static void *volatile launder; /* Keeps the compiler from reasoning about blocks. */

static unsigned char *paint(void *p, size_t n, unsigned seed)
{
    unsigned char *byte = p;
    for (size_t i = 0; i < n; i += i < 64 ? 1 : 61)
        byte[i] = (unsigned char)(i * 7 + seed);
    return byte;
}

static int painted(const unsigned char *byte, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += i < 64 ? 1 : 61)
        if (byte[i] != (unsigned char)(i * 7 + seed))
            return 0;
    return 1;
}

static int zero(const unsigned char *byte, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (byte[i])
            return 0;
    return 1;
}

static void test_malloc(void)
{
    EACH_SIZE(n)
    {
        unsigned char *p = malloc(n), *q = malloc(n);
        CHECK(p && q && p != q, n);
        CHECK((uintptr_t)p % _Alignof(max_align_t) == 0, n);
        CHECK(malloc_usable_size(p) >= n, n);
        paint(p, n, 1);
        paint(q, n, 2);
        CHECK(painted(p, n, 1) && painted(q, n, 2), n);
        free(p);
        CHECK(painted(q, n, 2), n);
        free(q);
    }
    CHECK(malloc_usable_size(NULL) == 0, 0);
    volatile size_t huge = (size_t)PTRDIFF_MAX;
    errno = 0;
    launder = malloc(huge);
    CHECK(!launder && errno == ENOMEM, huge);
}

static void test_calloc(void)
{
    EACH_SIZE(n)
    {
        for (int round = 0; round < 3; round++) {
            unsigned char *p = calloc(n, 1);
            CHECK(p && zero(p, n), n);
            launder = memset(p, 0xff, n);
            free(p);
            p = malloc(n);
            launder = memset(p, 0xee, n);
            free(p);
        }
    }
    volatile size_t half = SIZE_MAX / 2 + 2;
    errno = 0;
    launder = calloc(half, 2);
    CHECK(!launder && errno == ENOMEM, half);
}

/* Blocks that grow out of what libc has leave nothing of theirs behind. */
static void test_realloc_gives_back(void)
{
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 2000; i++)
        free(realloc(paint(malloc(3000), 3000, 5), 1 << 20));
    CHECK(mallinfo2().uordblks < before + 200 * 3000, before);
}

static void test_realloc(void)
{
    EACH_SIZE(from)
    {
        EACH_SIZE(to)
        {
            size_t kept = from < to ? from : to;
            unsigned char *p = paint(malloc(from), from, 3), *q;
            if (!to)
                continue;
            q = realloc(p, to);
            CHECK(q && painted(q, kept, 3), from);
            CHECK(malloc_usable_size(q) >= to, to);
            paint(q, to, 4);
            q = reallocarray(q, from + 1, 1);
            CHECK(q != NULL, from);
            free(q);
            free(realloc(NULL, to));
        }
        free(NULL);
        void *p = malloc(from), *gone = realloc(p, 0);
        CHECK(gone == NULL, from);
    }
}

static void test_other_names(void)
{
    EACH_SIZE(n)
    {
        unsigned char *p = paint(malloc(n), n, 6);
        __libc_free(malloc(n));
        old_cfree(malloc(n));
        p = __libc_realloc(p, n + 70000);
        CHECK(p && painted(p, n, 6), n);
        paint(p, n + 70000, 7);
        p = __libc_realloc(p, n / 2 + 1);
        CHECK(p && painted(p, n / 2 + 1, 7), n);
        CHECK(__libc_realloc(p, 0) == NULL, n);
        free(__libc_realloc(NULL, n));
    }
    __libc_free(NULL);
}

static void test_refused_resize(void)
{
    EACH_SIZE(n)
    {
        unsigned char *p = paint(malloc(n), n, 5);
        volatile size_t half = SIZE_MAX / 2 + 2, huge = (size_t)PTRDIFF_MAX;
        launder = p;
        errno = 0;
        CHECK(reallocarray(launder, half, 2) == NULL && errno == ENOMEM, n);
        errno = 0;
        CHECK(realloc(launder, huge) == NULL && errno == ENOMEM, n);
        /* As an overflow of the program's own would ask. */
        for (size_t step = 1; step < 8 << 20; step *= 2) {
            volatile size_t near = (size_t)0 - step;
            errno = 0;
            CHECK(realloc(launder, near) == NULL && errno == ENOMEM, near);
            errno = 0;
            CHECK(reallocarray(launder, 1, near) == NULL && errno == ENOMEM, near);
        }
        p = launder;
        CHECK(painted(p, n, 5), n);
        free(p);
    }
}

static void test_alignment(void)
{
    EACH_SIZE(n)
    {
        for (size_t a = sizeof(void *); a <= (size_t)8 << 20; a *= 4) {
            void *p = NULL, *q = aligned_alloc(a, n), *r = memalign(a, n);
            CHECK(posix_memalign(&p, a, n) == 0, n);
            CHECK((uintptr_t)p % a == 0 && (uintptr_t)q % a == 0 && (uintptr_t)r % a == 0, n);
            CHECK(malloc_usable_size(p) >= n && malloc_usable_size(q) >= n, n);
            paint(p, n, 6);
            paint(q, n, 7);
            paint(r, n, 8);
            CHECK(painted(p, n, 6) && painted(q, n, 7) && painted(r, n, 8), n);
            q = realloc(q, n + 100);
            CHECK(q && painted(q, n, 7), n);
            free(p);
            free(q);
            free(r);
        }
        void *p = &checks;
        errno = 0;
        size_t bad = 3, odd = sizeof(void *) / 2;
        CHECK(posix_memalign(&p, bad * sizeof(void *), n) == EINVAL, n);
        CHECK(posix_memalign(&p, odd, n) == EINVAL && p == &checks && errno == 0, n);
    }
}

static void test_pages(void)
{
    /* An allocator that leaves pvalloc to libc cannot free what comes from it. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (getenv("WITHOUT_PVALLOC"))
        return;
    EACH_SIZE(n)
    {
        void *p = valloc(n), *q = pvalloc(n);
        CHECK((uintptr_t)p % page == 0 && (uintptr_t)q % page == 0, n);
        CHECK(malloc_usable_size(q) >= (n + page - 1) / page * page, n);
        free(p);
        free(q);
    }
}

static void test_errno(void)
{
    EACH_SIZE(n)
    {
        void *p = malloc(n);
        errno = 4711;
        free(p);
        CHECK(errno == 4711, n);
    }
}

static void *allocate_in_thread(void *arg)
{
    unsigned char **p = arg;
    for (int i = 0; i < 14; i++)
        p[i] = paint(malloc(sizes[i]), sizes[i], 9);
    return NULL;
}

static void test_thread_exit(void)
{
    unsigned char *p[14];
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_in_thread, p);
    pthread_join(thread, NULL);
    for (int i = 0; i < 14; i++) {
        CHECK(painted(p[i], sizes[i], 9), sizes[i]);
        free(p[i]);
    }
}

static void test_fork(void)
{
    int status = -1;
    unsigned char *p = paint(malloc(3 << 20), 3 << 20, 10), *q = paint(malloc(70000), 70000, 11);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int right = painted(p, 3 << 20, 10) && painted(q, 70000, 11);
        q = realloc(q, 5 << 20);
        right = right && painted(q, 69000, 11);
        free(p);
        free(q);
        test_malloc();
        test_calloc();
        _exit(right && !failures ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, 0);
    CHECK(painted(p, 3 << 20, 10) && painted(q, 70000, 11), 0);
    free(p);
    free(q);
}

/* Allocations of libc itself on the way arrive through the same functions. */
static void test_libc(void)
{
    char *line = NULL, *text = NULL;
    size_t bytes = 0, room = 0;
    FILE *stream = open_memstream(&text, &bytes);
    for (int i = 0; i < 300000; i++)
        fprintf(stream, "%d", i % 10);
    fprintf(stream, "\n");
    fclose(stream);
    CHECK(bytes == 300001, bytes);
    stream = fmemopen(text, bytes, "r");
    CHECK(getline(&line, &room, stream) == 300001, bytes);
    CHECK(strcmp(line, text) == 0, bytes);
    fclose(stream);
    free(line);
    char *copy = strdup(text);
    CHECK(strcmp(copy, text) == 0, bytes);
    free(copy);
    free(text);
}

/* operator new and delete of libstdc++, without a C++ compiler. */
static void test_new(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    void *(*make)(size_t) = library ? (void *(*)(size_t))dlsym(library, "_Znwm") : NULL;
    void (*drop)(void *) = library ? (void (*)(void *))dlsym(library, "_ZdlPv") : NULL;
    if (!make || !drop)
        return;
    EACH_SIZE(n)
    {
        unsigned char *p = paint(make(n), n, 12);
        CHECK(painted(p, n, 12), n);
        drop(p);
    }
}

static void on_timer(int signal)
{
    (void)signal;
}

/* System calls and locks inside the allocator are interrupted at any place. */
static void test_signals(void)
{
    struct sigaction action = {.sa_handler = on_timer};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 3; i++)
        test_malloc();
    setitimer(ITIMER_REAL, &never, NULL);
}

static void *kept[2];

static void at_exit(void)
{
    free(kept[0]);
    free(malloc(3 << 20));
}

__attribute__((destructor)) static void at_unload(void)
{
    free(kept[1]);
    free(malloc(3 << 20));
}

int main(void)
{
    kept[0] = malloc(3 << 20);
    kept[1] = malloc(100000);
    atexit(at_exit);
    test_malloc();
    test_calloc();
    test_realloc();
    test_realloc_gives_back();
    test_other_names();
    test_refused_resize();
    test_alignment();
    test_pages();
    test_errno();
    test_thread_exit();
    test_fork();
    test_libc();
    test_new();
    test_signals();
    printf("%s\n", failures ? "failed" : "right");
    fprintf(stderr, "%u checks\n", checks);
    return failures != 0;
}
