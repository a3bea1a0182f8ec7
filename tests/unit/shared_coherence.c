/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages, against two plain memories: random accesses of
 * the CPU's, copies, writes of the driver's, changes of mappings, forks and ends.  The pages are
 * the kernel's own, of 4096 bytes, and any of its calls may be refused: then what was asked for is
 * done in part or not at all, nothing is lost, and the run goes on.  ZC_MODEL_STEPS says how many
 * steps each of eight seeds has, ZC_MODEL_SEED chooses another one alone.
 */
#define ZC_HOST_UNIT_SHIFT 12
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../shim/shared/coherence.c"
#include "../../shim/shared/view.c"

#define PAGES 7u
#define UNIT ((uint32_t)ZC_HOST_UNIT)
#define SPAN (PAGES * UNIT)
#define SEEDS 8u

enum event {
    READ,
    WRITE,
    COPY_IN,
    COPY_OUT,
    DRIVER_READS,
    DRIVER_WRITES,
    KERNEL,
    CHANGE,
    RESIZE,
    FORK,
    END,
    REFUSED,
    AGAIN,
    EVENTS
};

static int file;
static unsigned char *at, *gpu; /* What the CPU has at h, and everybody at d. */
static struct zc_extent extent;
static struct zc_coherent c;
static unsigned char states[PAGES];

/* The plain memories, and what a child must find in the file. */
static unsigned char h[SPAN], d[SPAN], child[SPAN];
static unsigned char h_known[SPAN], d_known[SPAN]; /* KNOWN, or 0. */
static bool forked;
#define KNOWN 255u

static unsigned fail_after; /* Calls of the kernel until one is refused; 0: never. */
static unsigned fail_on;    /* How many more that map something are refused then. */
static size_t scratch;      /* Bytes mapped beside h and d. */
static uint64_t seed, done[EVENTS];

static uint32_t below(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}

static bool refuses(bool maps)
{
    errno = ENOMEM;
    if (fail_after)
        return --fail_after == 0;
    return maps && fail_on && fail_on--;
}

static void refuse_some(void)
{
    fail_after = below(4) ? 0 : 1 + below(8);
    fail_on = fail_after ? below(4) : 0;
}

static void refuse_none(void)
{
    fail_after = fail_on = 0;
}

static void *map(void *where, size_t n, int protection, int flags, int fd, off_t from)
{
    return (void *)syscall(SYS_mmap, where, n, protection, flags, fd, from);
}

void *zc_memory_map(void *where, size_t n, int protection, int flags, int fd, off_t from)
{
    if (refuses(true))
        return MAP_FAILED;
    scratch += where ? 0 : n;
    return map(where, n, protection, flags, fd, from);
}

int zc_memory_unmap(void *where, size_t n)
{
    scratch -= n;
    return (int)syscall(SYS_munmap, where, n);
}

/* Where it would have to map more it is refused after the target is gone. */
void *zc_memory_move(void *from, size_t n, size_t now, int flags, void *to)
{
    if (refuses(true)) {
        if (n != now)
            syscall(SYS_munmap, to, now);
        return MAP_FAILED;
    }
    scratch -= n;
    return (void *)syscall(SYS_mremap, from, n, now, flags, to);
}

/* Of several mappings the first may have changed. */
int zc_memory_protect(void *where, size_t n, int protection)
{
    bool refused = refuses(false);
    if (refused)
        n = n / 2 / UNIT * UNIT;
    int result = n ? (int)syscall(SYS_mprotect, where, n, protection) : 0;
    return refused ? -1 : result;
}

int zc_memory_advise(void *where, size_t n, int advice)
{
    (void)where, (void)n;
    return advice != MADV_HUGEPAGE && refuses(false) ? -1 : 0;
}

/* As host/memfile.h has it. */
bool zc_memfile_part(const struct zc_extent *e, uintptr_t where, size_t n, bool write)
{
    assert_ptr_equal(e, &extent);
    return zc_memory_map((void *)where, n, write ? ZC_VIEW_OPEN : PROT_READ,
                         MAP_PRIVATE | MAP_FIXED, file, (off_t)(where - c.host)) != MAP_FAILED;
}

