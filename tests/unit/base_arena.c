/* SPDX-License-Identifier: MIT */
/* The arena: alignment, reuse, growth, threads, signals and fork. */
#include "base_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena_mapped.h"

static bool all_zero(const void *memory, size_t n)
{
    const char *p = memory;

    for (size_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static void objects_of_every_size_are_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t n = 0; n < (size_t)40 << 20; n += n / 7 + 1) {
        char *memory = zc_arena_get(n);

        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        if (n > 256 || n % 64 == 0)
            assert_int_equal((uintptr_t)memory % (n > 0 ? 64 : 16), 0);
        assert_true(all_zero(memory, n));
        memset(memory, 0xa5, n);
        zc_arena_put(memory, n);
    }
}

static void what_was_put_back_comes_again_and_zeroed(void **state)
{
    static const size_t sizes[] = {1, 16, 144, 256, 257, 1024, 3000, 40000, 1 << 20, 9 << 20};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t mapped;
        char *first = zc_arena_get(sizes[i]), *again;

        memset(first, 0xff, sizes[i]);
        zc_arena_put(first, sizes[i]);
        mapped = arena_mapped();
        again = zc_arena_get(sizes[i]);
        assert_ptr_equal(again, first);
        assert_true(all_zero(again, sizes[i]));
        assert_int_equal(arena_mapped(), mapped);
        zc_arena_put(again, sizes[i]);
    }
}

static void a_request_that_no_address_space_holds_gives_null(void **state)
{
    (void)state;
    assert_null(zc_arena_get(SIZE_MAX));
    assert_null(zc_arena_get((size_t)1 << 47));
    zc_arena_put(NULL, 1);
    void *list = NULL;
    unsigned room = 0;
    assert_false(zc_arena_extend(&list, &room, 0, (size_t)1 << 47, 1));
    assert_true(!list && !room);
}

static void a_million_small_objects_cost_at_most_an_eighth_more(void **state)
{
    enum { N = 1000000, SIZE = 144 };
    size_t before = arena_mapped();
    void **objects = malloc(N * sizeof(*objects));

    (void)state;
    for (int i = 0; i < N; i++)
        assert_non_null(objects[i] = zc_arena_get(SIZE));
    assert_true(arena_mapped() - before < (size_t)N * SIZE / 100 * 112);
    for (int i = 0; i < N; i++)
        zc_arena_put(objects[i], SIZE);
    before = arena_mapped();
    for (int i = 0; i < 10 * N; i++)
        zc_arena_put(zc_arena_get(SIZE), SIZE);
    assert_int_equal(arena_mapped(), before);
    free(objects);
}

enum { THREADS = 8, OWN = 200, ROUNDS = 20000 };

/* Every object is filled with its owner's byte: an overlap shows as another byte. */
static void *hold_objects(void *arg)
{
    unsigned char mine = (unsigned char)(uintptr_t)arg;
    unsigned char *object[OWN] = {0};
    size_t size[OWN] = {0};
    unsigned seed = mine;

    for (int round = 0; round < ROUNDS; round++) {
        int i = rand_r(&seed) % OWN;

        for (size_t k = 0; k < size[i]; k++)
            if (object[i][k] != mine)
                return "overlap";
        zc_arena_put(object[i], size[i]);
        size[i] = (size_t)rand_r(&seed) % (round % 50 == 0 ? 100000 : 600) + 1;
        object[i] = zc_arena_get(size[i]);
        if (object[i] == NULL || !all_zero(object[i], size[i]))
            return "not zero";
        memset(object[i], mine, size[i]);
    }
    for (int i = 0; i < OWN; i++)
        zc_arena_put(object[i], size[i]);
    return NULL;
}

static void objects_of_threads_never_overlap(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, hold_objects, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *fault;

        pthread_join(thread[i], &fault);
        if (fault != NULL)
            fail_msg("%s", (char *)fault);
    }
}

enum { LENT = 5000 }; /* A size that nothing else here has. */

static atomic_int refused, served;
static _Atomic(void *) lent;

static void use_arena(int signal)
{
    void *memory = zc_arena_get(64);

    (void)signal;
    if (memory == NULL) {
        atomic_fetch_add(&refused, 1);
        zc_arena_put(atomic_exchange(&lent, NULL), LENT);
    } else {
        atomic_fetch_add(&served, 1);
    }
    zc_arena_put(memory, 64);
}

static void a_signal_handler_inside_the_arena_is_refused_and_nothing_hangs(void **state)
{
    struct itimerval fast = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};
    size_t before;

    (void)state;
    atomic_store(&lent, zc_arena_get(LENT));
    zc_arena_put(zc_arena_get(64), 64);
    zc_arena_put(zc_arena_get(1000), 1000);
    signal(SIGALRM, use_arena);
    setitimer(ITIMER_REAL, &fast, NULL);
    before = arena_mapped();
    for (int i = 0; i < 3000000 || (atomic_load(&refused) == 0 && i < 100000000); i++)
        zc_arena_put(zc_arena_get(1000), 1000);
    setitimer(ITIMER_REAL, &off, NULL);
    assert_true(atomic_load(&served) > 0);
    assert_true(atomic_load(&refused) > 0);
    assert_non_null(zc_arena_get(LENT));
    assert_true(arena_mapped() - before <= (size_t)256 << 10);
}

static int child_starts_anew(const char *parents)
{
    zc_arena_reset();
    if (arena_mapped() != 0 || !all_zero(parents, 144))
        return 2;
    for (int i = 0; i < 1000; i++) {
        void *memory = zc_arena_get(144);

        if (memory == NULL || !all_zero(memory, 144))
            return 1;
    }
    return 0;
}

static void a_forked_child_starts_with_an_empty_arena(void **state)
{
    char *parents = zc_arena_get(144);
    int status;
    pid_t child;

    (void)state;
    memset(parents, 0x5a, 144);
    child = fork();
    if (child == 0)
        _exit(child_starts_anew(parents));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(parents[143], 0x5a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_of_every_size_are_zeroed_and_aligned),
        cmocka_unit_test(what_was_put_back_comes_again_and_zeroed),
        cmocka_unit_test(a_request_that_no_address_space_holds_gives_null),
        cmocka_unit_test(a_million_small_objects_cost_at_most_an_eighth_more),
        cmocka_unit_test(objects_of_threads_never_overlap),
        cmocka_unit_test(a_signal_handler_inside_the_arena_is_refused_and_nothing_hangs),
        cmocka_unit_test(a_forked_child_starts_with_an_empty_arena),
    };

    return RUN_TESTS(tests);
}
