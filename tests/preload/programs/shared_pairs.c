/* SPDX-License-Identifier: MIT */
/* Host blocks, device blocks and copies between them, in the orders in which programs have them:
 * what the program computes must not depend on whether two blocks are one. */
#include <pthread.h>

#include "shared_scene.h"

/* Two inputs that kernels read, one output that they write. */
static void vecadd(void)
{
    struct pair a = new_pair(SIZE), b = new_pair(SIZE), c = new_pair(SIZE);
    paint(a.h, SIZE, 1);
    paint(b.h, SIZE, 2);
    CHECK(cuMemcpyHtoD(a.d, a.h, SIZE));
    CHECK(cuMemcpyHtoD(b.d, b.h, SIZE));
    EXPECT(gpu_sees(a.d, 0, SIZE, 1) && gpu_sees(b.d, 0, SIZE, 2));
    gpu_paint(c.d, 0, SIZE, 3);
    CHECK(cuMemcpyDtoH(c.h, c.d, SIZE));
    EXPECT(shows(c.h, SIZE, 3));
    EXPECT(shows(a.h, SIZE, 1) && shows(b.h, SIZE, 2));
    TELL("device memory: %zu blocks, %zu mappings\n", sim_leaks(SIM_LEAK_DEVICE),
         sim_leaks(SIM_LEAK_MAPPING));
    CHECK(cuMemFree(a.d));
    CHECK(cuMemFree(b.d));
    CHECK(cuMemFree(c.d));
    EXPECT(shows(c.h, SIZE, 3));
    free(a.h);
    free(b.h);
    free(c.h);
}

/* An input that stays in h is read and written again, and copied again. */
static void kept(void)
{
    struct pair p = filled_pair(SIZE, 1);
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    for (size_t at = UNIT; at < SIZE; at += UNIT) { /* Two pages of three. */
        paint_part(p.h, at, UNIT, 2);
        EXPECT(shows_part(p.h, at, UNIT, 2) && sees(p.d, 0, SIZE, 1));
    }
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(shows(p.h, UNIT, 1) && shows_part(p.h, UNIT, SIZE - UNIT, 2));
    EXPECT(sees(p.d, 0, UNIT, 1) && sees(p.d, UNIT, SIZE - UNIT, 2));
    give_back(p);
}

/* Writes of the CPU to h are thrown away, and d is copied back. */
static void copied_back(void)
{
    struct pair p = filled_pair(SIZE, 1);
    paint(p.h, SIZE, 2);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    EXPECT(shows(p.h, SIZE, 1));
    p.h[5] = 7;
    EXPECT(sees(p.d, 0, SIZE, 1) && p.h[5] == 7);
    give_back(p);
}

/* A device block for each round of the same host block. */
static void again_and_again(void)
{
    unsigned char *h = host_block(SIZE);
    for (unsigned round = 0; round < 4; round++) {
        CUdeviceptr d = device_block(SIZE);
        paint(h, SIZE, round);
        CHECK(cuMemcpyHtoD(d, h, SIZE));
        EXPECT(sees(d, 0, SIZE, round));
        CHECK(cuMemFree(d));
        EXPECT(shows(h, SIZE, round));
    }
    free(h);
}

/* Two device blocks of one host block. */
static void twice(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr other = device_block(SIZE);
    CHECK(cuMemcpyHtoD(other, p.h, SIZE));
    paint(p.h, SIZE, 2);
    EXPECT(sees(p.d, 0, SIZE, 1) && sees(other, 0, SIZE, 1));
    CHECK(cuMemcpyHtoD(other, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1) && sees(other, 0, SIZE, 2));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 2));
    CHECK(cuMemFree(other));
    give_back(p);
}

/* Two host blocks of one device block. */
static void another(void)
{
    struct pair p = filled_pair(SIZE, 1);
    unsigned char *other = host_block(SIZE);
    paint(other, SIZE, 2);
    CHECK(cuMemcpyHtoD(p.d, other, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 2) && shows(p.h, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1) && shows(other, SIZE, 2));
    free(other);
    give_back(p);
}

/* A block that is copied in pieces, and a part of a larger host block. */
static void pieces(void)
{
    struct pair p = new_pair(SIZE);
    unsigned char *large = host_block(3 * SIZE);
    CUdeviceptr d = device_block(SIZE);
    paint(p.h, SIZE, 1);
    for (size_t at = 0; at < SIZE; at += UNIT / 2)
        CHECK(cuMemcpyHtoD(p.d + at, p.h + at, UNIT / 2));
    EXPECT(sees(p.d, 0, SIZE, 1));
    paint(large, 3 * SIZE, 2);
    CHECK(cuMemcpyHtoD(d, large, SIZE));
    EXPECT(sees(d, 0, SIZE, 2));
    CHECK(cuMemFree(d));
    free(large);
    give_back(p);
}

