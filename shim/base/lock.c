/* SPDX-License-Identifier: MIT */
/* The lock: a futex word that holds its owner's thread id, so that re-entry shows. */
#include "base/lock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/wait.h"

/* Thread ids are below 2^22 (PID_MAX_LIMIT in proc(5)); the top bit says that somebody sleeps. */
#define WAITERS 0x80000000u
#define SPINS 64

static __thread struct {
    uint32_t id;   /* 0: not known yet. */
    uint32_t held; /* One bit for the rank of each lock that the thread holds or is taking.  Set
                    * before the lock is taken, so that a handler in between sees it. */
    int cancelled; /* Calls of the driver's may be cancellation points, and nobody would drop the
                    * lock of a thread that ends there: whether it may be cancelled otherwise. */
} mine;

static bool covers_driver(const struct zc_lock *lock, uint32_t others)
{
    return lock->rank <= ZC_RANK_ACCESS && !(others & ((2u << ZC_RANK_ACCESS) - 1));
}

uint32_t zc_thread_id(void)
{
    if (mine.id == 0)
        mine.id = (uint32_t)syscall(SYS_gettid);
    return mine.id;
}

void zc_thread_id_reset(void)
{
    mine.id = 0;
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool word_grab(uint32_t *word, uint32_t wanted)
{
    uint32_t free_word = 0;
    return __atomic_compare_exchange_n(word, &free_word, wanted, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* A thread that slept takes the lock with the bit set: others may sleep on it still. */
static void sleep_for(uint32_t *word, uint32_t me)
{
    while (!word_grab(word, me | WAITERS)) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        if (seen == 0)
            continue;
        if (!(seen & WAITERS) && !__atomic_compare_exchange_n(word, &seen, seen | WAITERS, false,
                                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        zc_futex(word, FUTEX_WAIT_PRIVATE, seen | WAITERS);
    }
}

void zc_word_lock(uint32_t *word)
{
    uint32_t me = zc_thread_id();
    if (word_grab(word, me))
        return;
    for (int i = 0; i < SPINS; i++) {
        pause_cpu();
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0 && word_grab(word, me))
            return;
    }
    sleep_for(word, me);
}

void zc_word_unlock(uint32_t *word)
{
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & WAITERS)
        zc_futex(word, FUTEX_WAKE_PRIVATE, 1);
}

bool zc_lock_take(struct zc_lock *lock)
{
    uint32_t others = mine.held;
    if (others >> lock->rank)
        return false;
    mine.held |= 1u << lock->rank;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (covers_driver(lock, others))
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mine.cancelled);
    zc_word_lock(&lock->owner);
    return true;
}

void zc_lock_drop(struct zc_lock *lock)
{
    uint32_t others = mine.held & ~(1u << lock->rank);
    zc_word_unlock(&lock->owner);
    if (covers_driver(lock, others))
        pthread_setcancelstate(mine.cancelled, NULL);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    mine.held = others;
}

bool zc_lock_held(void)
{
    return mine.held;
}

/* From the linker: the section's bounds, NULL where nothing is in it. */
extern struct zc_lock __start_zc_locks[] __attribute__((visibility("hidden"), weak));
extern struct zc_lock __stop_zc_locks[] __attribute__((visibility("hidden"), weak));

void zc_lock_reset_all(void)
{
    for (struct zc_lock *lock = __start_zc_locks; lock != __stop_zc_locks; lock++)
        __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    mine.held = 0;
}
