/* SPDX-License-Identifier: MIT */
/* Whether libzc is on in this process. */
#include "base/life.h"

#include <pthread.h>

#include "base/lock.h"
#include "base/wait.h"

int zc_life_state = ZC_LIFE_OFF;
static struct {
    uint32_t starter; /* Thread that is starting libzc.  Atomic. */
    bool closing;     /* exit(3) has begun.  Atomic. */
    bool inherited;   /* A forked child whose own cuInit has not succeeded. */
} life;

bool zc_life_closing(void)
{
    return __atomic_load_n(&life.closing, __ATOMIC_ACQUIRE);
}

void zc_life_close(void)
{
    __atomic_store_n(&life.closing, true, __ATOMIC_RELEASE);
}

void zc_life_child(void)
{
    int state = __atomic_load_n(&zc_life_state, __ATOMIC_RELAXED);
    life.inherited = life.inherited || state != ZC_LIFE_OFF;
    if (state != ZC_LIFE_PASS)
        __atomic_store_n(&zc_life_state, ZC_LIFE_OFF, __ATOMIC_RELEASE);
}

bool zc_life_inherited(void)
{
    return life.inherited;
}

void zc_life_init(void)
{
    life.inherited = false;
    zc_life_on();
}

static void life_start(void)
{
    int cancelled;
    __atomic_store_n(&life.starter, zc_thread_id(), __ATOMIC_RELEASE);
    /* If this thread were cancelled, all others would wait for ever. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    bool on = zc_process_start();
    __atomic_store_n(&zc_life_state, on ? ZC_LIFE_ON : ZC_LIFE_PASS, __ATOMIC_RELEASE);
    zc_wake((const uint32_t *)&zc_life_state);
    pthread_setcancelstate(cancelled, NULL);
    __atomic_store_n(&life.starter, 0, __ATOMIC_RELEASE);
}

bool zc_life_start(void)
{
    int state = ZC_LIFE_OFF;
    if (life.inherited)
        return false;
    if (__atomic_compare_exchange_n(&zc_life_state, &state, ZC_LIFE_STARTING, false,
                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        life_start();
    while (__atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_STARTING) {
        if (__atomic_load_n(&life.starter, __ATOMIC_ACQUIRE) == zc_thread_id())
            return false;
        zc_wait((const uint32_t *)&zc_life_state, ZC_LIFE_STARTING);
    }
    return __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
}
