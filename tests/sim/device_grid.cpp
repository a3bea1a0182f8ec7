/* SPDX-License-Identifier: MIT */
/*
 * The grid of a host-built kernel: blocks run one after another, and so do the threads of a block
 * until one of them reaches a barrier.  From there on every waiting thread is a fiber (ucontext) on
 * that OS thread, and the fibers take turns in a ring, so kernels without barriers cost nothing.
 */
#include "device_grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

__thread uint3 threadIdx;
__thread uint3 blockIdx;
__thread dim3 blockDim;
__thread dim3 gridDim;

namespace
{

const size_t STACK_BYTES = 128 << 10;
const size_t GUARD_BYTES = 4096;

struct fiber {
    ucontext_t context; /* where it goes on; must not move, as it points into itself */
    unsigned thread;    /* linear index in the block of the simulated thread that runs on it */
    bool parked;        /* waits at a barrier (fiber 0: also for the others' end) */
    void *stack;        /* its mapping, guard page first; NULL for fiber 0 */
};

/* One OS thread's fibers, kept from launch to launch.  Fiber 0 is the thread's own stack. */
struct fibers {
    std::vector<fiber *> all;

    ~fibers()
    {
        for (fiber *f : all) {
            if (f->stack != nullptr)
                munmap(f->stack, GUARD_BYTES + STACK_BYTES);
            delete f;
        }
    }
};

/* The block that runs on this OS thread. */
struct block {
    void (*body)(void *);
    void *argument;
    unsigned total;   /* threads of the block */
    unsigned next;    /* first thread that was not started */
    unsigned used;    /* fibers in the ring */
    unsigned current; /* the fiber that runs */
};

thread_local fibers pool;
thread_local block running;

[[noreturn]] void give_up(const char *what)
{
    perror(what);
    abort();
}

void set_thread(unsigned thread)
{
    threadIdx.x = thread % blockDim.x;
    threadIdx.y = thread / blockDim.x % blockDim.y;
    threadIdx.z = thread / (blockDim.x * blockDim.y);
}

void switch_to(unsigned to)
{
    unsigned from = running.current;

    if (to == from)
        return;
    running.current = to;
    if (swapcontext(&pool.all[from]->context, &pool.all[to]->context) != 0)
        give_up("swapcontext");
    set_thread(pool.all[from]->thread);
}

/* The next fiber of the ring that waits, which may be the current one itself. */
unsigned next_parked()
{
    unsigned f = running.current;

    do {
        f = (f + 1) % running.used;
    } while (!pool.all[f]->parked && f != running.current);
    return f;
}

void run_threads()
{
    while (running.next < running.total) {
        unsigned thread = running.next++;

        pool.all[running.current]->thread = thread;
        set_thread(thread);
        running.body(running.argument);
    }
}

/* Never returns: fiber 0 is parked while others exist, so there is always one to switch to. */
void fiber_main()
{
    run_threads();
    pool.all[running.current]->parked = false;
    switch_to(next_parked());
}

void ensure_fiber(unsigned index)
{
    if (index < pool.all.size())
        return;
    fiber *f = new fiber{};
    if (index != 0) {
        f->stack = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (f->stack == MAP_FAILED || mprotect(f->stack, GUARD_BYTES, PROT_NONE) != 0)
            give_up("stack of a simulated thread");
    }
    pool.all.push_back(f);
}

/* Starts the threads that are left on a fiber of their own. */
void switch_to_new()
{
    unsigned index = running.used++;

    ensure_fiber(index);
    fiber *f = pool.all[index];
    f->parked = false;
    if (getcontext(&f->context) != 0)
        give_up("getcontext");
    f->context.uc_stack.ss_sp = (char *)f->stack + GUARD_BYTES;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
    switch_to(index);
}

void run_block()
{
    running.next = 0;
    running.used = 1;
    running.current = 0;
    pool.all[0]->parked = false;
    run_threads();
    pool.all[0]->parked = true;
    while (next_parked() != 0)
        switch_to(next_parked());
}

} // namespace

void sim::barrier(void)
{
    fiber *me = pool.all[running.current];

    me->parked = true;
    /* No one passes the barrier before all have been started and have come to it or ended. */
    if (running.next < running.total)
        switch_to_new();
    else
        switch_to(next_parked());
    me->parked = false;
}

void sim::run_grid(const struct sim_launch *launch, void (*body)(void *), void *argument)
{
    const unsigned *grid = launch->gridDim, *threads = launch->blockDim;

    ensure_fiber(0);
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(threads[0], threads[1], threads[2]);
    running.body = body;
    running.argument = argument;
    running.total = threads[0] * threads[1] * threads[2];
    for (blockIdx.z = 0; blockIdx.z < grid[2]; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < grid[1]; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < grid[0]; blockIdx.x++)
                run_block();
        }
    }
}
