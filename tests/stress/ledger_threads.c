/* SPDX-License-Identifier: MIT */
/*
 * Stress: for ZC_STRESS_SECONDS (2) sixteen threads add, find, free, record and take sites at once,
 * and are interrupted by signals whose handlers do so too.  Meant for ThreadSanitizer as well,
 * which must have nothing to report.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "ledger/block.h"
#include "ledger/traffic.h"
#include "ledger/site.h"
#include "ledger/site_path.h"
#include "ledger/counters.h"

#define THREADS 16
#define OWN 512u         /* Places of a thread. */
#define PLACE 4096u      /* Addresses of a place. */
#define LONG_LIVED 1000u /* Blocks that stay, between those that come and go. */
#define ROUND 1000u      /* Operations between looks at the clock. */

struct worker {
    pthread_t thread;           /* Its thread. */
    uint64_t random;            /* State of its numbers. */
    uint64_t first;             /* Address of its places. */
    uint64_t records;           /* Transfers that it recorded. */
    unsigned faults;            /* Wrong results. */
    struct zc_block *live[OWN]; /* Its blocks. */
};

static struct worker workers[THREADS];
static struct zc_block *standing[LONG_LIVED];
static struct timespec deadline;

static uint64_t draw(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static struct zc_block *add(uint64_t base, uint64_t size, uint32_t site)
{
    const struct zc_block like = {.base = base, .size = size, .site = site};

    return zc_block_add(&like);
}

__attribute__((noinline)) static uint32_t wrapper(void)
{
    uint32_t site = zc_site_here(__builtin_frame_address(0), __builtin_return_address(0));

    __asm__ volatile("" ::: "memory");
    return site;
}

/* A standing block is found whatever the other threads do to its neighbours. */
static void look(struct worker *w)
{
    size_t i = draw(w) % LONG_LIVED;

    if (zc_block_find(standing[i]->base + draw(w) % PLACE) != standing[i])
        w->faults++;
}

static void transfer(struct worker *w, struct zc_block *block)
{
    struct zc_transfer t = {.asked =
                                zc_flow((enum zc_dir)(draw(w) % 5), ZC_KIND_PINNED, ZC_KIND_DEVICE),
                            .bytes = 1,
                            .copies = 1,
                            .ticks = 1,
                            .dst = block,
                            .src = standing[draw(w) % LONG_LIVED]};

    zc_traffic_record(&t);
    w->records++;
}

static void operate(struct worker *w)
{
    size_t i = draw(w) % OWN;

    look(w);
    if (w->live[i] == NULL) {
        w->live[i] = add(w->first + i * PLACE, 1 + draw(w) % PLACE, wrapper());
        w->faults += w->live[i] == NULL;
        return;
    }
    w->faults += zc_block_find(w->first + i * PLACE) != w->live[i];
    transfer(w, w->live[i]);
    if (draw(w) % 2 == 0) {
        if (zc_block_claim(w->live[i]))
            zc_block_remove(w->live[i]);
        else
            w->faults++;
        w->live[i] = NULL;
    }
}

static __thread struct worker *self;

/* Works on addresses of its own, in the thread's range.  What fails passes through. */
static void on_signal(int number)
{
    struct zc_block *block;

    (void)number;
    if (self == NULL)
        return;
    block = add(self->first + (OWN + 2) * PLACE, PLACE, wrapper());
    if (block != NULL && zc_block_claim(block))
        zc_block_remove(block);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct timespec now;

    self = w;
    do {
        for (unsigned i = 0; i < ROUND; i++)
            operate(w);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < deadline.tv_sec);
    return NULL;
}

static void add_up(struct zc_block *block, void *arg)
{
    uint64_t *calls = arg;

    for (size_t i = 0; i < 4 && block->cell[i] != NULL; i++)
        *calls += block->cell[i]->by[ZC_MOVED].calls;
}

static void test_threads(void **state)
{
    const char *seconds = getenv("ZC_STRESS_SECONDS");
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t alarms;
    uint64_t records = 0, calls = 0, total = 0;
    static struct zc_totals totals;

    (void)state;
    assert_true(zc_counters_open(NULL));
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += seconds != NULL ? atoi(seconds) : 2;
    for (uint64_t i = 0; i < LONG_LIVED; i++)
        standing[i] = add(((i + 1) << 22) + OWN * PLACE, PLACE, 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.random = i + 1, .first = (i * 60 + 1) << 22};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* So that the workers get it. */
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].faults, 0);
        records += workers[i].records;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    zc_traffic_totals(&totals);
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++)
        total += totals.asked[flow][ZC_MOVED].calls;
    assert_int_equal(total, records);
    /* Each transfer has two blocks, whose cells live or went to their sites. */
    zc_block_each(add_up, &calls);
    for (uint32_t i = 0; i < zc_site_count(); i++)
        for (unsigned dir = 0; dir < ZC_DIR_COUNT; dir++)
            calls += zc_site_get(i)->total[dir].by[ZC_MOVED].calls;
    assert_int_equal(calls, 2 * records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"sixteen threads share the ledger and lose nothing", test_threads, NULL, NULL, NULL},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
