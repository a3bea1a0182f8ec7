/* SPDX-License-Identifier: MIT */
/* Swaps private pages for shared ones and back while threads run: the range is made read-only,
 * copied, and replaced in one system call. Writers get SIGSEGV and wait for the end. */
#define _GNU_SOURCE
#include "pages.h"
#include "stream.h"
#include "view.h"
#include <sched.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE ((size_t)4096)      /* what is looked at and copied at a time */
#define STEP ((size_t)256 << 20) /* what is replaced at a time: so much memory is there twice */

static _Atomic uintptr_t busy_start; /* the range that is being swapped */
static _Atomic size_t busy_bytes;    /* its size, 0 for none */
static _Atomic unsigned done;        /* swaps so far */
static __thread unsigned seen;       /* swaps of which this thread has repeated a fault */
static __thread bool swapping;       /* this thread's own faults are real */

bool sim_swap_fault(const siginfo_t *info)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    if (info->si_code != SEGV_ACCERR || swapping)
        return false;
    while (at - busy_start < busy_bytes)
        sched_yield();
    /* The swap may have ended before the handler began, so that a thread's first fault after one is
     * repeated wherever it is: a true fault comes again. */
    if (seen == done)
        return false;
    seen = done;
    return true;
}

static bool is_zero(const char *page)
{
    return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

/* The end of the run of pages from `at` on that are all zero, or all not. */
static size_t run_end(const char *p, size_t at, size_t bytes, bool *zero)
{
    size_t end = at + PAGE;
    *zero = is_zero(p + at);
    while (end < bytes && is_zero(p + end) == *zero)
        end += PAGE;
    return end;
}

/* Writes pages to a file, or copies them to memory, that is zero so far. Zero pages are left out,
 * because they would take memory. */
static bool put_pages(int fd, uint64_t offset, char *to, const char *from, size_t bytes)
{
    bool zero = false, fine = true;
    for (size_t at = 0, end; fine && at < bytes; at = end) {
        end = run_end(from, at, bytes, &zero);
        if (!zero && to)
            memcpy(to + at, from + at, end - at);
        else if (!zero)
            fine = pwrite(fd, from + at, end - at, (off_t)(offset + at)) == (ssize_t)(end - at);
    }
    return fine;
}

static bool to_shared(const struct sim_swap *s, size_t at, size_t bytes)
{
    char *here = (char *)s->start + at;
    return put_pages(s->fd, s->offset + at, NULL, here, bytes) &&
           sim_mmap(here, bytes, s->rights, MAP_SHARED | MAP_FIXED, s->fd,
                    (off_t)(s->offset + at)) != MAP_FAILED;
}

/* Memory to be moved to an address. Large memory is made of huge pages, which are moved whole where
 * both addresses allow it. */
static char *fresh_pages(size_t bytes, uintptr_t address)
{
    size_t room = bytes + SIM_PAGE;
    char *p = sim_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t skip = (address - (uintptr_t)p) % SIM_PAGE;
    if (skip)
        sim_munmap(p, skip);
    sim_munmap(p + skip + bytes, room - skip - bytes);
    if (bytes >= SIM_PAGE)
        sim_madvise(p + skip, bytes, MADV_HUGEPAGE);
    return p + skip;
}

static bool to_private(const struct sim_swap *s, size_t at, size_t bytes)
{
    char *fresh = fresh_pages(bytes, s->start + at);
    if (!fresh)
        return false;
    char *here = (char *)s->start + at;
    put_pages(-1, 0, fresh, here, bytes);
    if (sim_mprotect(fresh, bytes, s->rights) == 0 &&
        sim_mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, here) != MAP_FAILED)
        return true;
    sim_munmap(fresh, bytes);
    return false;
}

static void swap_steps(struct sim_swap *s)
{
    for (size_t at = 0; at < s->bytes && !s->failed; at += STEP) {
        size_t bytes = s->bytes - at < STEP ? s->bytes - at : STEP;
        char *step = (char *)s->start + at;
        bool share = s->fd >= 0;
        s->failed = sim_mprotect(step, bytes, share ? s->rights & ~PROT_WRITE : PROT_READ) != 0 ||
                    !(share ? to_shared(s, at, bytes) : to_private(s, at, bytes));
        if (s->failed)
            sim_mprotect(step, bytes, s->rights);
    }
}

/* If the caller's own stack lies in the range, the swap runs on this one. Guarded by sim_lock.
 */
static struct sim_swap *job;
static ucontext_t caller, worker;
static char stack[SIM_STACK_BYTES] __attribute__((aligned(16)));

static void swap_main(void)
{
    swap_steps(job);
}

static void swap_elsewhere(struct sim_swap *s)
{
    if (getcontext(&worker) != 0) {
        s->failed = true;
        return;
    }
    job = s;
    worker.uc_stack.ss_sp = stack;
    worker.uc_stack.ss_size = sizeof stack;
    worker.uc_link = &caller;
    makecontext(&worker, swap_main, 0);
    if (swapcontext(&caller, &worker) != 0)
        s->failed = true;
}

/* Whether the range holds stack that a swap on it would write to. */
static bool holds_stack(const struct sim_swap *s)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here + SIM_STACK_BYTES > s->start && here - SIM_STACK_BYTES < s->start + s->bytes;
}

void sim_swap_run(struct sim_swap *s)
{
    s->failed = false;
    sim_guard_ensure();
    swapping = true;
    busy_start = s->start;
    busy_bytes = s->bytes;
    if (holds_stack(s))
        swap_elsewhere(s);
    else
        swap_steps(s);
    done++;
    busy_bytes = 0;
    swapping = false;
}

bool sim_swap_alone(uintptr_t start, size_t bytes, int rights)
{
    struct sim_swap s = {.start = start, .bytes = bytes, .rights = rights, .fd = -1};
    swap_steps(&s);
    return !s.failed;
}
