/* A thread that waits for devices, because fault handlers must not call CUDA. */
#include "shared/reveal.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/life.h"
#include "host/extent.h"

/* Handlers that may wait at the same time; more wait for their turn. */
#define SEATS 64u

static uint32_t asked;         /* Tickets given out.  Atomic, and a futex. */
static uint32_t served;        /* Tickets done.  Atomic, and a futex. */
static CUcontext seats[SEATS]; /* Context of each ticket, NULL in a free seat.  Atomic. */
static uint32_t good[SEATS];   /* Whether the device of the last ticket there came to rest. */
static uint32_t started;       /* Era of the process that has the thread; 0: none.  Atomic. */

static void wait_while(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static bool device_rests(CUcontext context)
{
    CUcontext popped;
    if (zc_life_closing() || zc_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    bool rests = zc_real.cuCtxSynchronize() == CUDA_SUCCESS;
    zc_real.cuCtxPopCurrent_v2(&popped);
    return rests;
}

static void *serve(void *unused)
{
    (void)unused;
    for (uint32_t ticket = 0;; ticket++) {
        uint32_t seat = ticket % SEATS;
        CUcontext context;
        while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) == ticket)
            wait_while(&asked, ticket);
        while (!(context = __atomic_load_n(&seats[seat], __ATOMIC_ACQUIRE)))
            ; /* The handler is between its ticket and its seat. */
        good[seat] = device_rests(context);
        __atomic_store_n(&seats[seat], NULL, __ATOMIC_RELEASE);
        __atomic_store_n(&served, ticket + 1, __ATOMIC_RELEASE);
        wake(&served);
    }
    return NULL;
}

/* The thread must not run the program's signal handlers.  SIGSEGV stays open, as in all threads
 * while pages are protected: one that blocks it for good would forbid to protect more. */
bool zc_shared_reveal_start(void)
{
    pthread_t thread;
    uint32_t era = __atomic_load_n(&started, __ATOMIC_ACQUIRE);
    uint64_t all = ~(UINT64_C(1) << (SIGSEGV - 1)), mask;
    if (era == zc_extent_era || !__atomic_compare_exchange_n(&started, &era, zc_extent_era, false,
                                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return true;
    asked = served = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof(mask));
    bool made = pthread_create(&thread, NULL, serve, NULL) == 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
    if (made)
        pthread_detach(thread);
    else
        __atomic_store_n(&started, 0, __ATOMIC_RELEASE);
    return made;
}

static bool show(struct zc_shared *p, uint64_t offset)
{
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        return true;
    enum zc_effect v = zc_coherent_reveal(&p->pages, offset);
    zc_shared_unlock(p, &hold);
    return v == ZC_EFFECT_DONE;
}

bool zc_shared_reveal(struct zc_shared *p, uint64_t offset)
{
    struct zc_extent *e = __atomic_load_n(&p->extent, __ATOMIC_ACQUIRE);
    if (!e || __atomic_load_n(&started, __ATOMIC_ACQUIRE) != zc_extent_era || p->era != started)
        return false;
    uint32_t ticket = __atomic_fetch_add(&asked, 1, __ATOMIC_ACQ_REL), done;
    while ((done = __atomic_load_n(&served, __ATOMIC_ACQUIRE)) + SEATS <= ticket)
        wait_while(&served, done);
    __atomic_store_n(&seats[ticket % SEATS], (CUcontext)e->context, __ATOMIC_RELEASE);
    wake(&asked);
    while ((done = __atomic_load_n(&served, __ATOMIC_ACQUIRE)) <= ticket)
        wait_while(&served, done);
    return good[ticket % SEATS] && show(p, offset);
}

bool zc_shared_reveal_in_call(struct zc_shared *p, uint64_t offset)
{
    struct zc_extent *e = __atomic_load_n(&p->extent, __ATOMIC_ACQUIRE);
    return e && device_rests(e->context) && show(p, offset);
}
