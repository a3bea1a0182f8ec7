/* SPDX-License-Identifier: MIT */
/* Registering the host heap: when, what the limits stop, and what a refusal leaves. */
#include "host_pinned_test.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "host/memfile.h"
#include "memory/limits.h"
#include "place/placed.h"

static uint64_t maps; /* That the kernel allows; 0: as many as it says. */

static uint64_t fewer_maps(void)
{
    return maps ? maps : zc_limits_maps();
}

#define zc_limits_maps fewer_maps
#include "../../shim/host/pinned.c"

#define GIB ((size_t)1 << 30)

static void yield_to_program(uint64_t at, size_t bytes)
{
    if (zc_pinned_yield(at, bytes, 0, ZC_FN_cuMemHostRegister_v2) != CUDA_SUCCESS)
        abort();
}

static void *asked_in_a_child; /* That the child of a fork while it is registered registers. */

/* Its status: the child of another thread's fork, which has no thread that would end the call. */
static int forked(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(300);
        yield_to_program((uintptr_t)asked_in_a_child, MIB);
        zc_pinned_return((uintptr_t)asked_in_a_child, MIB);
        _exit(zc_pinned_use(extent_of(asked_in_a_child), 64 * MIB));
    }
    waitpid(child, &status, 0);
    return status;
}

static int child_status;

static CUresult CUDAAPI register_and_fork(void *p, size_t bytes, unsigned flags)
{
    child_status = forked();
    return do_register(p, bytes, flags);
}

/* The first test: counted down, nothing would count up again before the limit. */
static void refused_registrations_leave_room_for_others(void **state)
{
    (void)state;
    void *p[3];
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 3; i++) {
        p[i] = host_get(60 * MIB);
        if (i == 2)
            answer = CUDA_SUCCESS;
        assert_int_equal(zc_pinned_use(extent_of(p[i]), 60 * MIB), i == 2);
    }
    for (int i = 0; i < 3; i++)
        zc_hostmem_put(p[i]);
}

static void the_first_large_transfer_registers(void **state)
{
    (void)state;
    void *p = host_get(64 * MIB);
    assert_non_null(p);
    assert_false(zc_pinned_use(extent_of(p), MIB));
    assert_int_equal(registered, 0);
    assert_false(zc_extent_registered(extent_of(p)));
    assert_true(zc_pinned_use(extent_of(p), 4 * MIB));
    assert_true(zc_extent_registered(extent_of(p)));
    assert_true(zc_pinned_use(extent_of(p), 1));
    assert_int_equal(registered, 1);
    zc_hostmem_put(p);
}

