/* SPDX-License-Identifier: MIT */
/* Host blocks that are registered before their copy, and what may happen to them until then. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "descriptors.h"
#include "shared_scene.h"

static unsigned calls(const char *name)
{
    return (unsigned)sim_calls(name);
}

static void told(const char *when)
{
    TELL("%s: %u registered, %u ended\n", when, calls("cuMemHostRegister_v2"),
         calls("cuMemHostUnregister"));
}

/* Only libzc registers anything here; a bare run waits for nothing. */
static void wait_for(unsigned registered)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    for (int i = 0; i < 2000 && getenv("ZC_POLICY") && calls("cuMemHostRegister_v2") < registered;
         i++)
        nanosleep(&moment, NULL);
    nanosleep(&moment, NULL);
}

static unsigned char *painted(unsigned seed, unsigned registered)
{
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, seed);
    wait_for(registered);
    return h;
}

static void copied(CUdeviceptr d, const unsigned char *h, unsigned seed)
{
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    told("copied");
    EXPECT(sees(d, 0, SIZE, seed));
}

/* The driver's answers about a device block. */
static void asked(CUdeviceptr d)
{
    unsigned type = 0, mapped = 0;
    size_t bytes = 0;
    CUdeviceptr base = 0, to_device = 0;
    void *host = NULL, *pointer = NULL;
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
    SHOW(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, d));
    SHOW(cuPointerGetAttribute(&to_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, d));
    SHOW(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, d));
    SHOW(cuMemGetAddressRange(&base, &bytes, d + UNIT));
    SHOW(cuMemHostGetDevicePointer(&to_device, (void *)d, 0));
    printf("type %u, mapped %u, %d %d %zu\n", type, mapped, base == d, host == pointer, bytes);
}

/* The device block comes after the fill, and before it; then once more, in memory from the pool. */
static void filled_first(void)
{
    struct pair p = {painted(1, 1), 0};
    p.d = device_block(SIZE);
    asked(p.d);
    copied(p.d, p.h, 1);
    p.h[UNIT] ^= 1;
    EXPECT(sees(p.d, 0, SIZE, 1));
    give_back(p);
    told("freed");
}

static void asked_first(void)
{
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    wait_for(1);
    paint(p.h, SIZE, 2);
    copied(p.d, p.h, 2);
    give_back(p);
}

/* Freed and asked for again: the memory is still registered. */
static void pooled(void)
{
    unsigned char *h = painted(1, 1);
    free(h);
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 2);
    copied(p.d, p.h, 2);
    give_back(p);
}

/* Kernels may write what nothing was copied into. */
static void launched_between(void)
{
    struct pair p = new_pair(SIZE), result = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    wait_for(2);
    gpu_paint(result.d, 0, SIZE, 3);
    gpu_paint(p.d, 0, SIZE, 4);
    CHECK(cuMemcpyDtoH(result.h, result.d, SIZE));
    told("launched");
    EXPECT(shows(result.h, SIZE, 3) && sees(p.d, 0, SIZE, 4));
    copied(p.d, p.h, 1);
    EXPECT(sees(result.d, 0, SIZE, 3));
    give_back(p);
    give_back(result);
}

/* Each device block gets the other's host block; and one is set, and read, before its copy. */
static void crossed(void)
{
    unsigned char *a = painted(1, 1), *b = painted(2, 2);
    CUdeviceptr c = device_block(SIZE), d = device_block(SIZE);
    CHECK(cuMemcpyHtoD(c, b, SIZE));
    CHECK(cuMemcpyHtoD(d, a, SIZE));
    EXPECT(sees(c, 0, SIZE, 2) && sees(d, 0, SIZE, 1));
    told("crossed");
    CHECK(cuMemFree(c));
    CHECK(cuMemFree(d));
    free(b);
    unsigned char *e = painted(3, 0), seen[2] = {0};
    c = device_block(SIZE);
    CHECK(cuMemsetD8(c, 5, SIZE));
    CHECK(cuMemcpyDtoH(seen, c + SIZE - 2, 2));
    EXPECT(seen[0] == 5 && seen[1] == 5);
    CHECK(cuMemcpyHtoD(c, e, SIZE));
    EXPECT(sees(c, 0, SIZE, 3));
    CHECK(cuMemFree(c));
    free(a);
    free(e);
}

/* The program takes its pages, a child has them, their context goes: before the device block is
 * there, and after that. */
static void changed(unsigned char *h, int how)
{
    switch (how) {
    case 0:
        EXPECT(madvise(h + UNIT, UNIT, MADV_DONTNEED) == 0);
        break;
    case 1:
        EXPECT(mmap(h + UNIT, UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) == h + UNIT);
        break;
    default: {
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            memset(h + UNIT, 1, UNIT);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        memset(h + UNIT, 0, UNIT);
    }
    }
}

