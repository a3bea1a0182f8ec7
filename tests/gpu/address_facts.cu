/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware what a host block and a device block are that share pages but not an address: the
 * host block h is shared memory, the device block d has an address of its own inside reserved
 * addresses.  There d is ONE with h (h's pages, mapped by the CPU and registered) or OWN (device
 * memory, mapped by cuMemMap over the CPU's pages).  t is a third mapping of the same pages,
 * registered too, by which copies between h and d run at full speed.  Prints one line a fact, so
 * that the simulated GPU can be compared with a real one.
 *
 *   address_facts      ends with status 77 where no GPU answers
 */
#include "facts.cuh"

#include <cuda.h>
#include <errno.h>

#define ROUNDS 20
#define HINT_UNIT ((size_t)32 << 20)

/* The pages of a host block and the addresses of its device block. */
struct pair {
    volatile int *h, *t, *d;             /* three mappings of the same pages */
    size_t bytes;                        /* of each, whole huge pages */
    CUmemGenericAllocationHandle memory; /* the device's own, while d is OWN */
};

static void say_driver(const char *fact, CUresult result)
{
    say(fact, (cudaError_t)result);
}

static CUdeviceptr address(volatile int *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* Free addresses of the CPU's at a multiple of `alignment`. */
static char *hole(size_t bytes, size_t alignment)
{
    size_t room = bytes + alignment;
    char *p =
        (char *)mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    munmap(p, room);
    return (char *)(((size_t)p + alignment - 1) / alignment * alignment);
}

/* Shared memory in which each huge page begins with `value`. */
static volatile int *shared_pages(size_t bytes, int value)
{
    char *p = (char *)mmap(hole(bytes, PAGE), bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (size_t at = 0; at < bytes; at += PAGE)
        *(volatile int *)(p + at) = value;
    return (volatile int *)p;
}

/* Maps shared pages a second time, at `to`. */
static void duplicate(volatile int *from, size_t bytes, volatile int *to)
{
    if (mremap((void *)from, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) != (void *)to)
        perror("mremap");
}

static volatile int *reserve(size_t bytes)
{
    CUdeviceptr d = 0;

    say_driver("addresses reserved", cuMemAddressReserve(&d, bytes, 0, 0, 0));
    return (volatile int *)d;
}

/* h with `value` at the start of each huge page, mapped at d and t as well; nothing registered. */
static struct pair pair_of(size_t bytes, int value)
{
    struct pair p = {shared_pages(bytes, value), NULL, reserve(bytes), bytes, 0};

    p.t = (volatile int *)hole(bytes, PAGE);
    duplicate(p.h, bytes, p.t);
    duplicate(p.h, bytes, p.d);
    return p;
}

static void pin(const char *fact, volatile int *p, size_t bytes, unsigned flags)
{
    say(fact, cudaHostRegister((void *)p, bytes, flags));
}

static struct pair one(size_t bytes, int value)
{
    struct pair p = pair_of(bytes, value);

    pin("d registered", p.d, bytes, cudaHostRegisterDefault);
    return p;
}

static CUresult map_own(volatile int *at, size_t bytes, CUmemGenericAllocationHandle *memory)
{
    CUmemAllocationProp properties = {};
    CUmemAccessDesc access = {};
    CUresult result;

    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = cuMemCreate(memory, bytes, &properties, 0);
    if (result == CUDA_SUCCESS && (result = cuMemMap(address(at), bytes, 0, *memory, 0)) != 0)
        cuMemRelease(*memory);
    return result != CUDA_SUCCESS ? result : cuMemSetAccess(address(at), bytes, &access, 1);
}

static CUresult unmap_own(volatile int *at, size_t bytes, CUmemGenericAllocationHandle memory)
{
    CUresult result = cuMemUnmap(address(at), bytes);

    return result != CUDA_SUCCESS ? result : cuMemRelease(memory);
}

/* A pair in OWN whose device memory begins with `value`. */
static struct pair own(size_t bytes, int host_value, int value)
{
    struct pair p = pair_of(bytes, host_value);

    pin("t registered", p.t, bytes, cudaHostRegisterDefault);
    say_driver("device memory mapped over the CPU's pages", map_own(p.d, bytes, &p.memory));
    kernel_writes("a kernel writes at d", p.d, value);
    return p;
}

/* The CPU's view, also where it may not read or nothing is mapped. */
static void cpu_finds(const char *fact, volatile int *p)
{
    int pipes[2], value = -1;
    unsigned char resident;
    bool fine = pipe(pipes) == 0 && write(pipes[1], (void *)p, sizeof(value)) == sizeof(value) &&
                read(pipes[0], &value, sizeof(value)) == sizeof(value);

    close(pipes[0]);
    close(pipes[1]);
    if (fine)
        show(fact, value);
    else if (mincore((void *)p, 4096, &resident) == 0)
        printf("%s: no access\n", fact);
    else
        printf("%s: %s\n", fact, errno == ENOMEM ? "nothing" : "an error");
    fflush(stdout);
}

static void range_of(const char *fact, volatile int *p)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult result = cuMemGetAddressRange(&base, &bytes, address(p));

    if (result != CUDA_SUCCESS)
        say_driver(fact, result);
    else
        printf("%s: begins %ld before, %zu bytes\n", fact, (long)(address(p) - base), bytes);
    fflush(stdout);
}

static void reserved_addresses(void)
{
    volatile int *d = reserve(2 * PAGE), *h = shared_pages(2 * PAGE, 7);

    cpu_finds("the CPU finds at reserved addresses", d);
    pin("reserved addresses registered", d, PAGE, 0);
    memory_type("memory type of reserved addresses", d);
    duplicate(h, 2 * PAGE, d);
    cpu_finds("the CPU finds the pages that it mapped there", d);
    memory_type("memory type of the CPU's pages there", d);
    copy_reads("a copy reads them", d);
    copy_writes("a copy writes to them", d, 8);
    show("the CPU reads at h", *h);
    kernel_reads("a kernel reads them", d);
}

static void hints(void)
{
    char *free_addresses = hole(4 * HINT_UNIT, HINT_UNIT);
    volatile int *taken = shared_pages(HINT_UNIT, 7);
    CUdeviceptr d[3] = {};

    say_driver("reserved with a hint at a multiple of 32 MiB",
               cuMemAddressReserve(&d[0], HINT_UNIT, 0, (CUdeviceptr)free_addresses, 0));
    show("the hint was taken", d[0] == (CUdeviceptr)free_addresses);
    free_addresses += HINT_UNIT + PAGE;
    say_driver("reserved with a hint at a multiple of 2 MiB",
               cuMemAddressReserve(&d[1], HINT_UNIT, 0, (CUdeviceptr)free_addresses, 0));
    show("the hint was taken", d[1] == (CUdeviceptr)free_addresses);
    say_driver("reserved with a hint at the program's pages",
               cuMemAddressReserve(&d[2], HINT_UNIT, 0, address(taken), 0));
    show("the hint was taken", d[2] == address(taken));
    show("the CPU reads its pages there", *taken);
    say_driver("freed", cuMemAddressFree(d[0], HINT_UNIT));
}

static void one_memory(void)
{
    struct pair p = one(2 * PAGE, 7);
    void *device = NULL;

    say("the device's address of d", cudaHostGetDevicePointer(&device, (void *)p.d, 0));
    show("it is d", device == (void *)p.d);
    memory_type("memory type of h", p.h);
    memory_type("memory type of d", p.d);
    range_of("range of d", p.d + 1);
    kernel_reads("a kernel reads at d", p.d);
    *p.h = 8;
    kernel_reads("a kernel reads what the CPU wrote at h", p.d);
    kernel_writes("a kernel writes at d", p.d, 9);
    show("the CPU reads at h", *p.h);
    show("the CPU reads at d", *p.d);
    copy_reads("a copy reads at d", p.d);
    copy_reads_as("a copy reads at d as device memory", p.d, cudaMemcpyDeviceToDevice);
    copy_writes("a copy writes at d", p.d, 10);
    show("the CPU reads at h", *p.h);
    copy_reads("a copy reads at h", p.h);
    copy_writes("a copy writes at h", p.h, 11);
    kernel_reads("a kernel reads at d", p.d);
    say("a set writes at d", cudaMemset((void *)p.d, 0, sizeof(int)));
    show("the CPU reads at h", *p.h);
    say("unregistered", cudaHostUnregister((void *)p.d));
    memory_type("memory type of d then", p.d);
    pin("registered again", p.d, p.bytes, 0);
    kernel_reads("a kernel reads at d", p.d);
    kernel_reads("a kernel reads at h", p.h);
}

/* The CPU's rights at each of the addresses are its own affair. */
static void rights_of_the_cpu(void)
{
    struct pair p = one(2 * PAGE, 7);

    mprotect((void *)p.h, p.bytes, PROT_NONE);
    kernel_writes("a kernel writes at d, h closed", p.d, 8);
    copy_reads("a copy reads at d", p.d);
    mprotect((void *)p.h, p.bytes, PROT_READ | PROT_WRITE);
    show("the CPU reads at h", *p.h);
    mprotect((void *)p.d, p.bytes, PROT_NONE);
    kernel_writes("a kernel writes at d, d closed", p.d, 9);
    show("the CPU reads at h", *p.h);
    *p.h = 10;
    kernel_reads("a kernel reads at d", p.d);
    say("unregistered", cudaHostUnregister((void *)p.d));
    pin("d registered while it is closed", p.d, p.bytes, 0);
    say_driver("device memory mapped over closed pages", map_own(p.d, p.bytes, &p.memory));
    kernel_writes("a kernel writes at d", p.d, 11);
    show("the CPU reads at h", *p.h);
    say_driver("unmapped", unmap_own(p.d, p.bytes, p.memory));
    mprotect((void *)p.d, p.bytes, PROT_READ | PROT_WRITE);
    pin("registered", p.d, p.bytes, 0);
    kernel_reads("a kernel reads at d", p.d);
}

static void two_registrations(void)
{
    struct pair p = one(2 * PAGE, 7);

    pin("t registered too", p.t, p.bytes, 0);
    kernel_writes("a kernel writes at d", p.d, 8);
    kernel_reads("a kernel reads at t", p.t);
    copy_writes("a copy writes at t", p.t, 9);
    kernel_reads("a kernel reads at d", p.d);
    say("d unregistered", cudaHostUnregister((void *)p.d));
    kernel_writes("a kernel writes at t", p.t, 10);
    pin("d registered for reading", p.d, p.bytes, cudaHostRegisterReadOnly);
    kernel_reads("a kernel reads at d", p.d);
    *p.h = 11;
    kernel_reads("a kernel reads at d what the CPU wrote at h", p.d);
    kernel_writes("a kernel writes at t", p.t, 12);
    copy_writes("a copy writes at t", p.t, 13);
    copy_reads("a copy reads at d", p.d);
    copy_writes("a copy writes at d", p.d, 14);
    say("t unregistered", cudaHostUnregister((void *)p.t));
    kernel_reads("a kernel reads at d", p.d);
    kernel_writes("a kernel writes at d", p.d, 15);
    show("the CPU reads at h", *p.h);
}

static void own_memory(void)
{
    struct pair p = one(2 * PAGE, 7);

    say_driver("device memory mapped over registered pages", map_own(p.d, p.bytes, &p.memory));
    kernel_reads("a kernel reads at d", p.d);
    say("unregistered", cudaHostUnregister((void *)p.d));
    say_driver("device memory mapped over the CPU's pages", map_own(p.d, p.bytes, &p.memory));
    pin("registered there", p.d, p.bytes, 0);
    kernel_writes("a kernel writes at d", p.d, 8);
    show("the CPU reads at h", *p.h);
    show("the CPU reads at d", *p.d);
    *p.h = 9;
    show("the CPU reads at d what it wrote at h", *p.d);
    kernel_reads("a kernel reads at d", p.d);
    memory_type("memory type of h", p.h);
    memory_type("memory type of d", p.d);
    range_of("range of d", p.d + 1);
    say_driver("addresses freed", cuMemAddressFree(address(p.d), p.bytes));
    say_driver("unmapped", unmap_own(p.d, p.bytes, p.memory));
    memory_type("memory type of d then", p.d);
    pin("registered", p.d, p.bytes, 0);
    kernel_reads("a kernel reads at d", p.d);
    kernel_writes("a kernel writes at d", p.d, 10);
    show("the CPU reads at h", *p.h);
}

static void copies_in_own(void)
{
    struct pair p = own(2 * PAGE, 7, 8);

    copy_reads_as("a copy reads at d as device memory", p.d, cudaMemcpyDeviceToDevice);
    copy_reads_as("a copy without direction reads at d", p.d, cudaMemcpyDefault);
    copy_reads("a copy reads at d as host memory", p.d);
    copy_writes("a copy writes at d as host memory", p.d, 9);
    kernel_reads("a kernel reads at d", p.d);
    show("the CPU reads at h", *p.h);
    say("h copied to d", cudaMemcpy((void *)p.d, (void *)p.h, copy_bytes, cudaMemcpyHostToDevice));
    kernel_reads("a kernel reads at d", p.d);
    *p.h = 10;
    say("without direction", cudaMemcpy((void *)p.d, (void *)p.h, copy_bytes, cudaMemcpyDefault));
    kernel_reads("a kernel reads at d", p.d);
    *p.h = 11;
    say("by t", cudaMemcpy((void *)p.d, (void *)p.t, copy_bytes, cudaMemcpyHostToDevice));
    kernel_reads("a kernel reads at d", p.d);
    kernel_writes("a kernel writes at d", p.d, 12);
    say("d copied to h", cudaMemcpy((void *)p.h, (void *)p.d, copy_bytes, cudaMemcpyDeviceToHost));
    show("the CPU reads at h", *p.h);
    kernel_writes("a kernel writes at d", p.d, 13);
    say("by t", cudaMemcpy((void *)p.t, (void *)p.d, copy_bytes, cudaMemcpyDeviceToHost));
    show("the CPU reads at h", *p.h);
    say("a set writes at d", cudaMemset((void *)p.d, 0, sizeof(int)));
    kernel_reads("a kernel reads at d", p.d);
    show("the CPU reads at h", *p.h);
    say_driver("unmapped", unmap_own(p.d, p.bytes, p.memory));
    pin("d registered beside t", p.d, p.bytes, 0);
    kernel_reads("a kernel reads at d", p.d);
    kernel_reads("a kernel reads at t", p.t);
}

/* Whether one memory is seen in ONE, and two in OWN. */
static bool is_right(const struct pair *p, bool is_one, int i)
{
    int value = -1;

    *p->h = i;
    store_number<<<1, 1>>>((int *)p->d, i + 1000);
    load_number<<<1, 1>>>((const int *)p->d, out);
    return cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess &&
           value == i + 1000 && *p->h == (is_one ? i + 1000 : i);
}

static void round_trips(void)
{
    struct pair p = one(4 * PAGE, 7);
    int right = 0;

    for (int i = 0; i < ROUNDS; i++) {
        bool fine = is_right(&p, true, i) && cudaHostUnregister((void *)p.d) == cudaSuccess &&
                    map_own(p.d, p.bytes, &p.memory) == CUDA_SUCCESS && is_right(&p, false, i);

        right += fine && unmap_own(p.d, p.bytes, p.memory) == CUDA_SUCCESS &&
                 cudaHostRegister((void *)p.d, p.bytes, 0) == cudaSuccess;
    }
    show("rounds to OWN and back that were right", right);
    kernel_reads("a kernel reads at d", p.d);
}

/* Kernels and copies that touch both sides of the border between two backings of d. */
static void over_border(volatile int *d, size_t part)
{
    volatile int *border = d + part / sizeof(int), *before = border - copy_bytes / sizeof(int);
    size_t both = 2 * copy_bytes;
    int value = -1;

    add_numbers<<<1, 1>>>((const int *)d, part / sizeof(int), out);
    say("a kernel adds over the border", cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDefault));
    show("the sum", value);
    say("a copy from both sides as host memory",
        cudaMemcpy(out, (void *)before, both, cudaMemcpyHostToDevice));
    say("as device memory", cudaMemcpy(out, (void *)before, both, cudaMemcpyDeviceToDevice));
    say("without direction", cudaMemcpy(out, (void *)before, both, cudaMemcpyDefault));
    say("a copy to both sides as device memory",
        cudaMemcpy((void *)before, out, both, cudaMemcpyDeviceToDevice));
    say("without direction", cudaMemcpy((void *)before, out, both, cudaMemcpyDefault));
    say("a set of both sides", cudaMemset((void *)before, 0, both));
    copy_reads("a copy of what lies before", before);
    say("to device memory", cudaMemcpy(out, (void *)before, copy_bytes, cudaMemcpyDeviceToDevice));
    say("of what lies behind",
        cudaMemcpy(out, (void *)border, copy_bytes, cudaMemcpyDeviceToDevice));
    say("the context after that", cudaDeviceSynchronize());
}

/* One half of d is ONE, the other half OWN. */
static void border(size_t part, bool own_first)
{
    struct pair p = pair_of(2 * part, 7);
    volatile int *behind = p.d + part / sizeof(int), *mine = own_first ? p.d : behind,
                 *common = own_first ? behind : p.d;

    say_driver("device memory mapped in one part", map_own(mine, part, &p.memory));
    kernel_writes("a kernel writes there", mine, 100);
    kernel_writes("a kernel writes at the end of it", mine + (part - copy_bytes) / sizeof(int), 0);
    pin("the other part registered", common, part, 0);
    over_border(p.d, part);
    show("the CPU reads at h", *p.h);
    say("unregistered", cudaHostUnregister((void *)common));
    say_driver("unmapped", unmap_own(mine, part, p.memory));
}

static void own_before_one(void)
{
    border(HINT_UNIT, true);
}

static void one_before_own(void)
{
    border(HINT_UNIT, false);
}

static void parts_of_one_page(void)
{
    border(PAGE, true);
}

/* After the addresses were given back. */
static void freed_addresses(void)
{
    struct pair p = pair_of(2 * PAGE, 7), q = pair_of(2 * PAGE, 8);

    say_driver("addresses freed under the CPU's pages", cuMemAddressFree(address(p.d), p.bytes));
    cpu_finds("the CPU finds there", p.d);
    show("the CPU reads at h", *p.h);
    mmap((void *)q.d, q.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1, 0);
    say_driver("addresses freed after the pages were taken away",
               cuMemAddressFree(address(q.d), q.bytes));
    cpu_finds("the CPU finds there", q.d);
    p = one(2 * PAGE, 9);
    say_driver("addresses freed under registered pages", cuMemAddressFree(address(p.d), p.bytes));
    cpu_finds("the CPU finds there", p.d);
    kernel_reads("a kernel reads there", p.d);
    say("unregistered", cudaHostUnregister((void *)p.d));
    say("the context after that", cudaDeviceSynchronize());
}

/* A child shares the pages: no copy of them is made, and both see what either writes. */
static void child_of_a_pair(void)
{
    struct pair p = one(2 * PAGE, 7);
    pid_t child;

    pin("t registered too", p.t, p.bytes, 0);
    child = fork();
    if (child == 0) {
        usleep(50000);
        show("a child reads at h what the parent wrote after the fork", *p.h);
        show("a child reads at d", *p.d);
        *p.h = 9;
        _exit(fflush(stdout));
    }
    *p.h = 8;
    waitpid(child, NULL, 0);
    show("the parent reads what the child wrote", *p.h);
    kernel_reads("a kernel of the parent's reads it at d", p.d);
    kernel_writes("a kernel of the parent's writes at d", p.d, 10);
    show("the parent reads at h", *p.h);
}

static void discarded_pages(void)
{
    struct pair p = one(2 * PAGE, 7);

    show("MADV_DONTNEED of h", madvise((void *)p.h, PAGE, MADV_DONTNEED));
    show("the CPU reads at h", *p.h);
    kernel_reads("a kernel reads at d", p.d);
    show("MADV_REMOVE of h", madvise((void *)p.h, PAGE, MADV_REMOVE));
    show("the CPU reads at h", *p.h);
    kernel_reads("a kernel reads at d", p.d);
    show("the CPU reads at d", *p.d);
    *p.h = 8;
    kernel_reads("a kernel reads at d what the CPU wrote then", p.d);
    say("unregistered", cudaHostUnregister((void *)p.d));
    pin("registered again", p.d, p.bytes, 0);
    kernel_reads("a kernel reads at d", p.d);
}

/* The CPU's mapping of h goes, or a page of its own comes there: d keeps the shared pages. */
static void parted_page(void)
{
    struct pair p = one(2 * PAGE, 7);

    mmap((void *)p.h, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *p.h = 8;
    kernel_reads("a kernel reads at d", p.d);
    kernel_writes("a kernel writes at d", p.d, 9);
    show("the CPU reads its own page at h", *p.h);
    show("the CPU reads at d", *p.d);
    duplicate(p.d, PAGE, p.h);
    show("the CPU reads at h, mapped again", *p.h);
    *p.h = 10;
    kernel_reads("a kernel reads at d", p.d);
    munmap((void *)p.d, p.bytes);
    kernel_reads("a kernel reads at d, unmapped by the CPU", p.d);
    say("unregistered", cudaHostUnregister((void *)p.d));
    show("the CPU reads at h", *p.h);
}

static const struct group groups[] = {
    {"reserved addresses", reserved_addresses, true},
    {"hints", hints, false},
    {"one memory", one_memory, true},
    {"rights of the CPU", rights_of_the_cpu, false},
    {"two registrations", two_registrations, true},
    {"own memory", own_memory, false},
    {"copies in own memory", copies_in_own, true},
    {"round trips", round_trips, false},
    {"own memory before registered pages", own_before_one, true},
    {"registered pages before own memory", one_before_own, true},
    {"parts of 2 MiB", parts_of_one_page, true},
    {"freed addresses", freed_addresses, false},
    {"child of a pair", child_of_a_pair, false},
    {"discarded pages", discarded_pages, false},
    {"parted page", parted_page, false},
};

int main(void)
{
    return run_groups("address_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
