/* SPDX-License-Identifier: MIT */
/* The GPU's view of pinned host memory: a second mapping (alias) of the same pages. As on hardware,
 * where the GPU has a page table of its own, what the CPU does to its side (mprotect, munmap,
 * mremap) does not reach kernels and copies. */
#ifndef SIM_VIEW_H
#define SIM_VIEW_H

#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One view. Guarded by sim_lock. */
struct sim_view {
    char *alias;  /* where the GPU, played by the CPU, finds the pages; NULL for no view */
    size_t bytes; /* whole pages */
    bool placed;  /* the alias lies at an address that the caller of sim_view_open keeps */
};

/* Fresh memory of `bytes` (whole pages), zeroed, for both sides; the CPU's address, or NULL where
 * there is no memory. */
void *sim_view_alloc(struct sim_view *view, size_t bytes);

/* Gives the GPU a view of the CPU's pages [first, first+bytes), whose content, address and rights
 * stay. Private pages become pages of a shared file on the way; other threads that write to them
 * meanwhile wait, but a system call that does gets EFAULT. No other thread's stack may lie in the
 * range, because signals could not be delivered there. CUDA_ERROR_INVALID_VALUE where a part is not
 * mapped, or the CPU itself may not read it or, but for `read_only`, write it. The alias comes to
 * `at`, in place of what is mapped there, or anywhere for NULL. */
CUresult sim_view_open(struct sim_view *view, char *first, size_t bytes, bool read_only, char *at);

/* Gives a part of a view (whole pages) pages of its own with the bytes that it has, so that the GPU
 * keeps them; false where there is no memory. */
bool sim_view_keep(struct sim_view *view, size_t at, size_t bytes);

/* Ends a view. The CPU's side stays as it is, wherever other threads are moving its pages just now:
 * unpinning changes no page table of the CPU's. Pages that came into the file stay there. */
void sim_view_close(struct sim_view *view);

/* Whether this process ever had a view. */
extern bool sim_view_any;

/* fork: a child of a real driver's process gets private copies of private pages that are
 * registered, and shares what the driver allocated. Pages that were registered are copied as parent
 * and child write them, where the parent has one thread, and at once where it has more. The forking
 * thread waits until the child has made them; what other threads write meanwhile the child may see.
 */
void sim_view_fork_prepare(void);
void sim_view_fork_parent(void);
void sim_view_fork_child(void);

/* Bytes of the caller's stack that a swap, or the making of a child, may need. */
#define SIM_STACK_BYTES ((size_t)64 << 10)

/* Pages that change from private to shared or back. */
struct sim_swap {
    uintptr_t start; /* the CPU's first address */
    size_t bytes;    /* whole pages */
    int rights;      /* the CPU's, before and after */
    int fd;          /* the file that is to be shared; -1 to make pages private */
    uint64_t offset; /* in the file */
    bool failed;     /* result: the kernel refused; what it refused is as before */
};

/* Swaps pages while other threads may use them, but not move them. */
void sim_swap_run(struct sim_swap *swap);

/* Makes pages private in a process with one thread; false where the kernel refuses. */
bool sim_swap_alone(uintptr_t start, size_t bytes, int rights);

/* Whether a SIGSEGV came of a swap, so that the instruction has to be repeated. Waits for the swap.
 * Called by the fault handler of any thread. */
bool sim_swap_fault(const siginfo_t *info);

#endif
