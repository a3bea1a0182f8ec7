/* SPDX-License-Identifier: MIT */
/* Pinned memory that is unregistered, whatever other threads do to it meanwhile. */
#include "sim_views.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

static void unregistered_memory_keeps_its_bytes_and_can_be_registered_again(void **state)
{
    volatile int *p = pinned(0), *aside = pages(PAGE);
    (void)state;
    assert_ptr_equal(aside, move(p, aside));
    p[PAGE / 4] = 8;
    mprotect((void *)(p + PAGE / 4), PAGE, PROT_READ);
    ok(cuMemHostUnregister((void *)p));
    assert_int_equal(7, *aside);
    assert_int_equal(8, p[PAGE / 4]);
    ok(cuMemHostRegister_v2((void *)aside, PAGE, 0));
    assert_int_equal(7, gpu_reads(aside));
    ok(gpu_writes(aside, 9));
    assert_int_equal(9, *aside);
    ok(cuMemHostUnregister((void *)aside));
    munmap((void *)aside, PAGE);
    munmap((void *)p, 2 * PAGE);
}

/* realloc(3) does so with large blocks. */
static void memory_that_was_registered_can_grow(void **state)
{
    volatile int *p = pinned(0);
    (void)state;
    ok(cuMemHostUnregister((void *)p));
    p = mremap((void *)p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    assert_ptr_not_equal(MAP_FAILED, p);
    assert_int_equal(7, *p);
    assert_int_equal(0, p[PAGE / 2]);
    p[PAGE / 2] = 8;
    assert_int_equal(8, p[PAGE / 2]);
    munmap((void *)p, 4 * PAGE);
}

/* A page that another thread moves aside and back while it is unregistered. */
struct mover {
    volatile int *p, *aside, *own; /* the page, where it goes, and what takes its place */
    pthread_barrier_t turn;        /* the page is registered, the page is unregistered */
    volatile bool moving, unregistered, over;
};

/* The old address keeps a mapping, so that no other thread gets it. */
static void move_and_reserve(volatile int *from, volatile int *to)
{
    mremap((void *)from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (void *)to);
    mprotect((void *)to, PAGE, PROT_READ | PROT_WRITE);
}

/* Gives the page's address another page, with n + 1 for n, and takes the page back with that. */
static bool moves_and_keeps(const struct mover *m, int n)
{
    *m->own = n;
    move_and_reserve(m->p, m->aside);
    move_and_reserve(m->own, m->p);
    *m->p = n + 1;
    for (int i = 0; i < 10; i++)
        if (sched_yield() != 0 || *m->p != n + 1 || *m->aside != n)
            return false;
    *m->aside = *m->p;
    move_and_reserve(m->aside, m->p);
    return *m->p == n + 1;
}

static void *move_about(void *data)
{
    struct mover *m = data;
    bool kept = true;
    int n = *m->p;
    for (;;) {
        pthread_barrier_wait(&m->turn);
        if (m->over)
            return kept ? NULL : "a page has other bytes";
        for (; !m->unregistered; m->moving = true)
            kept = kept && moves_and_keeps(m, n++);
        pthread_barrier_wait(&m->turn);
    }
}

static void pages_keep_their_bytes_while_they_move_and_are_unregistered(void **state)
{
    struct mover m = {.p = pinned(0), .aside = pages(PAGE), .own = pages(PAGE)};
    pthread_t thread;
    void *lost;
    (void)state;
    /* No page is zero, so that it would take time to copy them. */
    memset((void *)(m.p + 1), 1, 2 * PAGE - sizeof *m.p);
    pthread_barrier_init(&m.turn, NULL, 2);
    pthread_create(&thread, NULL, move_about, &m);
    for (int i = 0; i < 1000; i++) {
        m.moving = m.unregistered = false;
        pthread_barrier_wait(&m.turn);
        while (!m.moving)
            sched_yield();
        ok(cuMemHostUnregister((void *)m.p));
        m.unregistered = true;
        pthread_barrier_wait(&m.turn);
        ok(cuMemHostRegister_v2((void *)m.p, 2 * PAGE, 0));
    }
    m.over = true;
    pthread_barrier_wait(&m.turn);
    pthread_join(thread, &lost);
    pthread_barrier_destroy(&m.turn);
    assert_null(lost);
    release(m.p);
    munmap((void *)m.aside, PAGE);
    munmap((void *)m.own, PAGE);
}

/* Counts up in memory that is registered and unregistered meanwhile. */
struct writer {
    volatile int *p;     /* counter, and a page further a copy of it */
    volatile bool *over; /* tells the end */
};

static void *count_up(void *data)
{
    struct writer *w = data;
    int n = 0;
    while (!*w->over) {
        w->p[0] = ++n;
        w->p[1024] = n;
        if (w->p[0] != n || w->p[1024] != n)
            return (void *)"a write was lost";
    }
    return NULL;
}

/* In fresh memory: what was registered once is not swapped again. */
static void no_write_is_lost_while_memory_is_registered_and_unregistered(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        volatile int *p = pages(2 * PAGE);
        volatile bool over = false;
        struct writer writers[2] = {{p, &over}, {p + PAGE / 4, &over}};
        pthread_t threads[2];
        void *lost[2];
        for (int j = 0; j < 2; j++)
            pthread_create(&threads[j], NULL, count_up, &writers[j]);
        while (!p[0] || !p[PAGE / 4])
            sched_yield();
        ok(cuMemHostRegister_v2((void *)p, 2 * PAGE, 0));
        ok(cuMemHostUnregister((void *)p));
        over = true;
        for (int j = 0; j < 2; j++)
            pthread_join(threads[j], &lost[j]);
        assert_null(lost[0]);
        assert_null(lost[1]);
        munmap((void *)p, 2 * PAGE);
    }
}

/* On a stack that was registered parent and child would write to each other's frames. */
static void a_child_can_be_forked_from_a_stack_that_was_registered(void **state)
{
    volatile int value[16384] = {7};
    int status;
    (void)state;
    ok(cuMemHostRegister_v2((void *)value, sizeof value, 0));
    ok(cuMemHostUnregister((void *)value));
    pid_t pid = fork();
    if (pid == 0)
        _exit(value[0]++);
    waitpid(pid, &status, 0);
    assert_int_equal(7, WEXITSTATUS(status));
    assert_int_equal(7, value[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(unregistered_memory_keeps_its_bytes_and_can_be_registered_again),
        sim_test(memory_that_was_registered_can_grow),
        sim_test(pages_keep_their_bytes_while_they_move_and_are_unregistered),
        sim_test(no_write_is_lost_while_memory_is_registered_and_unregistered),
        sim_test(a_child_can_be_forked_from_a_stack_that_was_registered),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, NULL);
}
