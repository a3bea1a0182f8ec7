/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware how the GPU's view of pinned host memory and the CPU's come apart: what kernels,
 * copy engines and the CPU find at one address after the CPU has changed its own page table, and
 * what memory that is registered for reading refuses.  Prints one line a fact, so that the
 * simulated GPU can be compared with a real one.
 *
 *   view_facts      ends with status 77 where no GPU answers
 */
#include "facts.cuh"

/* `count` huge pages at a multiple of their size, each of which begins with `value`. */
static volatile int *pages(size_t count, int value)
{
    size_t bytes = count * PAGE;
    char *p = (char *)mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);
    char *first = (char *)(((size_t)p + PAGE - 1) / PAGE * PAGE);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    if (first > p)
        munmap(p, (size_t)(first - p));
    munmap(first + bytes, (size_t)(p + PAGE - first));
    madvise(first, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += PAGE)
        *(volatile int *)(first + at) = value;
    return (volatile int *)first;
}

static volatile int *registered(size_t count, int value, unsigned flags)
{
    volatile int *p = pages(count, value);

    say("registered", cudaHostRegister((void *)p, count * PAGE, flags));
    return p;
}

static void rights(volatile int *p, int protection)
{
    if (mprotect((void *)p, PAGE, protection) != 0)
        perror("mprotect");
}

static void move(volatile int *from, volatile int *to)
{
    if (mremap((void *)from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) != (void *)to)
        perror("mremap");
}

static void protected_pages(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault);

    rights(p, PROT_NONE);
    kernel_reads("a kernel reads where the CPU may not", p);
    kernel_writes("a kernel writes there", p, 8);
    copy_reads("a copy reads there", p);
    copy_writes("a copy writes there", p, 9);
    kernel_reads("a kernel reads what the copy wrote", p);
    say("a set writes there", cudaMemset((void *)p, 1, 1));
    rights(p, PROT_READ);
    show("the CPU reads what the copy and the set wrote", *p);
    kernel_writes("a kernel writes where the CPU may only read", p, 10);
    show("the CPU reads what the kernel wrote", *p);
    say("unregistered", cudaHostUnregister((void *)p));
}

static void replaced_page(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault), *other = pages(1, 8);

    move(other, p);
    show("the CPU reads the page it put there", *p);
    kernel_reads("a kernel reads the old page", p);
    copy_reads("a copy reads the old page", p);
    copy_writes("a copy writes there", p, 9);
    show("the CPU reads after the copy", *p);
    kernel_reads("a kernel reads after the copy", p);
    memory_type("memory type", p);
    say("registered again", cudaHostRegister((void *)p, PAGE, cudaHostRegisterDefault));
    say("unregistered", cudaHostUnregister((void *)p));
    show("the CPU reads after that", *p);
    copy_reads("a copy reads after that", p);
}

static void page_aside(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault);
    volatile int *aside = pages(1, 0), *other = pages(1, 8);

    move(p, aside);
    move(other, p);
    *aside = 5;
    kernel_reads("a kernel reads what the CPU wrote aside", p);
    kernel_writes("a kernel writes", p, 6);
    show("the CPU reads that aside", *aside);
    show("the CPU reads its own page", *p);
    memory_type("memory type aside", aside);
    copy_reads("a copy reads aside", aside);
    copy_writes("a copy writes aside", aside, 11);
    kernel_reads("a kernel reads what the copy wrote aside", p);
    memcpy((void *)aside, (void *)p, PAGE);
    move(aside, p);
    kernel_reads("a kernel reads after the page is back", p);
    *p = 12;
    kernel_reads("a kernel reads what the CPU wrote then", p);
    say("unregistered", cudaHostUnregister((void *)p));
}

static void registered_aside(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault), *aside = pages(1, 0);

    move(p, aside);
    say("a moved page is registered where it is", cudaHostRegister((void *)aside, PAGE, 0));
    kernel_writes("a kernel writes at one address", p, 8);
    kernel_reads("a kernel reads at the other", aside);
    say("unregistered", cudaHostUnregister((void *)p));
    kernel_writes("a kernel writes aside", aside, 9);
    show("the CPU reads aside", *aside);
    say("unregistered aside", cudaHostUnregister((void *)aside));
    show("the CPU reads aside after that", *aside);
}

static void unmapped_pages(void)
{
    const size_t large = (size_t)1 << 30;
    /* Other mappings go here, so that nobody takes the unmapped pages. */
    void *room = mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int *p = registered(2, 7, cudaHostRegisterDefault);

    munmap(room, large);
    munmap((void *)p, 2 * PAGE);
    kernel_reads("a kernel reads what the CPU unmapped", p);
    kernel_writes("a kernel writes there", p, 8);
    copy_reads("a copy reads there", p);
    mmap((void *)p, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *p = 9;
    kernel_reads("a kernel reads where the CPU has a new page", p);
    say("unregistered", cudaHostUnregister((void *)p));
    copy_reads("a copy reads the new page", p);
}

static void discarded_page(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault);

    madvise((void *)p, PAGE, MADV_DONTNEED);
    show("the CPU reads what it discarded", *p);
    kernel_reads("a kernel reads what the CPU discarded", p);
    say("unregistered", cudaHostUnregister((void *)p));
}

static void memory_from_the_driver(void)
{
    volatile int *p = NULL;

    say("allocated", cudaHostAlloc((void **)&p, PAGE, cudaHostAllocDefault));
    *p = 7;
    rights(p, PROT_NONE);
    kernel_reads("a kernel reads driver's memory where the CPU may not", p);
    kernel_writes("a kernel writes there", p, 8);
    copy_reads("a copy reads there", p);
    rights(p, PROT_READ);
    show("the CPU reads it", *p);
    say("freed", cudaFreeHost((void *)p));
}