/* A copy of pageable memory does nothing that a capture of another thread's forbids. */
static void a_copy_registers_in_relaxed_mode(void **state)
{
    (void)state;
    void *p = host_get(64 * MIB);
    assert_true(zc_pinned_use(extent_of(p), 4 * MIB));
    assert_int_equal(registered_in, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    zc_hostmem_put(p);
}

static void many_small_transfers_register_too(void **state)
{
    (void)state;
    void *p = host_get(79 * MIB);
    unsigned calls = 1;
    while (!zc_pinned_use(extent_of(p), MIB))
        calls++;
    assert_int_equal(calls, 5);
    zc_hostmem_put(p);
}

static void a_refused_block_stays_pageable_for_good(void **state)
{
    (void)state;
    void *p = host_get(100 * MIB);
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(zc_pinned_use(extent_of(p), 100 * MIB));
    answer = CUDA_SUCCESS;
    assert_false(zc_pinned_use(extent_of(p), 100 * MIB));
    assert_int_equal(registered, 0);
    zc_hostmem_put(p);
}

static void without_a_context_it_waits_for_one(void **state)
{
    (void)state;
    void *p = host_get(110 * MIB);
    CUcontext there = current;
    current = NULL;
    assert_false(zc_pinned_use(extent_of(p), 110 * MIB));
    current = there;
    assert_true(zc_pinned_use(extent_of(p), 110 * MIB));
    zc_hostmem_put(p);
}

static void a_destroyed_context_takes_the_registration_along(void **state)
{
    (void)state;
    void *p = host_get(120 * MIB), *q = host_get(120 * MIB);
    zc_pinned_use(extent_of(p), 120 * MIB);
    current = (CUcontext)0x2000;
    zc_pinned_use(extent_of(q), 120 * MIB);
    zc_module_pinned.context_lost((CUcontext)0x1000);
    assert_int_equal(registered, 2);
    assert_true(zc_pinned_use(extent_of(p), 120 * MIB));
    assert_true(zc_pinned_use(extent_of(q), 120 * MIB));
    assert_int_equal(registered, 3);
    current = (CUcontext)0x1000;
    zc_hostmem_put(p);
    zc_hostmem_put(q);
}

static void what_the_program_registers_is_left_to_it(void **state)
{
    (void)state;
    char *p = host_get(130 * MIB);
    uint64_t at = (uintptr_t)p + 4096;
    zc_pinned_use(extent_of(p), 130 * MIB);
    assert_true(zc_pinned_hides((uintptr_t)p));
    assert_true(zc_disguise((uintptr_t)p) != (uintptr_t)p);
    yield_to_program(at, MIB);
    yield_to_program(at + 2 * MIB, MIB);
    assert_int_equal(unregistered, 1);
    assert_false(zc_pinned_hides((uintptr_t)p));
    assert_true(zc_disguise((uintptr_t)p) == (uintptr_t)p);
    assert_false(zc_pinned_use(extent_of(p), 130 * MIB));
    zc_hostmem_put(p);
    char *q = host_get(130 * MIB);
    assert_true(q != p);
    zc_pinned_return(at, MIB);
    assert_false(zc_pinned_hides((uintptr_t)p));
    zc_pinned_return(at + 2 * MIB, MIB);
    char *r = host_get(130 * MIB);
    assert_ptr_equal(extent_of(p), extent_of(r));
    assert_true(zc_pinned_use(extent_of(r), 130 * MIB));
    zc_hostmem_put(q);
    zc_hostmem_put(r);
}

static void a_child_waits_for_no_registration_of_its_parents(void **state)
{
    (void)state;
    asked_in_a_child = host_get(64 * MIB);
    zc_real.cuMemHostRegister_v2 = register_and_fork;
    assert_true(zc_pinned_use(extent_of(asked_in_a_child), 64 * MIB));
    zc_real.cuMemHostRegister_v2 = do_register;
    assert_int_equal(child_status, 0);
    zc_hostmem_put(asked_in_a_child);
}

static void nothing_of_512_gib_is_placed(void **state)
{
    (void)state;
    assert_null(host_get(512 * GIB));
}

static void slots_of_a_slab_share_one_registration(void **state)
{
    (void)state;
    void *p[16];
    for (int i = 0; i < 16; i++)
        p[i] = host_get(100000);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++)
            assert_true(p[i] != p[j]);
    for (int i = 0; i < 16; i++)
        zc_pinned_use(extent_of(p[i]), 200000);
    assert_int_equal(registered, 1);
    for (int i = 0; i < 16; i++)
        zc_hostmem_put(p[i]);
}

/* Memory as a cuMemHostAlloc in a context gets it. */
static void *asked_in(CUcontext context, size_t bytes)
{
    const struct zc_host_want want = {
        .size = bytes, .alignment = 4096, .zero = true, .owner = context};
    struct zc_slot *slot;
    const char *why;
    void *p = zc_hostheap_get(&want, &slot, &why);
    assert_non_null(p);
    current = context;
    assert_int_equal(zc_pinned_now(extent_of(p), &why), answer);
    current = (CUcontext)0x1000;
    return p;
}

