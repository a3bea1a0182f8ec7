/* SPDX-License-Identifier: MIT */
/* The steps that zc-views tries. */
#include "tools/views/steps.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/views/leave_off.h"
#include "tools/views/pair.h"

#define ROUNDS 3
#define WRITES 200000u   /* Of the CPU's beside a kernel, at least, */
#define PASSES 4u        /* until that has read each page so often, */
#define WRITE_S 20       /* but no longer. */
#define MOST 0x7fffffffu /* Reads or writes of a kernel that is not stopped. */
#define NOT_READING "the device reaches no pageable memory"

/* Every third page of h is written, so that some of both kinds lie beside each other. */
static void write_some(struct view_pair *p)
{
    for (size_t i = 0; i < p->pages; i += 3)
        view_write(p, i, (unsigned char)(200 + i % 50));
}

/* The CPU's writes to h stay h's, and what is carried over arrives. */
static void both_sides(struct view_pair *p)
{
    view_kernels_find(p, "at first");
    view_part(p);
    view_kernels_find(p, "behind a private view");
    view_cpu_finds(p, "behind a private view");
    write_some(p);
    view_pages_known(p, true, "by the CPU");
    view_kernels_find(p, "once the CPU has written the host block");
    view_copies_find(p, "once the CPU has written the host block");
    view_cpu_finds(p, "after the CPU's writes");
    for (size_t i = 0; i < p->pages; i += 6)
        view_carry(p, i);
    view_kernels_find(p, "once it was carried over");
    view_copies_find(p, "once it was carried over");
    view_cpu_finds(p, "once it was carried over");
}

static void refused_write(struct view_pair *p)
{
    CUresult result = view_fill(p, p->d, 99);
    view_cpu_finds(p, "after a kernel's write that must fail");
    if (result != CUDA_ERROR_ILLEGAL_ADDRESS)
        view_wrong("a kernel that writes there returned %d and not %d", (int)result,
                   CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void registered_to_read(const struct view_device *device)
{
    struct view_pair p;
    if (!device->read_only)
        view_has_none("the device registers no memory for reading");
    view_start(device, VIEW_BYTES);
    view_open(&p, device);
    view_must(view_register(&p, CU_MEMHOSTREGISTER_READ_ONLY), "cuMemHostRegister");
    both_sides(&p);
    refused_write(&p);
}

static void registered_to_write(const struct view_device *device)
{
    struct view_pair p;
    view_start(device, VIEW_BYTES);
    view_open(&p, device);
    view_must(view_register(&p, 0), "cuMemHostRegister");
    both_sides(&p);
    for (size_t i = 0; i < p.pages; i += 9) { /* Pages that h has of its own. */
        view_must(view_fill(&p, p.d + i * p.page, 77), "a kernel that writes");
        p.in_d[i] = 77;
    }
    view_kernels_find(&p, "once kernels have written it");
    view_cpu_finds(&p, "once kernels have written it");
    MUST(cuMemHostUnregister, p.d);
    view_hide(&p);
}

static void open_view(struct view_pair *p, const struct view_device *device)
{
    if (!device->reaches)
        view_has_none(NOT_READING);
    view_start(device, VIEW_BYTES);
    view_open(p, device);
    view_show(p);
}

static void view(const struct view_device *device)
{
    struct view_pair p;
    open_view(&p, device);
    both_sides(&p);
}

static void view_refuses(const struct view_device *device)
{
    struct view_pair p;
    open_view(&p, device);
    view_kernels_find(&p, "at first");
    refused_write(&p);
}

/* Kernels are given h itself. */
static void host(const struct view_device *device)
{
    struct view_pair p;
    open_view(&p, device);
    view_part(&p);
    write_some(&p);
    view_kernels_find_at(&p, p.h, p.in_h, "in the host block");
    for (size_t i = 1; i < p.pages; i += 5) {
        view_must(view_fill(&p, p.h + i * p.page, 88), "a kernel that writes the host block");
        p.in_h[i] = 88;
        p.written[i] = true;
    }
    view_cpu_finds(&p, "once kernels have written the host block");
    view_kernels_find(&p, "once kernels have written the host block");
    view_pages_known(&p, false, "by kernels");
    if (driver.cuMemPrefetchAsync)
        driver.cuMemPrefetchAsync((CUdeviceptr)(uintptr_t)p.h, VIEW_BYTES, device->number, NULL);
    MUST(cuCtxSynchronize);
    view_pages_known(&p, false, "and are on the device");
    view_kernels_find(&p, "while the host block is on the device");
    view_cpu_finds(&p, "back from the device");
}

/* Words in pinned memory that a kernel and the CPU both see: the kernel's two results, and a word
 * that ends it. */
static volatile unsigned *signals(void)
{
    void *words;
    MUST(cuMemHostAlloc, &words, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    volatile unsigned *w = words;
    w[0] = w[1] = w[2] = 0;
    return w;
}

/* A kernel reads d while the CPU writes h, which becomes a private view meanwhile, or is one. */
static void watch(struct view_pair *p, bool parts)
{
    volatile unsigned *w = signals();
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)p->d, results = (CUdeviceptr)(uintptr_t)w;
    CUdeviceptr stop = results + 8;
    unsigned long long stride = p->page / sizeof(unsigned), count = p->pages;
    unsigned expected = 0x05050505, most = MOST;
    void *arguments[] = {&from, &stride, &count, &expected, &results, &stop, &most};
    view_must(view_launch(VIEW_WATCH, view_stream, arguments), "a launch");
    if (parts)
        view_part(p);
    time_t end = time(NULL) + WRITE_S;
    for (unsigned i = 0; i < WRITES || (w[1] < PASSES * p->pages && time(NULL) < end); i++)
        *(volatile unsigned *)(p->h + i % p->pages * p->page) = i | 0x80000000u;
    w[2] = 1;
    view_must(driver.cuStreamSynchronize(view_stream), "a kernel that reads meanwhile");
    if (w[1] == 0 || w[0] != 0)
        view_wrong("a kernel found %u words of %u that the CPU wrote meanwhile", w[0], w[1]);
}

static void meanwhile(const struct view_device *device)
{
    struct view_pair p;
    open_view(&p, device);
    for (size_t i = 0; i < p.pages; i++)
        view_write(&p, i, 5);
    watch(&p, true);
    watch(&p, false);
}

/* A kernel writes h while it becomes a private view: its last write is not lost. */
static void parted_meanwhile(const struct view_device *device)
{
    struct view_pair p;
    open_view(&p, device);
    volatile unsigned *w = signals();
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)p.h, results = (CUdeviceptr)(uintptr_t)w;
    CUdeviceptr stop = results + 8;
    unsigned most = MOST;
    void *arguments[] = {&to, &stop, &results, &most};
    *(volatile unsigned *)p.h = 0;
    view_must(view_launch(VIEW_COUNT, view_stream, arguments), "a launch");
    while (*(volatile unsigned *)p.h == 0)
        ;
    view_part(&p);
    usleep(20000);
    w[2] = 1;
    view_must(driver.cuStreamSynchronize(view_stream), "a kernel that writes meanwhile");
    if (*(volatile unsigned *)p.h != w[0])
        view_wrong("a kernel wrote %u last, and the CPU finds %u", w[0], *(volatile unsigned *)p.h);
}

static CUmemGenericAllocationHandle device_memory(const struct view_device *device)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number}};
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate, &handle, VIEW_BYTES, &prop, 0);
    return handle;
}

