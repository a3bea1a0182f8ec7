/* SPDX-License-Identifier: MIT */
/* The ring's slots: one owner each, taken again once their copies have passed. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/module.h"
#include "copy/ring.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "real_test.h"

#define HOME ((CUcontext)0x1000)
#define OTHER ((CUcontext)0x2000)

/* An event of the fake driver. */
struct event {
    bool passed; /* Atomic. */
    unsigned waited, destroyed;
};

static struct event events[2 * ZC_RING_SLOTS];
static unsigned registered;
static CUresult registering;

static CUevent event(unsigned i)
{
    return (CUevent)&events[i];
}

static CUresult query(CUevent e)
{
    assert_int_equal(((struct event *)e)->destroyed, 0);
    return __atomic_load_n(&((struct event *)e)->passed, __ATOMIC_ACQUIRE) ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_NOT_READY;
}

static CUresult synchronize(CUevent e)
{
    assert_int_equal(((struct event *)e)->destroyed, 0);
    ((struct event *)e)->waited++;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent e)
{
    ((struct event *)e)->destroyed++;
    return CUDA_SUCCESS;
}

static CUcontext current;

static CUresult get_current(CUcontext *out)
{
    *out = current;
    return CUDA_SUCCESS;
}

static CUresult register_host(void *p, size_t bytes, unsigned flags)
{
    (void)p;
    assert_true(bytes == ZC_RING_SLOT && flags == CU_MEMHOSTREGISTER_PORTABLE);
    registered++;
    return registering;
}

static char pages[2 * ZC_RING_SLOTS]; /* They stand for the memory of slots, also of a child. */
static unsigned made;
static size_t taken; /* Of the limit. */
static bool limited, no_pages;

static bool take_limit(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    assert_true(place == ZC_PLACE_PINNED && device == -1 && bytes == ZC_RING_SLOT);
    *why = "limited";
    taken += limited ? 0 : bytes;
    return !limited;
}

static void give_limit(enum zc_place_id place, int device, size_t bytes)
{
    assert_true(place == ZC_PLACE_PINNED && device == -1 && bytes == ZC_RING_SLOT);
    taken -= bytes;
}

static void *make_pages(size_t bytes, size_t margin, int node)
{
    assert_true(bytes == ZC_RING_SLOT && !margin && node == -1);
    assert_true(taken > made * ZC_RING_SLOT);
    return no_pages ? NULL : &pages[made++];
}

#define zc_limits_take take_limit
#define zc_limits_give give_limit
#define zc_pages_make make_pages
#include "../../shim/copy/ring.c"

static int begin(void **state)
{
    (void)state;
    real_without_driver();
    zc_real.cuEventQuery = query;
    zc_real.cuEventSynchronize = synchronize;
    zc_real.cuEventDestroy_v2 = destroy;
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuMemHostRegister_v2 = register_host;
    memset(events, 0, sizeof(events));
    registered = 0;
    current = HOME;
    registering = CUDA_SUCCESS;
    memset(&ring, 0, sizeof(ring));
    taken = made = 0;
    limited = no_pages = false;
    return 0;
}

/* Takes all slots, which are all different. */
static void take_all(unsigned slots[ZC_RING_SLOTS])
{
    unsigned seen = 0;

    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        slots[i] = zc_ring_take();
        assert_true(slots[i] < ZC_RING_SLOTS && !(seen >> slots[i] & 1));
        seen |= 1u << slots[i];
    }
    assert_int_equal(zc_ring_try(), -1);
}

static void *take(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)(zc_ring_take() + 1);
}

static void a_thread_that_finds_no_slot_gets_the_next_that_is_given_back(void **state)
{
    unsigned slots[ZC_RING_SLOTS];
    pthread_t thread[2];
    void *got[2];

    (void)state;
    take_all(slots);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take, NULL), 0);
    usleep(20000); /* Both may nap by now. */
    alarm(300);    /* In case they never look again. */
    zc_ring_give(slots[3], NULL, NULL);
    zc_ring_give(slots[5], NULL, NULL);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], &got[i]);
    alarm(0);
    assert_int_equal((uintptr_t)got[0] + (uintptr_t)got[1], slots[3] + 1 + slots[5] + 1);
    assert_int_equal(zc_ring_try(), -1);
}

static void a_slot_is_taken_again_once_its_copy_has_passed(void **state)
{
    unsigned slots[ZC_RING_SLOTS];
    pthread_t thread;
    void *got;

    (void)state;
    take_all(slots);
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++)
        zc_ring_give(slots[i], event(i), HOME);
    assert_int_equal(zc_ring_try(), -1);
    events[4].passed = true;
    assert_int_equal(zc_ring_try(), slots[4]);
    assert_int_equal(events[4].destroyed, 1);
    assert_int_equal(zc_ring_try(), -1);
    assert_int_equal(pthread_create(&thread, NULL, take, NULL), 0);
    __atomic_store_n(&events[6].passed, true, __ATOMIC_RELEASE);
    alarm(300); /* In case it never looks again. */
    pthread_join(thread, &got);
    alarm(0);
    assert_int_equal((uintptr_t)got, slots[6] + 1);
    assert_int_equal(events[6].destroyed, 1);
    assert_int_equal(zc_ring_try(), -1);
}

