/* SPDX-License-Identifier: MIT */
/* Control interface of the simulated GPU: what tests and host-built kernels may call in its
 * libcuda.so.1.
 *
 * Nothing here exists in a real driver. All functions may be called from any thread; none of them
 * needs cuInit. The environment gives the same controls to unmodified programs: SIM_DEVICES,
 * SIM_MEMORY_MIB, SIM_PIN_MIB, SIM_DELAY_US, SIM_KERNEL_US, SIM_ATTR, SIM_FAIL, SIM_WITHOUT,
 * SIM_TRACE, SIM_COPIES, SIM_MANAGED and SIM_LEAKS, and:
 *
 * SIM_BUS=TEXT
 *     What the devices' bus ids begin with (ffff:, which no machine has).
 *
 * SIM_PEERS=pcie, none
 *     What leads from device to device: PCIe alone, or nothing, as with MIG (NVLink).
 *
 * SIM_TAKEN_MIB
 *     What another process has taken of each device's memory but the first's.
 *
 * SIM_BESIDE=FILE
 *     Processes that name the same file share the memory of the devices.
 *
 * SIM_HMM=1, SIM_ATS=1
 *     Kernels, and copies and sets that name it as the device's, reach all host memory through the
 *     CPU's page table (attribute 88; with ATS 100 as well): where the CPU may not, the GPU faults,
 *     700. Registration for reading is refused, 801 (attribute 113 is 0). Registered ranges and
 *     mappings stay the GPU's own; with ATS they switch it off for the 512 MiB around device
 *     memory. cuInit asks ioctl(2) of libc for UVM_INITIALIZE (0x30000001), on a file of the name
 *     nvidia-uvm, with struct { uint64_t flags; uint32_t status; }: bit 0 of the flags, which a
 *     preloaded ioctl may set, leaves HMM off for the process.
 *
 * SIM_WRONG=WORD,...
 *     A machine that is not as libzc needs it:
 *       parted   where a file's page is looked for, by registration or by HMM and ATS, the GPU
 *                finds the page that a private mapping of the file has in its place
 *       upgrade  kernels write where the CPU may only read, or what is registered for reading
 *       served   an address with mapped device memory shows the CPU's own pages
 *       flag     the flag of UVM_INITIALIZE has no effect
 *       refused  with HMM left off, registration for reading is refused all the same
 *
 * SIM_ATTR=136=MASK gives devices an engine that decompresses by the algorithms of the mask; it
 * takes compressed bytes for what they stand for. cuImportExternalMemory takes a memfd for the
 * memory of another API's. Multicast is refused, as one GPU refuses it.
 *
 * Pinned host memory (registered, or from the driver) has two mappings, the CPU's and the GPU's, as
 * on hardware: sets, kernels that ask sim_gpu_pointer and copies by the copy engine take the GPU's,
 * host functions the CPU's. So do the copies that the driver makes with the caller's CPU, whose
 * faults are the program's: pageable memory, host to host, and up to 24,576 bytes in one row from
 * pinned memory to a device where the stream is idle (tests/gpu/copy_facts.c asks a driver). In
 * graphs that is so only where the copy is all of the graph; beside other nodes the stream's thread
 * moves the bytes, pinned ones in the GPU's view.
 *
 * madvise(MADV_DONTNEED, MADV_REMOVE) gives the CPU fresh pages and leaves the GPU the registered
 * ones, where the program's madvise leads here.
 *
 * Not as on hardware: memory that was registered once is shared memory from then on, so that
 * mremap(MREMAP_DONTUNMAP) leaves the same pages behind, what had been cut off behind a mapping is
 * there again when it grows, a private mapping of a file is one no longer (/proc/self/pagemap tells
 * pages of a file, and MADV_DONTNEED does not bring back the file's), MADV_DONTFORK is forgotten,
 * and a child that was made without fork's handlers (a bare clone), or while its stack was
 * registered, writes to its parent's pages. While one thread registers memory for the first time, a
 * system call of another's that writes there can fail with EFAULT, and nobody may move its pages.
 */
#ifndef SIM_H
#define SIM_H

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Shape of one kernel launch, as cuLaunchKernel got it. */
struct sim_launch {
    unsigned gridDim[3];  /* blocks in x, y, z */
    unsigned blockDim[3]; /* threads of a block in x, y, z */
    unsigned sharedBytes; /* dynamic shared memory of a block, bytes */
};

/* Runs one whole grid on the calling thread. args[i] points to a private copy of argument i.
 * Returns 0 or the CUresult that the grid ends with, such as CUDA_ERROR_ILLEGAL_ADDRESS. A SIGSEGV
 * inside means CUDA_ERROR_ILLEGAL_ADDRESS. */