static void what_the_driver_was_asked_for_shares_no_extent_with_libc(void **state)
{
    (void)state;
    CUcontext other = (CUcontext)0x3000;
    void *libc = host_get(100000), *a = asked_in(current, 100000), *b = asked_in(other, 100000);
    assert_true(extent_of(libc) != extent_of(a) && extent_of(a) != extent_of(b));
    assert_int_equal(registered, 2);
    void *c = asked_in(other, 100000);
    assert_ptr_equal(extent_of(b), extent_of(c));
    assert_int_equal(registered, 2);
    yield_to_program((uintptr_t)a, 4096);
    zc_pinned_return((uintptr_t)a, 4096);
    assert_int_equal(unregistered, 0);
    zc_hostheap_put(a);
    zc_hostheap_put(b);
    zc_hostheap_put(c);
    zc_hostmem_put(libc);
}

static void memory_that_another_context_registered_is_left_in_the_pool(void **state)
{
    (void)state;
    CUcontext other = (CUcontext)0x4000;
    char *p = asked_in(other, 150 * MIB);
    p[0] = p[150 * MIB - 1] = 1;
    zc_hostheap_put(p);
    char *q = asked_in(current, 150 * MIB);
    assert_true(p != q);
    char *r = asked_in(other, 150 * MIB);
    assert_ptr_equal(extent_of(p), extent_of(r));
    assert_true(r[0] == 0 && r[150 * MIB - 1] == 0);
    assert_int_equal(registered, 2);
    zc_hostheap_put(q);
    zc_hostheap_put(r);
}

static void what_could_not_be_registered_once_is_tried_again(void **state)
{
    (void)state;
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    void *p = asked_in(current, 160 * MIB);
    zc_hostheap_put(p);
    answer = CUDA_SUCCESS;
    assert_ptr_equal(asked_in(current, 160 * MIB), p);
    assert_int_equal(registered, 1);
    zc_hostheap_put(p);
}

static size_t parts[8]; /* Bytes of the registrations in turn. */

/* Refuses the one behind so many others. */
static unsigned refused_behind;
static CUresult CUDAAPI register_part(void *p, size_t bytes, unsigned flags)
{
    if (registered == refused_behind)
        return CUDA_ERROR_UNKNOWN;
    parts[registered] = bytes;
    return do_register(p, bytes, flags);
}

static void *asked_by_parts(size_t bytes, unsigned refuse_behind, CUresult expected)
{
    refused_behind = refuse_behind;
    zc_real.cuMemHostRegister_v2 = register_part;
    const struct zc_host_want want = {
        .size = bytes, .alignment = 4096, .zero = true, .owner = current};
    struct zc_slot *slot;
    const char *why;
    void *p = zc_hostheap_get(&want, &slot, &why);
    assert_int_equal(zc_pinned_now(extent_of(p), &why), expected);
    zc_real.cuMemHostRegister_v2 = do_register;
    available = UINT64_MAX;
    return p;
}

static void a_block_of_the_drivers_is_registered_in_parts_and_no_byte_more(void **state)
{
    (void)state;
    void *p = asked_by_parts(512 * MIB + 5000, 8, CUDA_SUCCESS);
    assert_int_equal(registered, 3);
    assert_int_equal(parts[0], 256 * MIB);
    assert_int_equal(parts[1], 256 * MIB);
    assert_int_equal(parts[2], 8192);
    assert_true(zc_pinned_unregister(extent_of(p)));
    assert_int_equal(unregistered, 3);
    __atomic_store_n(&extent_of(p)->pin, ZC_PIN_NONE, __ATOMIC_RELEASE);
    zc_hostheap_put(p);
}

static void a_part_that_is_refused_ends_the_others(void **state)
{
    (void)state;
    void *p = asked_by_parts(600 * MIB, 2, CUDA_ERROR_UNKNOWN);
    assert_int_equal(registered, 2);
    assert_int_equal(unregistered, 2);
    zc_hostheap_put(p);
}

static bool is_there(const void *p)
{
    unsigned char there;
    assert_int_equal(mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 4096, &there), 0);
    return there & 1;
}

static size_t missing; /* Bytes that were not there when they were registered. */

static CUresult CUDAAPI register_what_is_there(void *p, size_t bytes, unsigned flags)
{
    for (size_t at = 0; at < bytes; at += 4096)
        missing += is_there((char *)p + at) ? 0 : 4096;
    return do_register(p, bytes, flags);
}

