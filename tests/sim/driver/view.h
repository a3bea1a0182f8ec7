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
    char *alias;     /* where the GPU, played by the CPU, finds the pages; NULL for no view */
    size_t bytes;    /* whole pages */
    uintptr_t first; /* the CPU's address of the pages at the start */
    uint64_t file;   /* inode of the pages that were the program's own before; 0 for none */
    int fd; /* owned: that file, which the program may have closed; -1 where file is 0 or the
               view small */
};

/* Fresh memory of `bytes` (whole pages), zeroed, for both sides; the CPU's address, or NULL where
 * there is no memory. */
void *sim_view_alloc(struct sim_view *view, size_t bytes);

/* Gives the GPU a view of the CPU's pages [first, first+bytes), whose content, address and rights
 * stay. Private pages become pages of a shared file on the way; other threads that write to them
 * meanwhile wait, but a system call that does gets EFAULT. No other thread's stack may lie in the
 * range, because signals could not be delivered there. CUDA_ERROR_INVALID_VALUE where a part is not
 * mapped, or the CPU itself may not read it or, but for `read_only`, write it. */
CUresult sim_view_open(struct sim_view *view, char *first, size_t bytes, bool read_only);

/* Ends a view. What the CPU still has of its pages, at whatever address, becomes private memory
 * with the same content and rights, but for pages that another block shares. */
void sim_view_close(struct sim_view *view);

/* Ends a view and leaves the CPU's side as it is. */
void sim_view_drop(struct sim_view *view);

/* Whether this process ever had a view. */
extern bool sim_view_any;

/* fork: a child of a real driver's process gets private copies of pinned pages. The forking
 * thread waits until the child has made them; what other threads write meanwhile the child may
 * see. */
void sim_view_fork_prepare(void);
void sim_view_fork_parent(void);
void sim_view_fork_child(void);

/* Pages that change from private to shared or back, and where their content is. */
struct sim_swap {
    uintptr_t start;    /* the CPU's first address */
    size_t bytes;       /* whole pages */
    int rights;         /* the CPU's, before and after */
    bool share;         /* to shared; else to private */
    int fd;             /* the file; -1 to make pages private by copying from `source` */
    uint64_t offset;    /* in the file */
    const char *source; /* to private: another mapping of the content */
    bool failed;        /* result: the kernel refused; what it refused is as before */
};

/* Swaps pages while other threads may use them. */
void sim_swap_run(struct sim_swap *swap);

/* Makes pages private in a process with one thread; false where the kernel refuses. */
bool sim_swap_alone(uintptr_t start, size_t bytes, int rights);

/* Whether a SIGSEGV came of a swap, so that the instruction has to be repeated. Waits for the swap.
 * Called by the fault handler of any thread. */
bool sim_swap_fault(const siginfo_t *info);

#endif