typedef int (*sim_thunk)(void *const *args, const struct sim_launch *launch);

/* Makes a kernel known to every module and library under `name` (the mangled name). sizes[i] is the
 * size of argument i in bytes; name and sizes are borrowed for the life of the process. A second
 * registration of a name replaces the first. */
void sim_kernel_register(const char *name, sim_thunk fn, size_t nparams, const size_t *sizes);

/* Makes a __device__ or __constant__ variable known. `address` is its storage in the host build,
 * borrowed for ever. */
void sim_global_register(const char *name, void *address, size_t bytes);

/* The address at which the calling kernel may touch the memory behind a device pointer, or NULL
 * where the GPU that runs it has no mapping (a real GPU would fault). For pinned host memory it is
 * not the pointer itself, and a write where the GPU may only read faults there. SIM_KERNEL asks it
 * for every parameter that is a pointer; addresses inside structures and in memory stay what the
 * program wrote: of device memory they fault, of pinned memory they are the CPU's view. Outside
 * kernels the device of the current context asks, else device 0. */
void *sim_gpu_pointer(CUdeviceptr va);

/* Called by a kernel: the address behind a texture of linear memory, or a tensor map. */
CUdeviceptr sim_texture_address(CUtexObject texture);
CUdeviceptr sim_tensor_address(const CUtensorMap *map);

/* Called by a kernel: sets the value of a CUgraphConditionalHandle, as cudaGraphSetConditional does
 * on a device. */
void sim_condition_set(unsigned long long handle, unsigned value);

/* Called by a kernel: it is said to take so much longer than SIM_KERNEL_US, which the CPU does not
 * wait for. */
void sim_kernel_takes(unsigned microseconds);

/* Bytes that copies have moved between a device and the host. */
unsigned long long sim_link_bytes(int device);

/* The same for writing: NULL also for memory registered with CU_MEMHOSTREGISTER_READ_ONLY or mapped
 * read-only. */
void *sim_gpu_pointer_write(CUdeviceptr va);

/* An attribute that no version of CUDA has yet: 1 for memory that the driver knows. */
#define SIM_POINTER_ATTRIBUTE_FUTURE 1000

/* As cuMemRangeGetAttribute, for programs that libzc hides what is managed from. */
CUresult sim_range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                             CUdeviceptr va, size_t count);

/* The error of the current context that every later call is to return, or CUDA_SUCCESS; no call of
 * the driver. */
CUresult sim_error(void);

/* Number of calls of an entry point by its exported name, such as "cuMemAlloc_v2"; 0 for an unknown
 * name. */
unsigned long long sim_calls(const char *name);

/* Sets every call count to 0. */
void sim_reset_counts(void);

/* Makes calls of `name` return `result` without doing anything: the nth call from here on (1 is the
 * next one), or every one with nth 0. CUDA_SUCCESS takes the orders for that name back; a NULL name
 * takes all orders back. */
void sim_fail(const char *name, CUresult result, unsigned nth);

/* Calls `fn` once, in the thread that makes the next call of `name`, before that does anything. It
 * may call the driver. NULL takes the order back. One order at a time. */
void sim_before(const char *name, void (*fn)(void));

/* Classes of what a program can leak. */
enum sim_leak_class {
    SIM_LEAK_DEVICE,      /* cuMemAlloc blocks */
    SIM_LEAK_POOLED,      /* stream-ordered blocks */
    SIM_LEAK_HOST,        /* cuMemHostAlloc blocks */
    SIM_LEAK_REGISTERED,  /* cuMemHostRegister ranges */
    SIM_LEAK_MANAGED,     /* cuMemAllocManaged blocks */
    SIM_LEAK_RESERVATION, /* cuMemAddressReserve ranges */
    SIM_LEAK_MAPPING,     /* cuMemMap mappings */
    SIM_LEAK_HANDLE,      /* cuMemCreate handles with references of the program's */
    SIM_LEAK_ARRAY,       /* arrays and mipmapped arrays */
    SIM_LEAK_POOL,        /* pools from cuMemPoolCreate */
    SIM_LEAK_STREAM,      /* streams from cuStreamCreate */
    SIM_LEAK_EVENT,       /* events */
    SIM_LEAK_GRAPH,       /* graphs and executable graphs */
    SIM_LEAK_CLASSES
};

/* Number of live objects of one class, or of all classes together with SIM_LEAK_CLASSES. */
size_t sim_leaks(enum sim_leak_class which);

#ifdef __cplusplus
}
#endif

#endif