#define OWN (MAP_PRIVATE | MAP_ANONYMOUS)
#define WRITABLE (PROT_READ | PROT_WRITE)

/* As if copies of the `bytes` from `at` on had followed what writes them. */
static bool used(char *p, size_t at, size_t bytes)
{
    memset(p + at, 1, bytes);
    return zc_pinned_use(extent_of(p), bytes);
}

/* So that blocks get fresh memory. */
static void empty_the_pool(void)
{
    zc_pinned_trim(true);
    zc_hostheap_tidy(true);
    assert_int_equal(zc_hostheap_pooled(), 0);
}

/* Registering brings in all of a block: of all that are used in part, no more than 192 MiB. */
static void what_blocks_do_not_use_is_bounded_until_they_are_freed(void **state)
{
    (void)state;
    empty_the_pool();
    char *p = host_get(400 * MIB), *q = host_get(100 * MIB);
    assert_int_equal(extent_of(p)->prefaulted, 192 * MIB);
    assert_false(used(p, 0, 180 * MIB));
    assert_int_equal(extent_of(p)->prefaulted, 192 * MIB);
    assert_true(used(p, 180 * MIB, 60 * MIB));
    assert_in_range(extent_of(p)->prefaulted, 130 * MIB, 165 * MIB);
    assert_false(used(q, 0, 10 * MIB));
    zc_hostmem_put(p);
    assert_true(used(q, 0, 10 * MIB));
    assert_in_range(extent_of(q)->prefaulted, 80 * MIB, 95 * MIB);
    zc_hostmem_put(q);
    assert_int_equal(registered, 2);
}

/* As those whose other pieces are in pinned memory.  All pages at the 32 equal steps are used. */
static void every_second_piece_of_a_block_is_half_of_it(void **state)
{
    const size_t size = 256 * MIB;
    (void)state;
    empty_the_pool();
    char *p = host_get(size);
    for (size_t i = 0; i < 64; i += 2)
        memset(p + size / 64 * i, 1, size / 64);
    assert_true(zc_pinned_use(extent_of(p), 20 * MIB));
    assert_in_range(extent_of(p)->prefaulted, 100 * MIB, 156 * MIB);
    zc_hostmem_put(p);
}

/* The program may have written zeros: then that counts, too.
 * What it has taken the right from without a call of libc is not read. */
static void pages_that_came_ahead_are_unused_while_they_are_zero(void **state)
{
    (void)state;
    empty_the_pool();
    char *part = host_get(120 * MIB), *all = host_get(40 * MIB), *shut = host_get(24 * MIB);
    assert_true(used(part, 0, 12 * MIB));
    assert_in_range(extent_of(part)->prefaulted, 95 * MIB, 112 * MIB);
    memset(all, 1, 40 * MIB);
    assert_true(used(all, 0, 5 * MIB));
    assert_int_equal(extent_of(all)->prefaulted, 0);
    uintptr_t at = zc_extent_base(extent_of(shut));
    assert_int_equal(syscall(SYS_mprotect, at, 26 * MIB, PROT_NONE), 0);
    assert_true(zc_pinned_use(extent_of(shut), 5 * MIB));
    assert_int_equal(extent_of(shut)->prefaulted, 0);
    assert_int_equal(syscall(SYS_mprotect, at, 26 * MIB, WRITABLE), 0);
    char *whole = host_get(20 * MIB);
    assert_true(zc_pinned_use(extent_of(whole), 20 * MIB));
    assert_int_equal(extent_of(whole)->prefaulted, 0);
    zc_hostmem_put(part);
    zc_hostmem_put(all);
    zc_hostmem_put(shut);
    zc_hostmem_put(whole);
}