/* While the CPU has pages of its own at the same address. */
static void be_own(struct view_pair *p, const struct view_device *device,
                   CUmemGenericAllocationHandle handle, unsigned char seed)
{
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->number},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr d = (CUdeviceptr)(uintptr_t)p->d;
    unsigned char content[1024];
    MUST(cuMemMap, d, VIEW_BYTES, 0, handle, 0);
    MUST(cuMemSetAccess, d, VIEW_BYTES, &access, 1);
    mmap(p->d, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (size_t i = 0; i < VIEW_BYTES; i += p->page)
        p->d[i] = 1;
    MUST(cuMemsetD32_v2, d, seed * 0x01010101u, VIEW_BYTES / sizeof(unsigned));
    MUST(cuCtxSynchronize);
    for (size_t i = 0; i < p->pages; i++)
        content[i] = seed;
    view_kernels_find_at(p, p->d, content, "in device memory");
    for (size_t i = 0; i < VIEW_BYTES; i += p->page)
        if (p->d[i] != 1)
            view_wrong("device memory is written where the CPU has pages of its own");
    MUST(cuMemUnmap, d, VIEW_BYTES);
}

static void own_and_back(const struct view_device *device)
{
    struct view_pair p;
    view_start(device, VIEW_BYTES);
    view_open(&p, device);
    CUmemGenericAllocationHandle handle = device_memory(device);
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool registers = !device->reaches;
        if (registers)
            view_must(view_register(&p, 0), "cuMemHostRegister");
        else
            view_show(&p);
        view_kernels_find(&p, "before it was device memory, or after");
        if (registers)
            MUST(cuMemHostUnregister, p.d);
        view_hide(&p);
        be_own(&p, device, handle, (unsigned char)(150 + i));
    }
}

/* The child sees nothing of what the parent's kernels write into h. */
static void forked(const struct view_device *device)
{
    struct view_pair p;
    int go[2], status = 1;
    char c = 0;
    open_view(&p, device);
    view_part(&p);
    write_some(&p);
    if (pipe(go) != 0)
        view_wrong("there is no pipe");
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(read(go[0], &c, 1) != 1 || p.h[0] != (char)p.in_h[0] || p.h[p.page] != p.in_h[1]);
    }
    for (size_t i = 0; i < 2; i++) {
        view_must(view_fill(&p, p.h + i * p.page, 66), "a kernel that writes the host block");
        p.in_h[i] = 66;
    }
    if (write(go[1], &c, 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
        view_wrong("a child of fork finds what a kernel of its parent wrote later");
    view_cpu_finds(&p, "beside a child of fork");
    view_kernels_find(&p, "beside a child of fork");
}

/* The driver has been started without HMM. */
static void left_off(const struct view_device *device)
{
    if (device->tables)
        view_has_none("ATS can't be left off");
    if (!view_left_off())
        view_has_none("the driver asks for no HMM by ioctl(2)");
    if (device->reaches)
        view_wrong("HMM is on all the same");
    if (!device->read_only)
        view_wrong("memory can't be registered for reading all the same");
    registered_to_read(device);
}

const struct view_step view_steps[] = {
    {"registered", "a registered view keeps its pages", registered_to_write, false},
    {"registered-read", "one that is registered for reading, too, and refuses writes",
     registered_to_read, false},
    {"view", "a view that is not registered keeps its pages", view, false},
    {"view-refuses", "a view to read refuses kernels that write", view_refuses, false},
    {"host", "kernels that are given the host block write its own pages", host, false},
    {"meanwhile", "kernels read on while the CPU writes", meanwhile, false},
    {"parted", "kernels write on while the host block becomes private", parted_meanwhile, false},
    {"own", "device memory in the place of a view, and back", own_and_back, false},
    {"fork", "a child of fork keeps its pages", forked, false},
    {"hmm-off", "the same by registered views, with HMM left off for the process", left_off, true},
};
const unsigned view_step_count = sizeof(view_steps) / sizeof(view_steps[0]);
