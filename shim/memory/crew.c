/* SPDX-License-Identifier: MIT */
/* Work in pieces that the calling thread shares with others. */
#include "memory/crew.h"

#include <sched.h>

#include "base/arena.h"
#include "base/clock.h"
#include "memory/cgroup.h"
#include "memory/thread.h"

/* One H200 whose 16 processors had 24 other threads to run: copies of 1 to 8 MiB took twice as long
 * as the driver's own while each waited for all of its threads (tests/gpu/MEASURED.md). */
#define TRY_AGAIN 16u /* If no thread came in time, one job in so many starts one. */

static struct {
    uint32_t late;  /* Threads that a job begins with fewer than it wants.  Atomic. */
    uint32_t alone; /* Jobs that began with none.  Atomic. */
    uint64_t asked; /* Ticks when the CPU quota was read, */
    uint64_t quota; /* and the processors that it is worth.  Atomic. */
} crew;

/* Reading a quota takes as long as a small copy, and quotas hardly ever change. */
#define QUOTA_NS UINT64_C(1000000000)

static uint64_t quota(void)
{
    uint64_t before = __atomic_load_n(&crew.asked, __ATOMIC_ACQUIRE), now = zc_ticks();
    if (before && zc_ticks_to_ns(now - before) < QUOTA_NS)
        return __atomic_load_n(&crew.quota, __ATOMIC_RELAXED);
    uint64_t most = zc_cgroup_processors();
    __atomic_store_n(&crew.quota, most, __ATOMIC_RELAXED);
    __atomic_store_n(&crew.asked, now, __ATOMIC_RELEASE);
    return most;
}

/* Of a container those of its CPU set, and no more than its CPU quota is worth. */
size_t zc_crew_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    uint64_t cpus = (uint64_t)CPU_COUNT(&set), most = quota();
    return cpus < most ? cpus : most;
}

void zc_crew_put(struct zc_crew *c)
{
    if (__atomic_sub_fetch(&c->members, 1, __ATOMIC_ACQ_REL) == 0)
        zc_arena_put(c, c->bytes);
}

void *zc_crew_make(size_t bytes, zc_crew_piece *piece, size_t wanted)
{
    struct zc_crew *c = zc_arena_get(bytes);
    if (!c)
        return NULL;
    size_t most = zc_crew_cpus() - 1;
    most = most < ZC_CREW_MAX ? most : ZC_CREW_MAX;
    uint32_t late = __atomic_load_n(&crew.late, __ATOMIC_RELAXED);
    c->piece = piece;
    c->bytes = bytes;
    c->members = 1;
    c->wanted = (unsigned)(wanted < most ? wanted : most);
    c->due = ZC_CREW_MAX - late < c->wanted ? ZC_CREW_MAX - late : c->wanted;
    if (c->due == 0 && c->wanted)
        c->due = __atomic_add_fetch(&crew.alone, 1, __ATOMIC_RELAXED) % TRY_AGAIN == 0;
    return c;
}

/* In this order a thread is seen to be in a piece, or sees that no piece is to be begun. */
static void *crew_main(void *arg)
{
    struct zc_crew *c = arg;
    unsigned who = 1 + __atomic_fetch_add(&c->begun, 1, __ATOMIC_RELAXED);
    while (!__atomic_load_n(&c->over, __ATOMIC_RELAXED)) {
        __atomic_fetch_add(&c->busy, 1, __ATOMIC_SEQ_CST);
        bool did = !__atomic_load_n(&c->over, __ATOMIC_SEQ_CST) && c->piece(c, who);
        __atomic_fetch_sub(&c->busy, 1, __ATOMIC_RELEASE);
        if (!did)
            sched_yield();
    }
    zc_crew_put(c);
    return NULL;
}

bool zc_crew_grow(struct zc_crew *c)
{
    pthread_t thread;
    if (c->due == 0 && __atomic_load_n(&c->begun, __ATOMIC_RELAXED) == c->started)
        c->due = c->started < c->wanted - c->started ? c->started : c->wanted - c->started;
    if (c->due == 0)
        return false;
    __atomic_fetch_add(&c->members, 1, __ATOMIC_RELAXED);
    if (zc_thread_start(&thread, crew_main, c)) {
        pthread_detach(thread);
        c->started++;
        c->due--;
        return true;
    }
    __atomic_fetch_sub(&c->members, 1, __ATOMIC_RELAXED);
    c->wanted = c->started;
    c->due = 0;
    return false;
}

void zc_crew_over(struct zc_crew *c)
{
    __atomic_store_n(&c->over, true, __ATOMIC_SEQ_CST);
}

/* As many threads as came in time are what the next job begins with, or twice as many if all did.
 */
static void crew_learn(const struct zc_crew *c)
{
    uint32_t begun = __atomic_load_n(&c->begun, __ATOMIC_RELAXED), next = begun;
    if (c->started == 0)
        return;
    if (begun == c->started) {
        uint32_t now = ZC_CREW_MAX - __atomic_load_n(&crew.late, __ATOMIC_RELAXED);
        next = 2 * begun < now ? now : 2 * begun < ZC_CREW_MAX ? 2 * begun : ZC_CREW_MAX;
    }
    __atomic_store_n(&crew.late, ZC_CREW_MAX - next, __ATOMIC_RELAXED);
}

void zc_crew_wait(struct zc_crew *c)
{
    zc_crew_over(c);
    while (__atomic_load_n(&c->busy, __ATOMIC_SEQ_CST) != 0)
        sched_yield();
    crew_learn(c);
}