/* The driver would take them one by one. */
static void pages_that_nobody_has_touched_come_in_before_they_are_registered(void **state)
{
    (void)state;
    char *p = host_get(420 * MIB);
    assert_false(is_there(p + 419 * MIB)); /* No more than a part is brought in at once. */
    memset(p, 7, 2 * MIB);
    missing = 0;
    zc_real.cuMemHostRegister_v2 = register_what_is_there;
    assert_true(zc_pinned_use(extent_of(p), 420 * MIB));
    zc_real.cuMemHostRegister_v2 = do_register;
    assert_int_equal(missing, 0);
    assert_int_equal(p[2 * MIB - 1], 7);
    zc_hostmem_put(p);
}

/* Its pages would be the last ones, and the kernel would end a process. */
static void memory_that_the_host_does_not_have_is_not_brought_in(void **state)
{
    (void)state;
    static const size_t sizes[] = {300 * MIB, 16 * MIB};
    for (unsigned i = 0; i < 2; i++) {
        available = sizes[i] - 1;
        const char *p = asked_by_parts(sizes[i], 0, CUDA_ERROR_NOT_READY);
        assert_int_equal(registered, 0);
        for (size_t at = 0; at < sizes[i]; at += 8 * MIB)
            assert_false(is_there(p + at));
        zc_hostheap_put((void *)p);
    }
}

static size_t resident(void)
{
    size_t all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%zu %zu", &all, &pages), 2);
    fclose(file);
    return pages * 4096;
}

static unsigned short_behind; /* Registrations after which the host has no memory left. */

static CUresult CUDAAPI register_until_short(void *p, size_t bytes, unsigned flags)
{
    if (registered + 1 == short_behind)
        available = 100 * MIB;
    return do_register(p, bytes, flags);
}

/* Another process took it meanwhile. */
static void a_host_that_gets_short_in_the_middle_of_a_block_gets_all_of_it_back(void **state)
{
    (void)state;
    const struct zc_host_want want = {
        .size = 4 * GIB + 200 * MIB, .alignment = 4096, .zero = true, .owner = current};
    size_t before = resident();
    struct zc_slot *slot;
    const char *why;
    if ((size_t)sysconf(_SC_AVPHYS_PAGES) * 4096 < 6 * GIB)
        skip();
    short_behind = 16;
    zc_real.cuMemHostRegister_v2 = register_until_short;
    void *p = zc_hostheap_get(&want, &slot, &why);
    assert_int_equal(zc_pinned_now(extent_of(p), &why), CUDA_ERROR_NOT_READY);
    assert_string_equal(why, "the host has not so much memory left");
    assert_int_equal(registered, 16);
    assert_int_equal(unregistered, 16);
    assert_true(resident() > before + 3 * GIB);
    zc_hostheap_put(p);
    zc_hostheap_tidy(true);
    assert_true(resident() < before + 100 * MIB);
    zc_real.cuMemHostRegister_v2 = do_register;
    available = UINT64_MAX;
}

static char *next_part; /* Expected address of the next registration. */

static CUresult CUDAAPI register_next(void *p, size_t bytes, unsigned flags)
{
    assert_ptr_equal(p, next_part);
    assert_int_equal(bytes, 256 * MIB);
    next_part += bytes;
    return do_register(p, bytes, flags);
}

/* As if it had been used before, so that no pages come in where the host has too few. */
static void more_than_the_driver_pins_in_one_piece_comes_in_parts(void **state)
{
    (void)state;
    const struct zc_host_want want = {.size = 600 * GIB, .alignment = 4096, .owner = current};
    struct zc_slot *slot;
    const char *why;
    next_part = zc_hostheap_get(&want, &slot, &why);
    struct zc_extent *e = extent_of(next_part);
    slot->dirty = true;
    available = 600 * GIB - 1;
    zc_real.cuMemHostRegister_v2 = register_next;
    assert_int_equal(zc_pinned_now(e, &why), CUDA_SUCCESS);
    assert_int_equal(registered, 2400);
    zc_real.cuMemHostRegister_v2 = do_register;
    assert_true(zc_pinned_unregister(e));
    assert_int_equal(unregistered, 2400);
    zc_pinned_release(e, ZC_PIN_NONE);
    zc_hostheap_put((void *)zc_extent_base(e));
    zc_hostheap_tidy(true);
}