static void what_goes_with_a_context_is_not_touched_and_registered_anew(void **state)
{
    unsigned slots[ZC_RING_SLOTS];
    char *memory;

    (void)state;
    take_all(slots);
    memory = zc_ring_memory(slots[0]);
    assert_non_null(memory);
    assert_ptr_equal(zc_ring_memory(slots[0]), memory);
    assert_int_equal(registered, 1);
    zc_ring_give(slots[0], event(0), HOME);
    zc_ring_give(slots[1], event(1), OTHER);
    zc_module_ring.context_gone(HOME);
    assert_int_equal(events[0].destroyed + events[1].destroyed, 0);
    assert_int_equal(zc_ring_try(), slots[0]);
    assert_int_equal(zc_ring_try(), -1); /* The other context's copy is still on its way. */
    assert_int_equal(events[0].waited + events[0].destroyed, 0);
    assert_ptr_equal(zc_ring_memory(slots[0]), memory);
    assert_int_equal(registered, 2);
}

static void a_slot_whose_memory_is_refused_is_of_no_use(void **state)
{
    unsigned slot = zc_ring_take();

    (void)state;
    registering = CUDA_ERROR_OUT_OF_MEMORY;
    assert_null(zc_ring_memory(slot));
    registering = CUDA_SUCCESS;
    assert_null(zc_ring_memory(slot)); /* It is not asked for again. */
    assert_int_equal(registered, 1);
    zc_ring_give(slot, NULL, NULL);
    assert_int_equal(zc_ring_try(), slot);
}

static void a_slot_without_memory_holds_nothing_of_the_limit(void **state)
{
    unsigned slot = zc_ring_take(), next = zc_ring_take();

    (void)state;
    no_pages = true;
    assert_null(zc_ring_memory(slot));
    assert_int_equal(taken, 0);
    no_pages = false;
    limited = true;
    assert_null(zc_ring_memory(next));
    assert_int_equal(taken + made + registered, 0);
}

/* All of a context's slots, and no other's. */
static void every_slot_of_a_context_is_free_once_that_is_gone(void **state)
{
    unsigned slots[ZC_RING_SLOTS];

    (void)state;
    take_all(slots);
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        assert_non_null(zc_ring_memory(slots[i]));
        zc_ring_give(slots[i], event(i), i % 4 ? HOME : OTHER);
    }
    zc_module_ring.context_gone(HOME);
    for (unsigned i = 0; i < ZC_RING_SLOTS - 2; i++)
        assert_true(zc_ring_try() % 4 > 0);
    assert_int_equal(zc_ring_try(), -1);
}

/* Its memory is a copy, which nobody registered or counts, and the events are the parent's. */
static void a_forked_child_begins_with_slots_of_its_own(void **state)
{
    unsigned slots[ZC_RING_SLOTS], again[ZC_RING_SLOTS];

    (void)state;
    take_all(slots);
    for (unsigned i = 0; i < 4; i++)
        assert_non_null(zc_ring_memory(slots[i]));
    registering = CUDA_ERROR_OUT_OF_MEMORY;
    assert_null(zc_ring_memory(slots[4]));
    registering = CUDA_SUCCESS;
    zc_ring_give(slots[0], event(0), HOME);
    zc_own_forget();
    take_all(again);
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++)
        assert_non_null(zc_ring_memory(again[i]));
    assert_int_equal(registered, 4 + 1 + ZC_RING_SLOTS);
    assert_int_equal(made, 5 + ZC_RING_SLOTS);
    assert_int_equal(events[0].waited + events[0].destroyed, 0);
    zc_module_ring.context_gone(OTHER); /* The parent's event is nobody's. */
    zc_ring_give(again[0], NULL, NULL);
    assert_int_equal(zc_ring_try(), again[0]);
}

static void without_a_context_a_slot_has_no_memory(void **state)
{
    unsigned slot = zc_ring_take();

    (void)state;
    current = NULL;
    assert_null(zc_ring_memory(slot));
    assert_int_equal(registered, 0);
    zc_ring_give(slot, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_thread_that_finds_no_slot_gets_the_next_that_is_given_back, begin),
        cmocka_unit_test_setup(a_slot_is_taken_again_once_its_copy_has_passed, begin),
        cmocka_unit_test_setup(what_goes_with_a_context_is_not_touched_and_registered_anew, begin),
        cmocka_unit_test_setup(a_slot_whose_memory_is_refused_is_of_no_use, begin),
        cmocka_unit_test_setup(without_a_context_a_slot_has_no_memory, begin),
        cmocka_unit_test_setup(a_slot_without_memory_holds_nothing_of_the_limit, begin),
        cmocka_unit_test_setup(every_slot_of_a_context_is_free_once_that_is_gone, begin),
        cmocka_unit_test_setup(a_forked_child_begins_with_slots_of_its_own, begin),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
