/* SPDX-License-Identifier: MIT */
/* Registers host blocks of `shared` while the program fills them. */
#include "shared/early.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "ledger/rules.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/workers.h"
#include "shared/heat.h"
#include "vmm/lazy.h"

#define EARLY_MAX 32       /* Most blocks that are looked after at a time. */
#define LOOK_BYTES 4096    /* Of the beginning of a block; something is written there first. */
#define LOOK_US 500u       /* The thread looks so often, */
#define LOOK_MOST_US 4000u /* and ever less often, down to this; */
#define LOOKS 4000         /* then it gives the block up. */
#define MOMENT_US 50u
#define WAIT_MS 1000u /* The longest that others wait for the thread. */

/* Who moves a state to BUSY has the entry until it moves it on. */
enum state {
    FREE,
    WANTED,   /* Nothing was done yet. */
    RESERVED, /* It has addresses; something may be mapped there. */
    READY,    /* Registered there. */
    BUSY,     /* Somebody is at it. */
};

/* Who has the addresses. */
enum user { CLOSED, NOBODY, DEVICE };

struct zc_early {
    uint32_t state; /* enum state.  Atomic. */
    uint32_t user;  /* enum user.  NOBODY: a device block may take the addresses.  Atomic. */
    struct zc_extent *extent; /* NULL: its memory has gone elsewhere. */
    uint64_t serial;          /* Older blocks are taken first. */
    CUcontext context;        /* From RESERVED on, as the next two. */
    CUdeviceptr base;
    size_t span;
    unsigned looks; /* How often nothing was written yet. */
    bool failed;    /* RESERVED: it is not going to be registered.  Atomic. */
};

static ZC_OWN struct zc_early table[EARLY_MAX];
static ZC_OWN uint32_t running; /* There is a thread.  Atomic. */
static ZC_OWN uint32_t busy;    /* It calls the driver.  Atomic. */
static ZC_OWN uint32_t paused;  /* How many keep it from that.  Atomic. */
ZC_OWN uint32_t zc_early_entries;
ZC_OWN uint32_t zc_early_blocks;

static uint32_t state_of(const struct zc_early *w)
{
    return __atomic_load_n(&w->state, __ATOMIC_ACQUIRE);
}