struct zc_extent *zc_hostheap_extent(uint64_t address)
{
    return address - (uintptr_t)at < SPAN ? &extent : NULL;
}

int zc_overlay_run(const struct zc_extent *e, uintptr_t low, uintptr_t high, uintptr_t *end)
{
    (void)e, (void)low, (void)high, (void)end;
    abort(); /* The program takes no rights away. */
}

const char *zc_limits_reason(int error, size_t bytes)
{
    (void)error, (void)bytes;
    return "";
}

void zc_workers_copy(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

/* libc's own: the library has the other name. */
int __sigaction(int sig, const struct sigaction *now, struct sigaction *before);

static sigjmp_buf stopped;
static volatile uint32_t aim, tries; /* Where the CPU writes. */

/* The CPU may always read, and is stopped where a page can't be parted. */
static void fault(int sig)
{
    (void)sig;
    if (!tries || ++tries > 3)
        abort();
    if (!zc_coherent_touch(&c, aim, true))
        siglongjmp(stopped, 1);
}

/* A new device block; the host block may be one that was in a pair before. */
static void begin(bool again)
{
    const struct sigaction action = {.sa_handler = fault};
    __sigaction(SIGSEGV, &action, NULL); /* cmocka has its own around each test. */
    refuse_none();
    if (!again) {
        memset(h_known, 0, sizeof(h_known));
        assert_true(map(at, SPAN, ZC_VIEW_OPEN, MAP_SHARED | MAP_FIXED, file, 0) == at);
        assert_true(map(gpu, SPAN, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) == gpu);
    }
    memset(d_known, 0, sizeof(d_known));
    memset(states, ZC_PAGE_ALONE, sizeof(states));
    c = (struct zc_coherent){.host = (uintptr_t)at,
                             .device = (uintptr_t)gpu,
                             .pages = PAGES,
                             .bytes = SPAN - below(2) * 100,
                             .state = states};
    forked = false;
    done[AGAIN] += again;
    fail_after = below(8); /* What is unmapped leaves room for the reservation. */
    while (!zc_view_alias(c.host, c.device, SPAN))
        assert_int_equal(msync(gpu, SPAN, MS_ASYNC), 0); /* It is still reserved. */
    refuse_none();
}

/* What was refused in the middle of a write to one memory, from another or not: each byte is the
 * old one or the new one. */
static void either(const unsigned char *now, unsigned char *old, unsigned char *old_known,
                   const unsigned char *new, const unsigned char *new_known, uint32_t low,
                   uint32_t high)
{
    done[REFUSED]++;
    for (uint32_t i = low; i < high; i++) {
        old_known[i] &= new ? new_known[i] : KNOWN;
        if (old_known[i] && now[i] != old[i])
            assert_int_equal(now[i], new ? new[i] : 0);
        old[i] = now[i];
    }
}

static void cpu_write(uint32_t low)
{
    unsigned char byte = (unsigned char)below(256);
    aim = low;
    tries = 1;
    if (sigsetjmp(stopped, 1) == 0) {
        *(volatile unsigned char *)&at[low] = byte;
        h[low] = byte;
        h_known[low] = KNOWN;
        assert_int_not_equal(states[low / UNIT], ZC_PAGE_SAME);
    } else {
        done[REFUSED]++;
    }
    tries = 0;
}

static void read_back(const unsigned char *memory, const unsigned char *plain,
                      const unsigned char *known, uint32_t low, uint32_t high)
{
    unsigned char differs = 0;
    for (uint32_t i = low; i < high; i++)
        differs |= (unsigned char)(known[i] & (memory[i] ^ plain[i]));
    for (uint32_t i = low; i < high && differs; i++)
        if (known[i] && memory[i] != plain[i])
            fail_msg("byte %u is %u, not %u", i, memory[i], plain[i]);
}

static void fill(uint32_t low, uint32_t high)
{
    uint32_t first = below(256);
    for (uint32_t i = low; i < high; i++)
        h[i] = (unsigned char)(first + i * 7);
    memcpy(at + low, h + low, high - low);
    memset(h_known + low, KNOWN, high - low);
}

/* After that the device block has memory of its own, and the host block is the CPU's. */
static bool end(void)
{
    bool is_private;
    read_back(gpu, d, d_known, 0, SPAN);
    if (!zc_coherent_end(&c, &is_private)) {
        done[REFUSED]++;
        read_back(at, h, h_known, 0, (uint32_t)c.bytes);
        return false;
    }
    refuse_none();
    zc_view_reserve(c.device, SPAN);
    read_back(at, h, h_known, 0, (uint32_t)c.bytes);
    fill(0, (uint32_t)c.bytes);
    return !is_private;
}

static bool to_d(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    if (c.frozen && zc_coherent_differs(&c, low, high))
        return false;
    if (!zc_coherent_to_device(&c, low, high, &moved)) {
        either(gpu, d, d_known, h, h_known, low, high);
        return true;
    }
    assert_int_equal(moved.elided + moved.copied, high - low);
    for (uint32_t p = 0; low == 0 && high == c.bytes && p * UNIT < high; p++)
        assert_true(states[p] == ZC_PAGE_SAME || states[p] == ZC_PAGE_OUT);
    memcpy(d + low, h + low, high - low);
    memcpy(d_known + low, h_known + low, high - low);
    return true;
}

static void to_h(uint32_t low, uint32_t high)
{
    struct zc_moved moved = {0, 0};
    if (!zc_coherent_to_host(&c, low, high, &moved)) {
        either(at, h, h_known, d, d_known, low, high);
        return;
    }
    assert_int_equal(moved.elided + moved.copied, high - low);
    memcpy(h + low, d + low, high - low);
    memcpy(h_known + low, d_known + low, high - low);
}

static void driver_writes(uint32_t low, uint32_t high)
{
    if (zc_coherent_write(&c, low, high)) {
        fill(low, high);
        return;
    }
    /* The driver is not asked.  Pages that it would have filled may be empty. */
    either(at, h, h_known, NULL, NULL, low, high);
}

static void change(uint32_t low, uint32_t high, bool keep)
{
    if (!zc_coherent_exile(&c, low, high, keep)) {
        if (!keep)
            either(at, h, h_known, NULL, NULL, low, high);
        return;
    }
    if (keep)
        read_back(at, h, h_known, low, high);
    uint32_t first = (low + UNIT - 1) / UNIT * UNIT, last = high / UNIT * UNIT;
    if (first < last)
        assert_true(map(at + first, last - first, ZC_VIEW_OPEN, RESERVED | MAP_FIXED, -1, 0) ==
                    at + first);
    fill(low, high);
}

/* What lies behind the end of a block is nobody's. */
static void resize(void)
{
    uint64_t bytes = SPAN - below(SPAN / 2), least = bytes < c.bytes ? bytes : c.bytes;
    memset(h_known + least, 0, SPAN - least);
    c.bytes = bytes;
}

/* Once is enough, and once it was refused a message has told of it. */
static void fork_now(void)
{
    if (zc_coherent_freeze(&c)) {
        forked = true;
        memcpy(child, gpu, SPAN);
    } else {
        done[REFUSED]++;
    }
}

/* Mappings are what the states say.  Private mappings of a file show what is not written
 * there, which after a fork nobody changes. */
static void check_states(void)
{
    for (uint32_t p = 0; p < PAGES; p++) {
        volatile unsigned char *there = gpu + p * UNIT, *here = at + p * UNIT;
        bool shows = states[p] == ZC_PAGE_ALONE || states[p] == ZC_PAGE_SAME;
        unsigned char before = *here;
        *there ^= !c.frozen;
        assert_int_equal(*here != before, shows && !c.frozen);
        *there ^= !c.frozen;
    }
    assert_int_equal(scratch, 0);
}

/* One step; false when the device block has to get memory of its own. */
static bool step(void)
{
    uint32_t low = below((uint32_t)c.bytes), high = low + 1 + below((uint32_t)c.bytes - low);
    unsigned what = below(64);
    bool goes_on = true;
    enum event event = what < 16   ? READ
                       : what < 34 ? WRITE
                       : what < 44 ? COPY_IN
                       : what < 52 ? COPY_OUT
                       : what < 54 ? DRIVER_READS
                       : what < 58 ? DRIVER_WRITES
                       : what < 61 ? KERNEL
                       : what < 62 ? RESIZE
                       : below(8)  ? READ
                       : below(4)  ? CHANGE
                                   : FORK;
    if (below(2)) { /* Programs mostly copy all. */
        low = 0;
        high = (uint32_t)c.bytes;
    }
    done[event]++;
    refuse_some();
    switch (event) {
    case READ:
        read_back(at, h, h_known, low, low + 1);
        break;
    case WRITE:
        cpu_write(low ? low : below((uint32_t)c.bytes));
        break;
    case COPY_IN:
        goes_on = to_d(low, high);
        break;
    case COPY_OUT:
        to_h(low, high);
        break;
    case DRIVER_READS:
        read_back(at, h, h_known, low, high);
        break;
    case DRIVER_WRITES:
        driver_writes(low, high);
        break;
    case KERNEL:
        read_back(gpu, d, d_known, low, high);
        break;
    case CHANGE:
        change(low, high, below(2));
        break;
    case RESIZE:
        resize();
        break;
    default:
        fork_now();
    }
    refuse_none();
    return goes_on && (!zc_coherent_cooling(&c) || below(50));
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void run_model(uint64_t first, uint64_t steps)
{
    bool again = false;
    uint64_t ends = done[END], refusals = done[REFUSED];
    seed = first;
    begin(again);
    for (uint64_t i = 0; i < steps; i++) {
        bool goes_on = step();
        check_states();
        if (goes_on && below(100))
            continue;
        read_back(at, h, h_known, 0, (uint32_t)c.bytes);
        if (forked)
            assert_memory_equal(gpu, child, SPAN);
        done[END]++;
        refuse_some();
        again = end();
        begin(again);
    }
    print_message("# seed %llu: %llu steps, %llu runs, %llu refused\n", (unsigned long long)first,
                  (unsigned long long)steps, (unsigned long long)(done[END] - ends),
                  (unsigned long long)(done[REFUSED] - refusals));
}

static void two_memories_and_shared_pages_never_differ(void **unused)
{
    uint64_t steps = number("ZC_MODEL_STEPS", 20000), one_seed = number("ZC_MODEL_SEED", 0);
    (void)unused;
    for (uint64_t i = 1; i <= SEEDS && !one_seed; i++)
        run_model(i, steps);
    if (one_seed)
        run_model(one_seed, steps);
    for (unsigned i = 0; i < EVENTS; i++)
        assert_true(done[i] > 0);
}

/* By one, two, four, and what is left. */
static void pages_written_in_order_part_more_and_more_at_once(void **unused)
{
    (void)unused;
    begin(false);
    c.bytes = SPAN;
    fill(0, SPAN);
    assert_true(to_d(0, SPAN));
    assert_int_equal(c.elided, PAGES);
    cpu_write(0);
    assert_int_equal(c.parted, 1);
    cpu_write(UNIT);
    assert_int_equal(c.parted, 3);
    cpu_write(3 * UNIT);
    assert_int_equal(c.parted, 7);
    assert_true(to_d(0, SPAN));
    assert_int_equal(c.merged, 7);
    assert_int_equal(c.elided, PAGES);
    assert_false(zc_coherent_cooling(&c));
    cpu_write(5 * UNIT);
    assert_int_equal(c.parted, 8);
    assert_true(zc_coherent_cooling(&c));
    to_h(0, SPAN);
    assert_int_equal(c.merged, 8);
    assert_int_equal(c.elided, 2 * PAGES);
    assert_false(zc_coherent_cooling(&c));
}

static int open_pages(void **unused)
{
    (void)unused;
    file = memfd_create("model", MFD_CLOEXEC);
    /* Apart, so that a mistake meets no mapping beside. */
    at = map(NULL, 4 * SPAN, PROT_NONE, RESERVED, -1, 0);
    gpu = at + 2 * SPAN;
    return ftruncate(file, SPAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_written_in_order_part_more_and_more_at_once),
        cmocka_unit_test(two_memories_and_shared_pages_never_differ),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, open_pages, NULL);
}
