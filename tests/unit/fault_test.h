/* SPDX-License-Identifier: MIT */
/* A place for tests that protects pages of its own. */
#ifndef TESTS_UNIT_FAULT_TEST_H
#define TESTS_UNIT_FAULT_TEST_H

#include "child_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "fault/fault.h"

/* A sanitizer's library has some of the functions that libzc stands in front of, and comes before
 * the archive: one that it lacks brings the rest. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static int (*const hooks_on_masks)(int sig) __attribute__((used)) = sighold;
#pragma GCC diagnostic pop

#define PAGE ((size_t)4096)
#define PAGES ((size_t)64)

static char *region;        /* PAGES pages that may be protected. */
static char *foreign;       /* A page that nobody may touch, and that is not ours. */
static volatile int faults; /* Served. */
static volatile int opened; /* Pages that open() made accessible. */
static int state[PAGES];    /* Protection of each page; atomic. */

static inline bool fake_owns(uintptr_t address)
{
    return address - (uintptr_t)region < PAGES * PAGE;
}

static inline bool fake_unprotect(size_t page, bool write)
{
    int wanted = write ? PROT_READ | PROT_WRITE : PROT_READ;
    if ((__atomic_load_n(&state[page], __ATOMIC_ACQUIRE) & wanted) == wanted)
        return false;
    mprotect(region + page * PAGE, PAGE, wanted);
    __atomic_store_n(&state[page], wanted, __ATOMIC_RELEASE);
    return true;
}

static void (*while_served)(void); /* Called once in the service of a fault; NULL for nothing. */

static inline bool fake_fault(uintptr_t address, bool write)
{
    void (*meanwhile)(void) = while_served;
    while_served = NULL;
    if (meanwhile)
        meanwhile();
    fake_unprotect((address - (uintptr_t)region) / PAGE, write);
    __atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
    return true;
}

static inline bool fake_open(uintptr_t low, uintptr_t high, bool refused)
{
    (void)refused;
    bool changed = false;
    for (size_t page = 0; page < PAGES; page++) {
        uintptr_t at = (uintptr_t)region + page * PAGE;
        if (at < high && at + PAGE > low && fake_unprotect(page, true)) {
            changed = true;
            opened++;
        }
    }
    return changed;
}

static const struct zc_fault_ops fake_ops = {fake_owns, fake_fault, NULL, fake_open};

/* Writes one byte, here and now. */
static inline void poke(char *at)
{
    *(volatile char *)at = 1;
}

/* Protects the whole region, each page filled with a byte of its own. */
static inline void fake_protect(int protection)
{
    mprotect(region, PAGES * PAGE, PROT_READ | PROT_WRITE);
    for (size_t page = 0; page < PAGES; page++) {
        memset(region + page * PAGE, (int)page + 1, PAGE);
        state[page] = protection;
    }
    mprotect(region, PAGES * PAGE, protection);
    faults = opened = 0;
}

static inline void fake_map(void)
{
    region = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    foreign = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region != MAP_FAILED && foreign != MAP_FAILED);
}

/* Before the tests of a group (cmocka). */
static inline int fake_setup(void **test)
{
    (void)test;
    fake_map();
    return 0;
}

/* For a thread that says when it is ready, and may wait for a byte. */
static int channel[2];
static int ready; /* Atomic. */

/* Returns as soon as it is ready. */
static inline pthread_t begin(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    ready = 0;
    if (pipe(channel) != 0 || pthread_create(&thread, NULL, run, argument) != 0)
        _exit(1);
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        usleep(100);
    return thread;
}

/* From here on pages are protected, and the thread that waits for a byte touches one. */
static inline void protect_and_go(void)
{
    if (zc_fault_start(&fake_ops))
        _exit(5);
    fake_protect(PROT_NONE);
    if (write(channel[1], "x", 1) != 1)
        _exit(6);
}

static inline void mask_past_libc(int how, uint64_t mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, how, &mask, old, sizeof(mask));
}

#define BIT(sig) ((uint64_t)1 << ((sig)-1))

#endif