static bool claim(struct zc_early *w, uint32_t from)
{
    return __atomic_compare_exchange_n(&w->state, &from, BUSY, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void let_go(struct zc_early *w, uint32_t state)
{
    __atomic_store_n(&w->state, state, __ATOMIC_RELEASE);
    zc_wake(&w->state);
}

static void leave_extent(struct zc_early *w)
{
    if (w->extent)
        __atomic_store_n(&w->extent->early, false, __ATOMIC_RELEASE);
    w->extent = NULL;
}

static void clear(struct zc_early *w)
{
    leave_extent(w);
    __atomic_store_n(&w->user, CLOSED, __ATOMIC_RELEASE);
    __atomic_fetch_sub(&zc_early_entries, 1, __ATOMIC_RELAXED);
    let_go(w, FREE);
}

static bool set_user(struct zc_early *w, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&w->user, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* Signals of the program's may interrupt the holder only before it calls the driver, and the driver
 * answers in the end. */
static uint32_t hold(struct zc_early *w)
{
    for (;;) {
        uint32_t state = state_of(w);
        if (state == BUSY)
            zc_wait(&w->state, BUSY);
        else if (claim(w, state))
            return state;
    }
}

/* The context that the program's device blocks will most likely be of: that of the only device with
 * an active one. */
static CUcontext likely_context(void)
{
    CUcontext found = NULL;
    int devices = 0;
    if (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
        return NULL;
    for (int i = 0; i < devices; i++) {
        if (!zc_device_has(i, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) ||
            zc_device_has(i, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
            return NULL;
        CUcontext context = zc_stream_primary(i);
        if (context && found)
            return NULL;
        found = context ? context : found;
    }
    return found;
}

static void release_addresses(struct zc_early *w)
{
    zc_memfile_reserve(w->base, w->span);
    zc_real.cuMemAddressFree(w->base, w->span);
}

/* WANTED, held: it gets addresses. */
static bool reserve(struct zc_early *w)
{
    CUcontext popped;
    w->context = likely_context();
    w->span = zc_extent_span(w->extent);
    w->looks = 0;
    __atomic_store_n(&w->failed, false, __ATOMIC_RELAXED);
    if (!w->context || zc_real.cuCtxPushCurrent_v2(w->context) != CUDA_SUCCESS)
        return false;
    CUresult result = zc_real.cuMemAddressReserve(&w->base, w->span, ZC_HOST_UNIT, 0, 0);
    zc_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS;
}

/* RESERVED, held. */
static bool make(struct zc_early *w)
{
    CUcontext popped;
    bool made = false;
    const char *why;
    if (!zc_extent_count(w->extent, &why) ||
        zc_real.cuCtxPushCurrent_v2(w->context) != CUDA_SUCCESS)
        return false;
    if (zc_memfile_show(w->extent, w->base)) {
        made = zc_real.cuMemHostRegister_v2((void *)w->base, w->span,
                                            CU_MEMHOSTREGISTER_PORTABLE |
                                                CU_MEMHOSTREGISTER_DEVICEMAP |
                                                CU_MEMHOSTREGISTER_READ_ONLY) == CUDA_SUCCESS;
        if (!made)
            zc_memfile_reserve(w->base, w->span);
    }
    zc_real.cuCtxPopCurrent_v2(&popped);
    return made;
}

/* READY, held. */
static void unmake(struct zc_early *w)
{
    bool lent = zc_real.cuCtxPushCurrent_v2(w->context) == CUDA_SUCCESS;
    zc_real.cuMemHostUnregister((void *)w->base);
    zc_stream_lent(lent);
    zc_memfile_reserve(w->base, w->span);
}

/* The file is asked, because the program may close the block's pages at any time. */
static bool was_written(const struct zc_early *w)
{
    char bytes[LOOK_BYTES];
    if (w->extent->slot[0].dirty)
        return true;
    if (syscall(SYS_pread64, w->extent->fd, bytes, sizeof(bytes), 0) != (long)sizeof(bytes))
        return false;
    return bytes[0] || memcmp(bytes, bytes + 1, sizeof(bytes) - 1) != 0;
}

static bool in_use(const struct zc_extent *e)
{
    return e && e->use == ZC_EXTENT_BLOCK && zc_memfile_shareable(e) &&
           !__atomic_load_n(&e->odd, __ATOMIC_ACQUIRE);
}

/* A block that takes part in another copy first is not one to be shared; and the copy may be what
 * has written it. */
static bool unused_yet(const struct zc_extent *e)
{
    return __atomic_load_n(&e->pin, __ATOMIC_ACQUIRE) == ZC_PIN_NONE &&
           !__atomic_load_n(&e->copied, __ATOMIC_RELAXED);
}

static void do_reserve(struct zc_early *w)
{
    if (!claim(w, WANTED))
        return;
    if (!in_use(w->extent) || !reserve(w)) {
        clear(w);
        return;
    }
    __atomic_store_n(&w->user, NOBODY, __ATOMIC_RELEASE);
    let_go(w, RESERVED);
}

/* RESERVED, held: it is not going to be registered. */
static void give_up(struct zc_early *w)
{
    if (set_user(w, NOBODY, CLOSED)) {
        release_addresses(w);
        clear(w);
        return;
    }
    __atomic_store_n(&w->failed, true, __ATOMIC_RELEASE);
    let_go(w, RESERVED);
}

static bool has_failed(const struct zc_early *w)
{
    return __atomic_load_n(&w->failed, __ATOMIC_ACQUIRE);
}

static void do_make(struct zc_early *w)
{
    if (has_failed(w) || !claim(w, RESERVED))
        return;
    if (has_failed(w) || !in_use(w->extent) || !unused_yet(w->extent) || zc_await_any())
        give_up(w);
    else if (__atomic_load_n(&w->extent->visits, __ATOMIC_ACQUIRE))
        let_go(w, RESERVED);
    else if (was_written(w) && make(w))
        let_go(w, READY);
    else if (was_written(w) || ++w->looks > LOOKS)
        give_up(w);
    else
        let_go(w, RESERVED);
}

/* Between these two the thread may call the driver: nobody destroys a context or leaves. */
static bool enter(void)
{
    __atomic_store_n(&busy, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&paused, __ATOMIC_SEQ_CST) && !zc_life_closing() && !zc_capture_any())
        return true;
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return false;
}

/* Returns whether something is left to do, and in *done whether something was done. */
static bool look(bool *done)
{
    bool left = false;
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        struct zc_early *w = &table[i];
        uint32_t before = state_of(w);
        if (before == WANTED)
            do_reserve(w);
        else if (before == RESERVED)
            do_make(w);
        uint32_t state = state_of(w);
        *done = *done || state != before;
        left = left || state == WANTED || (state == RESERVED && !has_failed(w));
    }
    return left;
}

static bool any_wanted(void)
{
    for (unsigned i = 0; i < EARLY_MAX; i++)
        if (state_of(&table[i]) == WANTED)
            return true;
    return false;
}

static bool begin(void)
{
    uint32_t none = 0;
    return __atomic_compare_exchange_n(&running, &none, 1, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* What a capture in global mode forbids other threads is allowed to this one (measured). */
static void *run(void *unused)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    unsigned nap = LOOK_US;
    pthread_detach(pthread_self());
    zc_real.cuThreadExchangeStreamCaptureMode(&mode);
    do {
        for (bool left = true, done = false; left && !zc_life_closing(); done = false) {
            if (enter()) {
                left = look(&done);
                __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
            }
            nap = done ? LOOK_US : nap < LOOK_MOST_US ? nap + nap / 4 : nap;
            if (left)
                zc_nap(any_wanted() ? MOMENT_US : nap);
        }
        __atomic_store_n(&running, 0, __ATOMIC_SEQ_CST);
    } while (any_wanted() && !zc_life_closing() && begin());
    return unused;
}

static bool reads(void)
{
    const struct zc_policy *policy = zc_rules();
    for (size_t i = 0; i < policy->rule_count; i++)
        if (zc_rule_has_place(&policy->rules[i], ZC_PLACE_SHARED) &&
            policy->rules[i].access == ZC_ACCESS_READ)
            return true;
    return false;
}

static bool enter_table(struct zc_extent *e)
{
    static uint64_t serial;
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        struct zc_early *w = &table[i];
        if (!claim(w, FREE))
            continue;
        __atomic_fetch_add(&zc_early_entries, 1, __ATOMIC_RELAXED);
        w->extent = e;
        w->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&e->early, true, __ATOMIC_RELEASE);
        let_go(w, WANTED);
        return true;
    }
    return false;
}

void zc_early_want(struct zc_extent *e)
{
    pthread_t thread;
    bool on = __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
    if (!on || !zc_memfile_shareable(e) || e->odd || !reads() || zc_life_closing() ||
        __atomic_load_n(&e->early, __ATOMIC_ACQUIRE) || !enter_table(e))
        return;
    if (begin() && !zc_workers_start(&thread, run, NULL)) {
        __atomic_store_n(&running, 0, __ATOMIC_SEQ_CST);
        for (unsigned i = 0; i < EARLY_MAX; i++)
            if (claim(&table[i], WANTED))
                clear(&table[i]);
    }
}

static bool suits(const struct zc_early *w, uint32_t user, const struct zc_want *want)
{
    return __atomic_load_n(&w->user, __ATOMIC_ACQUIRE) == user && !has_failed(w) &&
           w->context == want->context && w->span == zc_va_round_up(want->size, ZC_HOST_UNIT);
}

bool zc_early_covers_any(CUdeviceptr address)
{
    for (unsigned i = 0; i < EARLY_MAX; i++)
        if (__atomic_load_n(&table[i].user, __ATOMIC_ACQUIRE) != CLOSED &&
            address - table[i].base < table[i].span)
            return true;
    return false;
}

/* Some block may get addresses in a moment. */
static bool any_pending(void)
{
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        uint32_t state = state_of(&table[i]);
        if (state == WANTED ||
            (state == BUSY && __atomic_load_n(&table[i].user, __ATOMIC_ACQUIRE) == CLOSED))
            return true;
    }
    return false;
}

/* The program may ask for the device block right after the host block. */
static void wait_for_pending(void)
{
    for (unsigned i = 0;
         i < 3 * LOOK_MOST_US / MOMENT_US && any_pending() &&
         __atomic_load_n(&running, __ATOMIC_RELAXED) && !__atomic_load_n(&paused, __ATOMIC_RELAXED);
         i++)
        zc_nap(MOMENT_US);
}

struct zc_early *zc_early_take(const struct zc_want *want)
{
    struct zc_early *best = NULL;
    if (want->rule->access != ZC_ACCESS_READ ||
        !__atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED) || zc_capture_any() || zc_await_any())
        return NULL;
    wait_for_pending();
    for (unsigned i = 0; i < EARLY_MAX; i++)
        if (suits(&table[i], NOBODY, want) && (!best || table[i].serial < best->serial))
            best = &table[i];
    if (!best || !set_user(best, NOBODY, DEVICE))
        return NULL;
    if (suits(best, DEVICE, want))
        return best;
    zc_early_spurn(best);
    return NULL;
}

void zc_early_addresses(const struct zc_early *w, CUdeviceptr *base_out, size_t *bytes_out)
{
    *base_out = w->base;
    *bytes_out = w->span;
}

void zc_early_spurn(struct zc_early *w)
{
    if (w)
        set_user(w, DEVICE, NOBODY);
}

/* What the block has of `early` is held.  It attaches memory as others from here on, unless it has
 * become ONE. */
static void end(struct zc_shared *p, uint32_t state)
{
    struct zc_early *w = p->early;
    CUstreamCaptureMode mode = zc_capture_relax();
    if (state == READY)
        unmake(w);
    zc_capture_restore(mode);
    p->early = NULL;
    __atomic_store_n(&p->undecided, false, __ATOMIC_RELEASE);
    if (!p->one)
        zc_lazy_update(p->vmm);
    zc_launch_ask_again(); /* One may have been asked by vmm/lazy.c before, and looks at the count
                            * next. */
    __atomic_fetch_sub(&zc_early_blocks, 1, __ATOMIC_ACQ_REL);
    if (w)
        clear(w);
}

void zc_early_drop(struct zc_shared *p)
{
    if (p->undecided)
        end(p, p->early ? hold(p->early) : FREE);
}

/* Without a record nothing will be shared there. */
void zc_early_keep(struct zc_early *w, struct zc_vmm *v)
{
    struct zc_shared *p = v->pair;
    if (w && v->va.base != w->base) {
        zc_early_spurn(w);
        w = NULL;
    }
    if (!p && w) {
        if (hold(w) == READY)
            unmake(w);
        clear(w);
    }
    if (!p || !(w || zc_shared_writable(p)))
        return;
    bool mine = zc_driver_lock();
    zc_lazy_suspend(v);
    p->early = w;
    __atomic_store_n(&p->undecided, true, __ATOMIC_RELEASE);
    __atomic_fetch_add(&zc_early_blocks, 1, __ATOMIC_ACQ_REL);
    zc_heat_watch();
    if (mine)
        zc_driver_unlock();
}

bool zc_early_finish(struct zc_shared *p, const struct zc_extent *e)
{
    if (!p->early)
        return false;
    uint32_t state = hold(p->early);
    bool ready = state == READY && p->early->extent == e;
    end(p, ready ? RESERVED : state);
    return ready;
}

/* Gives what is registered, and its addresses, back to the driver.  False if a device block has
 * them. */
static bool discard(struct zc_early *w, uint32_t state)
{
    if (state != WANTED && !set_user(w, NOBODY, CLOSED))
        return false;
    if (state == READY)
        unmake(w);
    if (state != WANTED)
        release_addresses(w);
    clear(w);
    return true;
}

void zc_early_forget(const struct zc_extent *e)
{
    for (unsigned i = 0; i < EARLY_MAX && __atomic_load_n(&e->early, __ATOMIC_ACQUIRE); i++) {
        struct zc_early *w = &table[i];
        uint32_t state = hold(w);
        if (w->extent == e && state != FREE && discard(w, state))
            continue;
        if (w->extent == e)
            leave_extent(w);
        let_go(w, state);
    }
}

void zc_early_trim(void)
{
    if (!__atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED) || zc_capture_any() ||
        zc_life_closing() || !zc_driver_lock())
        return;
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        struct zc_early *w = &table[i];
        uint32_t state = hold(w);
        bool surplus = w->extent && zc_hostheap_too_much(w->extent);
        if (!surplus || !discard(w, state))
            let_go(w, state);
    }
    zc_driver_unlock();
}

/* A handler of the program's may be what the thread waits for in the driver, so nobody waits for
 * ever. */
void zc_early_pause(void)
{
    __atomic_fetch_add(&paused, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < WAIT_MS * 1000 / MOMENT_US && __atomic_load_n(&busy, __ATOMIC_SEQ_CST);
         i++)
        zc_nap(MOMENT_US);
}

void zc_early_resume(void)
{
    __atomic_fetch_sub(&paused, 1, __ATOMIC_SEQ_CST);
}

/* What was registered in it is not any more; the addresses are not of a context. */
static void context_lost(CUcontext context)
{
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        struct zc_early *w = &table[i];
        uint32_t state = hold(w);
        if ((state != RESERVED && state != READY) || w->context != context) {
            let_go(w, state);
            continue;
        }
        zc_memfile_reserve(w->base, w->span);
        give_up(w);
    }
}

const struct zc_module zc_module_early = {
    .before_fork = zc_early_pause, .after_fork = zc_early_resume, .context_lost = context_lost};