/* Rows at a pitch, from a dense host block; and at a pitch that leaves no room between them. */
static void pitched(void)
{
    enum { ROWS = 1500, DENSE = 4000, FULL = 4096 };
    static const size_t widths[] = {DENSE, FULL};
    for (int i = 0; i < 2; i++) {
        size_t pitch, width = widths[i];
        CUdeviceptr d;
        unsigned char *h = host_block(width * ROWS);
        CHECK(cuMemAllocPitch(&d, &pitch, width, ROWS, 16));
        paint(h, width * ROWS, 1);
        CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                              .srcHost = h,
                              .srcPitch = width,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = d,
                              .dstPitch = pitch,
                              .WidthInBytes = width,
                              .Height = ROWS};
        CHECK(cuMemcpy2D(&rows));
        memset(h, 0, width * ROWS);
        rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.dstMemoryType = CU_MEMORYTYPE_HOST;
        rows.srcDevice = d;
        rows.srcPitch = pitch;
        rows.dstHost = h;
        rows.dstPitch = width;
        CHECK(cuMemcpy2D(&rows));
        EXPECT(shows(h, width * ROWS, 1));
        CHECK(cuMemFree(d));
        free(h);
    }
}

/* A host block that is older than CUDA. */
static unsigned char *early;

static void older(void)
{
    struct pair p = {early, device_block(SIZE)};
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1) && shows(p.h, SIZE, 1));
    give_back(p);
}

/* cudaMalloc comes first, and the host block later. */
static void device_first(void)
{
    CUdeviceptr d = device_block(SIZE);
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    paint(h, SIZE, 2);
    EXPECT(sees(d, 0, SIZE, 1));
    put(d, SIZE, 3);
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    EXPECT(shows(h, SIZE, 3));
    CHECK(cuMemFree(d));
    free(h);
}

/* The host block comes when the device block has content already. */
static void device_written_first(void)
{
    CUdeviceptr d = device_block(SIZE);
    put(d, SIZE, 1);
    CHECK(cuCtxSynchronize());
    unsigned char *h = calloc(1, SIZE);
    EXPECT(all_are(h, 0, SIZE));
    EXPECT(sees(d, 0, SIZE, 1));
    paint(h, SIZE, 2);
    EXPECT(copy_sees(d, 0, SIZE, 1) && shows(h, SIZE, 2));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    EXPECT(sees(d, 0, SIZE, 2));
    CHECK(cuMemFree(d));
    EXPECT(shows(h, SIZE, 2));
    free(h);
}

/* Memory of a block that was there before is zero for calloc, in a pair too. */
/* A kernel fills it, and the copy brings most of it. */
static void kernel_first(void)
{
    struct pair p = new_pair(SIZE);
    gpu_paint(p.d, 0, SIZE, 1);
    paint(p.h, SIZE, 2);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE - UNIT));
    EXPECT(sees(p.d, 0, SIZE - UNIT, 2) && sees(p.d, SIZE - UNIT, UNIT, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 2));
    give_back(p);
}

static void zeroed(void)
{
    unsigned char *old = host_block(SIZE);
    memset(old, 77, SIZE);
    free(old);
    CUdeviceptr d = device_block(SIZE);
    unsigned char *h = calloc(SIZE / 4, 4);
    EXPECT(all_are(h, 0, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    put(d, SIZE, 5);
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    EXPECT(shows(h, SIZE, 5));
    free(h);
    h = calloc(1, SIZE);
    EXPECT(all_are(h, 0, SIZE));
    EXPECT(copy_sees(d, 0, SIZE, 5));
    CHECK(cuMemFree(d));
    free(h);
}

/* The device block goes first, and the host block is the program's as before. */
static void device_freed_first(void)
{
    struct pair p = new_pair(SIZE), q;
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    p.h[UNIT] ^= 1; /* One page of its own. */
    CHECK(cuMemFree(p.d));
    p.h[UNIT] ^= 1;
    EXPECT(shows(p.h, SIZE, 1));
    paint(p.h, SIZE, 2);
    q.d = device_block(SIZE); /* Joins the same host block. */
    CHECK(cuMemcpyHtoD(q.d, p.h, SIZE));
    EXPECT(sees(q.d, 0, SIZE, 2));
    put(q.d, SIZE, 3);
    CHECK(cuMemcpyDtoH(p.h, q.d, SIZE));
    CHECK(cuMemFree(q.d));
    EXPECT(shows(p.h, SIZE, 3));
    free(p.h);
}

/* The host block goes first, and the device block keeps its content. */
static void host_freed_first(void)
{
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    p.h[0] ^= 255; /* Apart. */
    free(p.h);
    unsigned char *other = host_block(SIZE); /* Must not be given the device block's memory. */
    memset(other, 9, SIZE);
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, other, SIZE));
    EXPECT(all_are(other, 9, SIZE));
    put(p.d, SIZE, 2);
    CHECK(cuMemcpyDtoH(other, p.d, SIZE));
    EXPECT(shows(other, SIZE, 2));
    CHECK(cuMemFree(p.d));
    free(other);
}

