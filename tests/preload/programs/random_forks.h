/* SPDX-License-Identifier: MIT */
/* Steps of the random program by which the kernel makes host blocks another memory: a child, and
 * changes of pages. */
#ifndef RANDOM_FORKS_H
#define RANDOM_FORKS_H

#include <sys/wait.h>

#include "random_host.h"

static bool forks; /* Whether there are such steps; in a single thread alone. */

static inline bool own_pages(const struct block *b)
{
    return !b->held && (b->kind == HEAP || b->kind == REGISTERED);
}

/* It sees what its parent has, and writes what it shares with nobody. */
static inline void child_of_random(int out)
{
    unsigned long long sum = 0;
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && host_free(b))
            sum = sum * 31 + checksum(b->at, b->bytes);
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && own_pages(b))
            memset(b->at, 0x5a, b->bytes);
    _exit(write(out, &sum, sizeof(sum)) != sizeof(sum));
}

/* The parent writes a block while the child is there, or later, and copies it. */
static inline void fork_child(void)
{
    unsigned long long sum = 0;
    int ends[2], status = -1;
    bool early = one_in(3);
    for (struct block *b = blocks; b < blocks + BLOCKS; b++)
        if (b->at && host_free(b))
            settle(b);
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0)
        child_of_random(ends[1]);
    struct block *b = pick(own_pages), *d = pick(on_device);
    if (b && early)
        scribble(b->at, b->bytes);
    close(ends[1]);
    EXPECT(read(ends[0], &sum, sizeof(sum)) == sizeof(sum));
    close(ends[0]);
    EXPECT(waitpid(child, &status, 0) == child);
    say("child %d saw %016llx", status, sum);
    if (b && !early)
        scribble(b->at, b->bytes);
    if (!b || !d)
        return;
    settle(d);
    say("forked copy %d <- %d: %d", (int)(d - blocks), (int)(b - blocks),
        (int)cuMemcpy(address(d, 0), address(b, 0), b->bytes < d->bytes ? b->bytes : d->bytes));
    show_content("forked:", d);
}

/* The program changes pages that are a block's alone, and not what they hold. */
static inline void change_pages(void)
{
    static const int advice[] = {MADV_DONTDUMP, MADV_NOHUGEPAGE, MADV_WILLNEED, MADV_COLD};
    struct block *b = pick(own_pages);
    if (!b || b->bytes < (size_t)64 << 10)
        return;
    size_t pages = b->bytes >> 12, from = 1 + below(pages / 2), n = 1 + below(pages / 4);
    void *at = (void *)(((uintptr_t)b->at + (from << 12)) & ~(uintptr_t)4095);
    unsigned what = (unsigned)below(6);
    settle(b);
    int code = what < 4 ? madvise(at, n << 12, advice[what]) : mprotect(at, n << 12, PROT_READ);
    if (what >= 4)
        code += mprotect(at, n << 12, PROT_READ | PROT_WRITE);
    say("pages of %d, %u: %d", (int)(b - blocks), what, code);
    if (one_in(2))
        scribble(b->at, b->bytes);
}

#endif