static unsigned char *mapped(size_t bytes, int rights, int flags, int fd)
{
    void *p = mmap(NULL, bytes, rights, flags, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* Without libzc nobody would keep it.  Where a device may work, ending a registration may wait. */
static void what_the_pool_keeps_leaves_room_for_a_request(void **state)
{
    (void)state;
    zc_hostheap_put(asked_in((CUcontext)0x5000, 60 * MIB));
    pool_is_used = untold = true;
    available = zc_hostheap_pooled() + 60 * MIB;
    void *p = asked_by_parts(80 * MIB, 8, CUDA_ERROR_NOT_READY);
    zc_hostheap_put(p);
    untold = false;
    available = zc_hostheap_pooled() + 60 * MIB;
    p = asked_by_parts(80 * MIB, 8, CUDA_SUCCESS);
    zc_hostheap_put(asked_in((CUcontext)0x5000, 60 * MIB));
    available = zc_hostheap_pooled() + 39 * MIB;
    unsigned char *own = mapped(40 * MIB, WRITABLE, OWN, -1);
    zc_pinned_bring_in(own, 40 * MIB);
    assert_true(is_there(own + 39 * MIB));
    munmap(own, 40 * MIB);
    available = UINT64_MAX;
    pool_is_used = false;
    zc_hostheap_put(p);
}

/* All that is registered, and nothing beside; what the program wrote stays. */
static void the_programs_pages_come_in_and_no_others(void **state)
{
    (void)state;
    unsigned char *p = mapped(40 * MIB, WRITABLE, OWN, -1);
    p[17 * MIB] = 7;
    zc_pinned_bring_in(p + 5000, 30 * MIB);
    for (size_t at = 8192; at < 30 * MIB; at += 4096)
        assert_true(is_there(p + at));
    assert_true(p[17 * MIB] == 7 && p[17 * MIB + 1] == 0);
    assert_false(is_there(p + 38 * MIB));
    munmap(p, 40 * MIB);
}

static void pages_that_the_driver_may_refuse_are_left_to_it(void **state)
{
    (void)state;
    int fd = memfd_create("test", 0);
    assert_int_equal(ftruncate(fd, 40 * MIB), 0);
    unsigned char *odd[] = {
        mapped(40 * MIB, PROT_READ, OWN, -1),       mapped(40 * MIB, WRITABLE, MAP_PRIVATE, fd),
        mapped(40 * MIB, WRITABLE, MAP_SHARED, fd), mapped(40 * MIB, WRITABLE, OWN, -1),
        mapped(40 * MIB, WRITABLE, OWN, -1),        mapped(40 * MIB, WRITABLE, OWN, -1)};
    close(fd);
    mprotect(odd[3] + 20 * MIB, 4096, PROT_NONE); /* A guard page. */
    munmap(odd[4] + 20 * MIB, 4096);
    for (int i = 0; i < 5; i++) {
        zc_pinned_bring_in(odd[i], 40 * MIB);
        assert_false(is_there(odd[i]) || is_there(odd[i] + 39 * MIB));
    }
    available = 40 * MIB - 1;
    zc_pinned_bring_in(odd[5], 40 * MIB);
    available = UINT64_MAX;
    assert_false(is_there(odd[5]) || is_there(odd[5] + 39 * MIB));
    zc_pinned_bring_in(odd[5], SIZE_MAX - 5);
    for (int i = 0; i < 6; i++)
        munmap(odd[i], 40 * MIB);
}

/* Slots use all of a unit, of which a block may have registered less. */
static void slots_get_nothing_that_is_not_registered_whole(void **state)
{
    (void)state;
    current = (CUcontext)0x5000; /* Without pooled memory. */
    CUcontext mine = current;
    char *p = asked_in(mine, 1300 << 10);
    assert_int_equal(extent_of(p)->pinned, 1300 << 10);
    zc_hostheap_put(p);
    char *q = asked_in(mine, 300 << 10);
    assert_int_equal(extent_of(q)->pinned, ZC_HOST_UNIT);
    zc_hostheap_put(q);
}

/* The last huge page of a block of 34 MiB and a byte has the byte alone. */
static void no_more_becomes_resident_than_was_asked_for(void **state)
{
    (void)state;
    char *p = asked_by_parts(34 * MIB + 1, 8, CUDA_SUCCESS);
    assert_true(is_there(p + 34 * MIB));
    assert_false(is_there(p + 34 * MIB + 4096));
    zc_hostheap_put(p);
}

static void memory_of_libc_gets_nothing_that_is_registered_in_parts(void **state)
{
    (void)state;
    void *p = asked_by_parts(520 * MIB, 8, CUDA_SUCCESS);
    zc_hostheap_put(p);
    void *q = host_get(520 * MIB);
    assert_ptr_not_equal(extent_of(p), extent_of(q));
    zc_hostmem_put(q);
    assert_ptr_equal(asked_by_parts(515 * MIB, 8, CUDA_SUCCESS), p);
    assert_int_equal(registered, 3);
    zc_hostheap_put(p);
}

static void expect_listed(const void *p, size_t size)
{
    const struct zc_block *b = zc_block_find((uintptr_t)p + size - 1);
    assert_non_null(b);
    assert_int_equal(b->base, (uintptr_t)p);
    assert_int_equal(b->size, size);
}

/* Blocks that a program has when it first calls CUDA: large ones, and small ones of one unit. */
static void the_ledger_gets_all_blocks_that_were_made_before_it(void **state)
{
    (void)state;
    void *small[3], *large = host_get(30 * MIB);
    for (unsigned i = 0; i < 3; i++)
        small[i] = host_get((200 + i) << 10);
    assert_null(zc_block_find((uintptr_t)small[2]));
    zc_hostblock_list();
    expect_listed(large, 30 * MIB);
    for (unsigned i = 0; i < 3; i++)
        expect_listed(small[i], (200 + i) << 10);
    zc_hostmem_put(small[1]);
    assert_null(zc_block_find((uintptr_t)small[1]));
    expect_listed(small[2], 202 << 10);
    zc_hostmem_put(small[0]);
    zc_hostmem_put(small[2]);
    zc_hostmem_put(large);
}

static void libc_does_not_know_what_the_driver_was_asked_for(void **state)
{
    (void)state;
    void *p = asked_in(current, 170 * MIB);
    const struct zc_hostmem_request ask = {
        .api = ZC_API_realloc, .size = 180 * MIB, .alignment = 1};
    assert_int_equal(zc_hostmem_size(p), 0);
    assert_null(zc_hostmem_resize(p, &ask));
    zc_hostblock_list();
    assert_null(zc_block_find((uintptr_t)p + 5));
    zc_hostheap_put(p);
}

static void a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    const struct zc_host_want want = {.size = SIZE_MAX, .alignment = 1};
    struct zc_slot *slot;
    const char *why;
    assert_null(zc_hostheap_get(&want, &slot, &why));
    assert_string_equal(why, "it is too large");
}

/* Of 1,000 mappings three quarters may be registrations, some of which the pool has. */
static void registrations_stop_before_the_kernel_runs_out_of_mappings(void **state)
{
    (void)state;
    unsigned made = 0;
    void *p[1000];
    maps = 1000;
    for (bool more = true; more && made < maps; made += more) {
        p[made] = host_get(3 * MIB / 2);
        more = zc_pinned_use(extent_of(p[made]), 2 * MIB);
    }
    assert_in_range(made, 700, 750);
    zc_hostmem_put(p[made]);
    assert_int_equal(registered, made);
    maps = 0;
    for (unsigned i = 0; i < made; i++)
        zc_hostmem_put(p[i]);
}

/* All its pages become its own then, beside those that a device block has shown. */
static void a_private_view_is_registered_where_there_is_room_for_its_pages(void **state)
{
    const struct zc_host_want want = {.size = 4 * MIB, .alignment = 1, .shareable = true};
    struct zc_slot *slot;
    const char *why;
    void *p = zc_hostheap_get(&want, &slot, &why);
    (void)state;
    assert_non_null(p);
    assert_true(zc_memfile_make_private(extent_of(p), 4 * MIB));
    available = 4 * MIB - 1;
    assert_false(zc_pinned_use(extent_of(p), 64 * MIB));
    assert_int_equal(registered, 0);
    available = 4 * MIB;
    assert_true(zc_pinned_use(extent_of(p), 1));
    assert_int_equal(registered, 1);
    available = UINT64_MAX;
    zc_hostheap_put(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(refused_registrations_leave_room_for_others, fresh),
        cmocka_unit_test_setup(the_first_large_transfer_registers, fresh),
        cmocka_unit_test_setup(a_copy_registers_in_relaxed_mode, fresh),
        cmocka_unit_test_setup(many_small_transfers_register_too, fresh),
        cmocka_unit_test_setup(a_refused_block_stays_pageable_for_good, fresh),
        cmocka_unit_test_setup(without_a_context_it_waits_for_one, fresh),
        cmocka_unit_test_setup(a_destroyed_context_takes_the_registration_along, fresh),
        cmocka_unit_test_setup(what_the_program_registers_is_left_to_it, fresh),
        cmocka_unit_test_setup(a_child_waits_for_no_registration_of_its_parents, fresh),
        cmocka_unit_test_setup(nothing_of_512_gib_is_placed, fresh),
        cmocka_unit_test_setup(slots_of_a_slab_share_one_registration, fresh),
        cmocka_unit_test_setup(what_the_driver_was_asked_for_shares_no_extent_with_libc, fresh),
        cmocka_unit_test_setup(memory_that_another_context_registered_is_left_in_the_pool, fresh),
        cmocka_unit_test_setup(what_could_not_be_registered_once_is_tried_again, fresh),
        cmocka_unit_test_setup(a_block_of_the_drivers_is_registered_in_parts_and_no_byte_more,
                               fresh),
        cmocka_unit_test_setup(a_part_that_is_refused_ends_the_others, fresh),
        cmocka_unit_test_setup(what_blocks_do_not_use_is_bounded_until_they_are_freed, fresh),
        cmocka_unit_test_setup(every_second_piece_of_a_block_is_half_of_it, fresh),
        cmocka_unit_test_setup(pages_that_came_ahead_are_unused_while_they_are_zero, fresh),
        cmocka_unit_test_setup(pages_that_nobody_has_touched_come_in_before_they_are_registered,
                               fresh),
        cmocka_unit_test_setup(memory_that_the_host_does_not_have_is_not_brought_in, fresh),
        cmocka_unit_test_setup(a_host_that_gets_short_in_the_middle_of_a_block_gets_all_of_it_back,
                               fresh),
        cmocka_unit_test_setup(more_than_the_driver_pins_in_one_piece_comes_in_parts, fresh),
        cmocka_unit_test_setup(what_the_pool_keeps_leaves_room_for_a_request, fresh),
        cmocka_unit_test_setup(the_programs_pages_come_in_and_no_others, fresh),
        cmocka_unit_test_setup(pages_that_the_driver_may_refuse_are_left_to_it, fresh),
        cmocka_unit_test_setup(slots_get_nothing_that_is_not_registered_whole, fresh),
        cmocka_unit_test_setup(no_more_becomes_resident_than_was_asked_for, fresh),
        cmocka_unit_test_setup(memory_of_libc_gets_nothing_that_is_registered_in_parts, fresh),
        cmocka_unit_test_setup(the_ledger_gets_all_blocks_that_were_made_before_it, fresh),
        cmocka_unit_test_setup(libc_does_not_know_what_the_driver_was_asked_for, fresh),
        cmocka_unit_test_setup(a_size_that_overflows_is_refused, fresh),
        cmocka_unit_test_setup(a_private_view_is_registered_where_there_is_room_for_its_pages,
                               fresh),
        cmocka_unit_test_setup(registrations_stop_before_the_kernel_runs_out_of_mappings, fresh),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