/* realloc of the host block while the device block lives: content of both is kept. */
static void resized(void)
{
    static const size_t sizes[] = {SIZE - 100, SIZE / 2, SIZE, 3 * SIZE, 100, SIZE};
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    size_t kept = SIZE;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        p.h = realloc(p.h, sizes[i]);
        kept = sizes[i] < kept ? sizes[i] : kept;
        EXPECT(shows(p.h, kept, 1));
        memset(p.h + kept, 3, sizes[i] - kept);
        EXPECT(sees(p.d, 0, SIZE, 1));
    }
    paint(p.h, SIZE, 2);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 2));
    CHECK(cuMemFree(p.d));
    EXPECT(shows(p.h, SIZE, 2));
    free(p.h);
}

/* The same, once both sides have memory of their own. */
static void resized_apart(void)
{
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    put(p.d, SIZE, 2);
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    p.h = realloc(p.h, 2 * SIZE);
    EXPECT(shows(p.h, SIZE, 2));
    paint(p.h, 2 * SIZE, 3);
    EXPECT(sees(p.d, 0, SIZE, 2));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 3));
    free(p.h);
    CHECK(cuMemFree(p.d));
}

#define MANY 6

/* Blocks of one size, asked for in two orders and freed in a third. */
static void many(void)
{
    unsigned char *h[MANY];
    CUdeviceptr d[MANY];
    for (int i = 0; i < MANY; i++)
        h[i] = host_block(SIZE);
    for (int i = MANY - 1; i >= 0; i--)
        d[i] = device_block(SIZE);
    for (unsigned i = 0; i < MANY; i++) {
        paint(h[i], SIZE, i);
        CHECK(cuMemcpyHtoD(d[i], h[i], SIZE));
    }
    for (unsigned i = 0; i < MANY; i++)
        EXPECT(sees(d[i], 0, SIZE, i));
    for (unsigned i = 0; i < MANY; i++)
        put(d[i], SIZE, 20 + i);
    for (unsigned i = 0; i < MANY; i++)
        CHECK(cuMemcpyDtoH(h[i], d[i], SIZE));
    for (unsigned i = 0; i < MANY; i++) {
        unsigned k = (i * 5 + 3) % MANY;
        EXPECT(shows(h[k], SIZE, 20 + k));
        if (i % 2) {
            free(h[k]);
            EXPECT(sees(d[k], 0, SIZE, 20 + k));
            CHECK(cuMemFree(d[k]));
        } else {
            CHECK(cuMemFree(d[k]));
            EXPECT(shows(h[k], SIZE, 20 + k));
            free(h[k]);
        }
    }
}

/* Kernels write d; the result goes to another buffer, and the input is used again. */
static void result_elsewhere(void)
{
    struct pair p = new_pair(SIZE);
    unsigned char *other = malloc(SIZE / 2);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemsetD8(p.d, 3, SIZE / 2));
    CHECK(cuMemcpyDtoH(other, p.d, SIZE / 2));
    EXPECT(all_are(other, 3, SIZE / 2));
    EXPECT(shows(p.h, SIZE, 1));
    CHECK(cuMemFree(p.d));
    EXPECT(shows(p.h, SIZE, 1));
    free(p.h);
    free(other);
}

/* Sizes that are not the same, as programs that round up have them. */
static void rounded(void)
{
    unsigned char *h = host_block(SIZE - 300);
    CUdeviceptr d = device_block(SIZE), e;
    unsigned char *k = host_block(SIZE - UNIT);
    e = device_block(SIZE);
    paint(h, SIZE - 300, 1);
    paint(k, SIZE - UNIT, 2);
    CHECK(cuMemcpyHtoD(d, h, SIZE - 300));
    CHECK(cuMemcpyHtoD(e, k, SIZE - UNIT));
    CHECK(cuMemsetD8(d + SIZE - 300, 7, 300));
    EXPECT(sees(d, 0, SIZE - 300, 1) && sees(e, 0, SIZE - UNIT, 2));
    put(d, SIZE, 3);
    CHECK(cuMemcpyDtoH(h, d, SIZE - 300));
    EXPECT(shows(h, SIZE - 300, 3));
    EXPECT(copy_sees(d, 0, SIZE, 3));
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    EXPECT(shows(h, SIZE - 300, 3) && shows(k, SIZE - UNIT, 2));
    free(h);
    free(k);
}