static void changed_pages(void)
{
    for (int how = 0; how < 6; how++) {
        bool early = how < 3;
        void *pages;
        unsigned before = calls("cuMemHostRegister_v2");
        EXPECT(posix_memalign(&pages, 4096, SIZE) == 0);
        unsigned char *h = pages;
        paint(h, SIZE, 1);
        wait_for(before + 1);
        CUdeviceptr d = early ? 0 : device_block(SIZE);
        changed(h, how % 3);
        if (early)
            d = device_block(SIZE);
        CHECK(cuMemcpyHtoD(d, h, SIZE));
        memset(h, 7, SIZE);
        unsigned char *seen =
            mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(cuMemcpyDtoH(seen, d, SIZE));
        EXPECT(shows_part(seen, 0, UNIT, 1) && shows_part(seen, 2 * UNIT, SIZE - 2 * UNIT, 1));
        for (size_t i = UNIT; i < 2 * UNIT; i++)
            EXPECT(seen[i] == 0);
        munmap(seen, SIZE);
        CHECK(cuMemFree(d));
        free(h);
    }
}

static void context_lost(void)
{
    unsigned char *h = painted(1, 1), *g = painted(2, 2);
    device_block(SIZE);
    CHECK(cuDevicePrimaryCtxReset(0));
    start_gpu(0);
    CUdeviceptr c = device_block(SIZE), d = device_block(SIZE);
    copied(c, h, 1);
    copied(d, g, 2);
    CHECK(cuMemFree(c));
    CHECK(cuMemFree(d));
    free(h);
    free(g);
}

/* A capture in global mode forbids registering. */
static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, 1);
    usleep(20000);
    told("capturing");
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    CUdeviceptr d = device_block(SIZE);
    copied(d, h, 1);
    CHECK(cuMemFree(d));
    free(h);
}

/* Blocks that the pool can't hold go in a call that waits anyway. */
static void too_much(void)
{
    CUdeviceptr other;
    unsigned char *h = painted(1, 1);
    CHECK(cuMemAlloc(&other, MIB));
    free(h);
    CHECK(cuMemFree(other));
    told("trimmed");
}

/* The first block of a site is registered, whatever it is for.  Where that was in vain, the next
 * one is not, though one that is asked for after it is; until a copy into a device block has made
 * one worth it.  Each size is another one, so that no memory comes from the pool. */
static void in_vain(void)
{
    CUdeviceptr d = device_block(SIZE);
    CHECK(cuMemsetD8(d, 5, SIZE));
    for (unsigned turn = 0; turn < 3; turn++) {
        size_t size = (turn + 1) * UNIT;
        unsigned before = calls("cuMemHostRegister_v2");
        unsigned char *h = host_block(size), *other = turn == 1 ? host_block(5 * UNIT) : NULL;
        wait_for(before + 1);
        TELL("turn %u: %u registered\n", turn, calls("cuMemHostRegister_v2") - before);
        free(other);
        if (turn == 0) {
            CHECK(cuMemcpyDtoH(h, d, size));
            EXPECT(h[0] == 5 && h[size - 1] == 5);
        } else {
            CUdeviceptr same = device_block(size);
            paint(h, size, turn);
            CHECK(cuMemcpyHtoD(same, h, size));
            TELL("copied: %u registered\n", calls("cuMemHostRegister_v2") - before);
            EXPECT(sees(same, 0, size, turn));
            CHECK(cuMemFree(same));
        }
        free(h);
    }
    CHECK(cuMemFree(d));
}

/* Freed before the thread comes to them. */
static void freed_at_once(void)
{
    for (unsigned i = 0; i < 200; i++)
        free(host_block((i % 40 + 1) * MIB));
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    copied(p.d, p.h, 1);
    give_back(p);
}

static void *rest(void *unused)
{
    pause();
    return unused;
}

/* The kernel takes 5 to 20 ms to enlarge a table that threads share. */
static void with_threads(void)
{
    pthread_t thread;
    free(host_block(SIZE / 16)); /* Smaller than any that is shared. */
    EXPECT(pthread_create(&thread, NULL, rest, NULL) == 0);
    size_t before = descriptors();
    unsigned char *h = host_block(SIZE);
    EXPECT(before);
    printf("the table of descriptors has grown: %s\n", descriptors() == before ? "no" : "yes");
    free(h);
    EXPECT(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
}

static void exiting(void)
{
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, 1);
    EXPECT(shows(h, SIZE, 1));
    exit(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"filled_first", filled_first},
        {"asked_first", asked_first},
        {"pooled", pooled},
        {"launched_between", launched_between},
        {"crossed", crossed},
        {"changed_pages", changed_pages},
        {"context_lost", context_lost},
        {"captured", captured},
        {"too_much", too_much},
        {"in_vain", in_vain},
        {"freed_at_once", freed_at_once},
        {"with_threads", with_threads},
        {"exiting", exiting},
    };
    return RUN_SCENES(all, argc, argv);
}