static void read_only(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterReadOnly);
    cudaStream_t stream;

    kernel_reads("a kernel reads read-only memory", p);
    *p = 8;
    kernel_reads("a kernel reads what the CPU wrote", p);
    copy_writes("a copy writes to read-only memory", p, 9);
    say("the context after that", cudaDeviceSynchronize());
    say("a set writes to it", cudaMemset((void *)p, 1, 4));
    cudaStreamCreate(&stream);
    say("an asynchronous copy writes to it",
        cudaMemcpyAsync((void *)p, out, copy_bytes, cudaMemcpyDeviceToHost, stream));
    say("its stream", cudaStreamSynchronize(stream));
    show("the CPU reads", *p);
    kernel_writes("a kernel writes to read-only memory", p, 10);
    say("the context after that", cudaDeviceSynchronize());
    show("the CPU reads then", *p);
}

static void rights_at_registration(void)
{
    volatile int *p = pages(3, 7);

    rights(p, PROT_READ);
    say("what the CPU may read, registered", cudaHostRegister((void *)p, 2 * PAGE, 0));
    say("for reading", cudaHostRegister((void *)p, 2 * PAGE, cudaHostRegisterReadOnly));
    kernel_reads("a kernel reads it", p);
    rights(p, PROT_READ | PROT_WRITE);
    *p = 8;
    kernel_reads("a kernel reads what the CPU wrote then", p);
    say("unregistered", cudaHostUnregister((void *)p));
    rights(p + WORDS, PROT_NONE);
    say("what the CPU may not touch, registered", cudaHostRegister((void *)p, 2 * PAGE, 0));
    say("for reading only", cudaHostRegister((void *)p, 2 * PAGE, cudaHostRegisterReadOnly));
    munmap((void *)(p + WORDS), PAGE);
    say("a range with a hole, registered", cudaHostRegister((void *)p, 3 * PAGE, 0));
}

static void pageable_to_read(void)
{
    volatile int *p = pages(1, 7);

    rights(p, PROT_READ);
    copy_reads("a copy reads pageable memory that the CPU may read", p);
    rights(p, PROT_NONE);
    copy_reads("a copy reads pageable memory that the CPU may not touch", p);
    say("the context then", cudaDeviceSynchronize());
}

static void pageable_to_write(void)
{
    volatile int *p = pages(1, 7);

    rights(p, PROT_READ);
    copy_writes("a copy writes to pageable memory that the CPU may read", p, 8);
    say("the context then", cudaDeviceSynchronize());
}

/* A child's view 50 ms after the fork, while the parent has written. */
static void child_reads(volatile int *p, volatile int *aside, volatile int *driver)
{
    usleep(50000);
    show("a child reads registered memory", p[WORDS]);
    show("a child reads a registered page aside", *aside);
    show("a child reads the driver's memory", *driver);
    p[WORDS] = *aside = *driver = 1;
    show("a child reads what it wrote", p[WORDS] + *aside + *driver);
}

static void forked_child(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault), *aside = pages(1, 0), *driver;
    pid_t child;

    say("allocated", cudaHostAlloc((void **)&driver, PAGE, cudaHostAllocDefault));
    *driver = 9;
    move(p, aside);
    child = fork();
    if (child == 0) {
        child_reads(p, aside, driver);
        _exit(0);
    }
    p[WORDS] = *aside = 70;
    waitpid(child, NULL, 0);
    show("the parent reads registered memory", p[WORDS]);
    kernel_reads("a kernel of the parent's reads it", p + WORDS);
    kernel_reads("a kernel of the parent's reads the page aside", p);
}

static void graph_launch(cudaStream_t stream)
{
    int value = -1;
    cudaError_t error = cudaStreamSynchronize(stream);

    cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess)
        say("a graph reads", error);
    else
        show("a graph reads", value);
}

static void graphs(void)
{
    volatile int *p = registered(2, 7, cudaHostRegisterDefault), *other = pages(1, 8);
    cudaStream_t stream;
    cudaGraph_t copies, kernels;
    cudaGraphExec_t exec[2];

    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    cudaMemcpyAsync(out, (void *)p, copy_bytes, cudaMemcpyHostToDevice, stream);
    say("a copy captured", cudaStreamEndCapture(stream, &copies));
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    load_number<<<1, 1, 0, stream>>>((const int *)p, out);
    say("a kernel captured", cudaStreamEndCapture(stream, &kernels));
    say("instantiated", cudaGraphInstantiate(&exec[0], copies, 0));
    say("instantiated", cudaGraphInstantiate(&exec[1], kernels, 0));
    move(other, p);
    for (int i = 0; i < 2; i++) {
        cudaMemset(out, 0, sizeof(int));
        cudaDeviceSynchronize(); /* short copies are made otherwise behind other work */
        cudaGraphLaunch(exec[i], stream);
        graph_launch(stream);
    }
}

static const struct group groups[] = {
    {"protected pages", protected_pages, true},
    {"replaced page", replaced_page, true},
    {"page aside", page_aside, true},
    {"registered aside", registered_aside, false},
    {"unmapped pages", unmapped_pages, true},
    {"discarded page", discarded_page, false},
    {"memory from the driver", memory_from_the_driver, true},
    {"read-only", read_only, true},
    {"rights at registration", rights_at_registration, false},
    {"pageable memory to read", pageable_to_read, true},
    {"pageable memory to write", pageable_to_write, true},
    {"forked child", forked_child, false},
    {"graphs", graphs, true},
};

int main(void)
{
    return run_groups("view_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