/* A program pads its device block, and the host block fills its pages to the last byte. */
static void padded(void)
{
    enum { PAD = 112 };
    unsigned char *h = host_block(SIZE), *behind = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE + PAD);
    paint(h, SIZE, 1);
    paint(behind, SIZE, 2);
    CHECK(cuMemcpyHtoD(d + PAD, h, SIZE));
    CHECK(cuMemsetD8(d, 0, PAD));
    put(d, SIZE + PAD, 3);
    EXPECT(sees(d, 0, SIZE + PAD, 3));
    EXPECT(shows(h, SIZE, 1) && shows(behind, SIZE, 2));
    CHECK(cuMemFree(d));
    free(h);
    free(behind);
}

/* Ten copies of an unchanged block have nothing to do. */
static void unchanged(void)
{
    struct pair p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    for (int i = 0; i < 10; i++)
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemFree(p.d));
    free(p.h);
}

/* The worst case: everything is written again before each copy. */
static void rewritten(void)
{
    struct pair p = new_pair(SIZE);
    for (unsigned i = 0; i < 20; i++) {
        paint(p.h, SIZE, i);
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        EXPECT(sees(p.d, 0, SIZE, i));
    }
    CHECK(cuMemFree(p.d));
    EXPECT(shows(p.h, SIZE, 19));
    free(p.h);
}

static CUcontext context;

static void *make_host(void *out)
{
    struct pair *p = out;
    p->h = host_block(SIZE);
    return NULL;
}

static void *make_device(void *out)
{
    struct pair *p = out;
    CHECK(cuCtxSetCurrent(context));
    p->d = device_block(SIZE);
    return NULL;
}

static void in_a_thread(void *(*work)(void *), struct pair *p)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, p));
    CHECK(pthread_join(thread, NULL));
}

/* One side is asked for by a thread that has ended, the other by this one. */
static void by_two_threads(void)
{
    CHECK(cuCtxGetCurrent(&context));
    for (unsigned device_first = 0; device_first < 2; device_first++) {
        struct pair p = {NULL, 0};
        in_a_thread(device_first ? make_device : make_host, &p);
        (device_first ? make_host : make_device)(&p);
        paint(p.h, SIZE, 1);
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        paint(p.h, SIZE, 2);
        EXPECT(sees(p.d, 0, SIZE, 1));
        CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
        EXPECT(shows(p.h, SIZE, 1));
        CHECK(cuMemFree(p.d));
        free(p.h);
    }
}

/* Host blocks whose pages the program registered with those of another block. */
static void registered_beside(void)
{
    struct pair p = filled_pair(SIZE, 1);
    unsigned char *h[4];
    for (int i = 0; i < 4; i++)
        h[i] = malloc(MIB);
    CHECK(cuMemHostRegister(h[0], MIB, 0));
    for (int i = 0; i < 4; i++) {
        CHECK(cuMemcpyDtoH(h[i], p.d, MIB));
        EXPECT(shows(h[i], MIB, 1));
        paint(h[i], MIB, 2);
        CHECK(cuMemcpyHtoD(p.d, h[i], MIB));
        EXPECT(copy_sees(p.d, 0, MIB, 2) && shows(p.h, SIZE, 1));
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    }
    CHECK(cuMemHostUnregister(h[0]));
    for (int i = 0; i < 4; i++)
        free(h[i]);
    give_back(p);
}

/* The first device block has no memory when the host block is copied to it. */
static void copied_in_vain(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr empty = device_block(SIZE);
    paint(h, SIZE, 1);
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    EXPECT(cuMemcpyHtoD(empty, h, SIZE) == CUDA_ERROR_OUT_OF_MEMORY);
    sim_fail(NULL, CUDA_SUCCESS, 0);
    CUdeviceptr d = device_block(SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    EXPECT(sees(d, 0, SIZE, 1));
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(empty));
    free(h);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"vecadd", vecadd},
        {"kept", kept},
        {"copied_back", copied_back},
        {"again_and_again", again_and_again},
        {"twice", twice},
        {"another", another},
        {"pieces", pieces},
        {"pitched", pitched},
        {"older", older},
        {"device_first", device_first},
        {"device_written_first", device_written_first},
        {"kernel_first", kernel_first},
        {"zeroed", zeroed},
        {"device_freed_first", device_freed_first},
        {"host_freed_first", host_freed_first},
        {"resized", resized},
        {"resized_apart", resized_apart},
        {"many", many},
        {"result_elsewhere", result_elsewhere},
        {"rounded", rounded},
        {"padded", padded},
        {"unchanged", unchanged},
        {"rewritten", rewritten},
        {"registered_beside", registered_beside},
        {"by_two_threads", by_two_threads},
        {"copied_in_vain", copied_in_vain},
    };
    if (argc > 1 && !strcmp(argv[1], "older"))
        paint(early = host_block(SIZE), SIZE, 1);
    return RUN_SCENES(all, argc, argv);
}
