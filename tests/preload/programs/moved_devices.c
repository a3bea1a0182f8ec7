/* SPDX-License-Identifier: MIT */
/* Kernels of two devices use blocks that move, each those of its own; prints where these are. */
#include <pthread.h>
#include <sys/wait.h>

#include "include/zc.h"
#include "program.h"

#define BLOCK ((size_t)4 << 20)
#define BLOCKS 4
#define GPUS 2

/* One device, its blocks, and what each of their bytes must be. */
static struct gpu {
    int device;
    CUcontext context;
    CUfunction add, look;
    CUdeviceptr block[BLOCKS];
    unsigned char value[BLOCKS];
} gpus[GPUS];

static atomic_uint wrong, afar; /* Looks that saw other bytes; and looks over the link. */

static bool hosted(CUdeviceptr p)
{
    struct zc_memory m = {.device_bytes = -1};
    return zc_query((const void *)p, &m) && m.device_bytes == 0;
}

/* A kernel add(block): adds 1 to each byte, and takes a while in host memory. */
static int add_grid(void *const *args, const struct sim_launch *launch)
{
    CUdeviceptr at = *(CUdeviceptr *)args[0];
    unsigned char *p = sim_gpu_pointer_write(at);
    (void)launch;
    if (!p || !sim_gpu_pointer_write(at + BLOCK - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < BLOCK; i++)
        p[i]++;
    sim_kernel_takes(hosted(at) ? 1000000 : 5); /* So that moves pay however slow they are. */
    return 0;
}

/* A kernel look(block, what each of its bytes must be). */
static int look_grid(void *const *args, const struct sim_launch *launch)
{
    CUdeviceptr at = *(CUdeviceptr *)args[0];
    const unsigned char *p = sim_gpu_pointer(at);
    (void)launch;
    if (!p || !sim_gpu_pointer(at + BLOCK - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    wrong += !all_are(p, *(const unsigned char *)args[1], BLOCK);
    afar += hosted(at);
    sim_kernel_takes(hosted(at) ? 1000000 : 5);
    return 0;
}

static void add_to(struct gpu *by, struct gpu *g, unsigned i)
{
    void *args[] = {&g->block[i]};
    CHECK(cuCtxSetCurrent(by->context));
    CHECK(cuLaunchKernel(by->add, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    g->value[i]++;
}

static void look_at(struct gpu *by, struct gpu *g, unsigned i)
{
    void *args[] = {&g->block[i], &g->value[i]};
    CHECK(cuCtxSetCurrent(by->context));
    CHECK(cuLaunchKernel(by->look, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
}

static void sweep(struct gpu *g, unsigned from, unsigned to, unsigned times)
{
    for (unsigned t = 0; t < times; t++)
        for (unsigned i = from; i < to; i++)
            add_to(g, g, i);
}

static void begin(struct gpu *g)
{
    static const size_t sizes[] = {sizeof(CUdeviceptr), 1};
    g->device = (int)(g - gpus);
    g->context = start_gpu(g->device);
    g->add = load_kernel("add", add_grid, 1, sizes);
    g->look = load_kernel("look", look_grid, 2, sizes);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(cuMemAlloc(&g->block[i], BLOCK));
        g->value[i] = (unsigned char)(40 * i + 7 * g->device);
        CHECK(cuMemsetD8(g->block[i], g->value[i], BLOCK));
    }
    sweep(g, 0, 2, 2);
}

/* "0 DH": of device 0 the first block is there, the second one in host memory. */
static void show(const char *when)
{
    printf("%s:", when);
    for (struct gpu *g = gpus; g < gpus + GPUS; g++) {
        printf(" %d ", g->device);
        for (unsigned i = 0; i < BLOCKS && g->context; i++)
            putchar(hosted(g->block[i]) ? 'H' : 'D');
    }
    putchar('\n');
}

static void check_blocks(struct gpu *g)
{
    unsigned char *out = malloc(BLOCK);
    CHECK(cuCtxSetCurrent(g->context));
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(out, 255, BLOCK);
        CHECK(cuMemcpyDtoH(out, g->block[i], BLOCK));
        EXPECT(all_are(out, g->value[i], BLOCK));
    }
    free(out);
}

static void finish(void)
{
    for (struct gpu *g = gpus; g < gpus + GPUS; g++) {
        check_blocks(g);
        for (unsigned i = 0; i < BLOCKS; i++)
            CHECK(cuMemFree(g->block[i]));
        end_gpu(g->device);
    }
    printf("wrong %u, leaks %zu\n", wrong, sim_leaks(SIM_LEAK_CLASSES));
}

static void begin_all(void)
{
    for (struct gpu *g = gpus; g < gpus + GPUS; g++)
        begin(g);
}

static void settle(void)
{
    for (struct gpu *g = gpus; g < gpus + GPUS; g++)
        CHECK((cuCtxSetCurrent(g->context), cuCtxSynchronize()));
}

/* One thread goes from device to device, whose phases differ. */
static void phases(void)
{
    unsigned long long before[GPUS];
    begin_all();
    show("made");
    for (int d = 0; d < GPUS; d++)
        before[d] = sim_link_bytes(d);
    for (unsigned t = 0; t < 4; t++) {
        sweep(&gpus[0], 2, 4, 1);
        sweep(&gpus[1], 0, 2, 1);
    }
    show("second, first");
    for (unsigned t = 0; t < 4; t++) {
        sweep(&gpus[1], 2, 4, 1);
        sweep(&gpus[0], 0, 2, 1);
    }
    show("first, second");
    for (int d = 0; d < GPUS; d++)
        printf("over the link of %d: %llu MiB\n", d, (sim_link_bytes(d) - before[d]) >> 20);
    finish();
}

static void *use_one(void *arg)
{
    struct gpu *g = arg;
    CUstream s;
    begin(g);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned t = 0; t < 20; t++) {
        sweep(g, 0, 2, 2);
        sweep(g, 2, 4, 2);
        CHECK(cuCtxSynchronize());
        CHECK(cuMemsetD8Async(g->block[t % BLOCKS], ++g->value[t % BLOCKS], BLOCK, s));
        CHECK(cuStreamSynchronize(s));
        check_blocks(g);
    }
    CHECK(cuStreamDestroy(s));
    return NULL;
}

/* Each device has a thread. */
static void threads(void)
{
    pthread_t thread[GPUS];
    for (int d = 0; d < GPUS; d++)
        EXPECT(!pthread_create(&thread[d], NULL, use_one, &gpus[d]));
    for (int d = 0; d < GPUS; d++)
        EXPECT(!pthread_join(thread[d], NULL));
    finish();
}

/* Each device has a process, none of which is the parent. */
static void processes(void)
{
    for (int d = 0; d < GPUS; d++)
        if (fork() == 0) {
            use_one(&gpus[d]);
            end_gpu(d);
            _exit(sim_leaks(SIM_LEAK_CLASSES) != 0);
        }
    for (int d = 0, status; d < GPUS; d++)
        EXPECT(wait(&status) > 0 && status == 0);
}

/* Kernels wait for the program on one device, and not on the other one. */
static void busy(void)
{
    struct gate gate;
    CUstream s;
    begin_all();
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    gate_close_by_kernel(&gate, s);
    sweep(&gpus[0], 2, 4, 3);
    show("one is busy");
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(gpus[1].context));
    CHECK(cuStreamDestroy(s));
    finish();
}

/* Blocks whose content the program brings, and which kernels only read. */
static void fetched(void)
{
    unsigned char *in = malloc(BLOCK);
    begin_all();
    for (struct gpu *g = gpus; g < gpus + GPUS; g++)
        for (unsigned i = 0; i < BLOCKS; i++) {
            memset(in, ++g->value[i], BLOCK);
            CHECK(cuCtxSetCurrent(g->context));
            CHECK(cuMemcpyHtoD(g->block[i], in, BLOCK));
        }
    for (unsigned t = 0; t < 8; t++)
        for (unsigned i = 0; i < BLOCKS; i++)
            for (struct gpu *g = gpus; g < gpus + GPUS; g++)
                look_at(g, g, i);
    /* Without peer access only copies reach another device. */
    for (unsigned i = 0; i < BLOCKS; i++) {
        settle();
        CHECK(cuMemcpyPeer(gpus[0].block[i], gpus[0].context, gpus[1].block[(i + 1) % BLOCKS],
                           gpus[1].context, BLOCK));
        gpus[0].value[i] = gpus[1].value[(i + 1) % BLOCKS];
        look_at(&gpus[0], &gpus[0], i);
        look_at(&gpus[1], &gpus[1], i);
    }
    settle();
    printf("looks over the link: %u,", afar);
    for (unsigned t = 0; t < 4; t++)
        for (unsigned i = 0; i < BLOCKS; i++)
            for (struct gpu *g = gpus; g < gpus + GPUS; g++)
                look_at(g, g, i);
    settle();
    printf(" %u\n", afar);
    free(in);
    finish();
}

enum way { AT_ONCE, IN_ORDER, BY_ADDRESS, AS_BOX, AS_BATCH, WAYS };
static const char *const ways[WAYS] = {"cuMemcpyPeer", "cuMemcpyPeerAsync", "cuMemcpyDtoDAsync",
                                       "cuMemcpy3DPeerAsync", "cuMemcpyBatchAsync"};

/* Copies a block of one device to one of the other, through a stream of device 1. */
static void copy_over(enum way way, struct gpu *to, struct gpu *from, unsigned i, CUstream s)
{
    CUdeviceptr *dst = &to->block[i], *src = &from->block[i];
    size_t bytes = BLOCK, first = 0;
    CUmemcpyAttributes order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    const CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .srcDevice = *src,
                                    .srcContext = from->context,
                                    .srcPitch = BLOCK,
                                    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .dstDevice = *dst,
                                    .dstContext = to->context,
                                    .dstPitch = BLOCK,
                                    .WidthInBytes = BLOCK,
                                    .Height = 1,
                                    .Depth = 1};
    if (way == AT_ONCE)
        CHECK(cuMemcpyPeer(*dst, to->context, *src, from->context, BLOCK));
    else if (way == IN_ORDER)
        CHECK(cuMemcpyPeerAsync(*dst, to->context, *src, from->context, BLOCK, s));
    else if (way == BY_ADDRESS)
        CHECK(cuMemcpyDtoDAsync(*dst, *src, BLOCK, s));
    else if (way == AS_BOX)
        CHECK(cuMemcpy3DPeerAsync(&box, s));
    else
        CHECK(cuMemcpyBatchAsync(dst, src, &bytes, 1, &order, &first, 1, s));
    to->value[i] = from->value[i];
}

/* Copies between devices of blocks in host memory, which then move as before. */
static void copied(void)
{
    CUstream s;
    begin_all();
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    for (enum way way = 0; way < WAYS; way++) {
        settle();
        copy_over(way, &gpus[way % GPUS], &gpus[(way + 1) % GPUS], 2, s);
        for (unsigned from = 2; from <= 2; from -= 2) {
            for (int d = 0; d < GPUS; d++) {
                settle();
                sweep(&gpus[d], from, from + 2, 3);
            }
            show(from ? ways[way] : "back");
        }
    }
    CHECK(cuStreamDestroy(s));
    finish();
}

static atomic_bool over;

static void *look_on(void *arg)
{
    (void)arg;
    while (!over) {
        for (unsigned i = 0; i < BLOCKS; i++)
            look_at(&gpus[0], &gpus[0], i);
        CHECK(cuCtxSynchronize());
        usleep(1000);
    }
    return NULL;
}

/* One thread copies blocks that another one's kernels read on their device meanwhile. */
static void copied_meanwhile(void)
{
    CUstream s;
    pthread_t thread;
    unsigned char *in = malloc(BLOCK);
    begin_all();
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    CHECK(cuCtxSetCurrent(gpus[0].context));
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(in, ++gpus[0].value[i], BLOCK);
        CHECK(cuMemcpyHtoD(gpus[0].block[i], in, BLOCK));
    }
    EXPECT(!pthread_create(&thread, NULL, look_on, NULL));
    for (unsigned t = 0; t < 60; t++) {
        CHECK(cuCtxSetCurrent(gpus[t / 4 % GPUS].context));
        copy_over(t % 3   ? IN_ORDER
                  : t % 2 ? AS_BOX
                          : BY_ADDRESS,
                  &gpus[1], &gpus[0], t % BLOCKS, s);
        CHECK(cuStreamSynchronize(s));
        if (t % 5 == 0)
            look_at(&gpus[1], &gpus[1], t % BLOCKS);
        CHECK(cuCtxSynchronize());
        usleep(1000);
    }
    over = true;
    EXPECT(!pthread_join(thread, NULL));
    CHECK(cuCtxSetCurrent(gpus[1].context));
    CHECK(cuStreamDestroy(s));
    free(in);
    finish();
}

/* Device 1 copies all blocks of device 0 but one once other work ends, and then has some again. */
static void copied_late(void)
{
    struct gate gate;
    CUstream s;
    begin_all();
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    settle();
    CHECK(cuCtxSetCurrent(gpus[1].context));
    gate_close_by_kernel(&gate, s);
    for (unsigned i = 0; i < 2; i++)
        copy_over(IN_ORDER, &gpus[1], &gpus[0], i, s);
    copy_over(IN_ORDER, &gpus[0], &gpus[1], 2, s);
    sweep(&gpus[0], 3, 4, 3);
    show("copies wait");
    gate_open(&gate);
    settle();
    sweep(&gpus[0], 2, 4, 3);
    show("copied");
    settle();
    gate_close_by_kernel(&gate, s);
    sweep(&gpus[0], 0, 2, 3);
    show("busy again");
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(gpus[1].context));
    CHECK(cuStreamDestroy(s));
    finish();
}

/* Kernels of device 1 use blocks of both, those of device 0 by peer access. */
static void peers(void)
{
    begin_all();
    sweep(&gpus[0], 2, 4, 3);
    sweep(&gpus[1], 2, 4, 3);
    show("apart");
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(gpus[0].context));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(gpus[1].context));
    CHECK(cuCtxEnablePeerAccess(gpus[0].context, 0));
    for (unsigned t = 0; t < 6; t++)
        for (unsigned i = 0; i < BLOCKS; i++) {
            add_to(&gpus[1], &gpus[0], i);
            look_at(&gpus[1], &gpus[0], i);
            CHECK(cuCtxSynchronize());
            sweep(&gpus[0], i, i + 1, 2);
            CHECK(cuCtxSynchronize());
            sweep(&gpus[1], i / 2 * 2, i / 2 * 2 + 2, 1);
        }
    show("open to device 1");
    finish();
}

/* Copies go through a stream of the other device, which has no access. */
static void far_copies(void)
{
    CUstream s;
    unsigned char *out = malloc(BLOCK);
    begin_all();
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    for (unsigned t = 0; t < 12; t++) {
        unsigned i = t % BLOCKS, j = (t * 3 + 1) % BLOCKS;
        sweep(&gpus[0], i, i + 1, 2);
        sweep(&gpus[1], j, j + 1, 2);
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxSetCurrent(gpus[0].context));
        CHECK(cuCtxSynchronize());
        if (i == 0) {
            CHECK(cuMemcpyDtoHAsync(out, gpus[0].block[i], BLOCK, s));
            CHECK(cuStreamSynchronize(s));
            EXPECT(all_are(out, gpus[0].value[i], BLOCK));
        }
        CHECK(cuMemcpyPeerAsync(gpus[1].block[j], gpus[1].context, gpus[0].block[i],
                                gpus[0].context, BLOCK, s));
        gpus[1].value[j] = gpus[0].value[i];
        CHECK(cuStreamSynchronize(s));
    }
    CHECK(cuStreamDestroy(s));
    free(out);
    finish();
}

/* One device's context goes, with its blocks; that of the other one stays. */
static void gone(void)
{
    begin_all();
    sweep(&gpus[0], 2, 4, 3);
    sweep(&gpus[1], 2, 4, 3);
    show("before");
    end_gpu(0);
    sweep(&gpus[1], 0, 2, 3);
    begin(&gpus[0]);
    show("anew");
    sweep(&gpus[0], 2, 4, 3);
    show("after");
    finish();
}

/* Another context of device 0 has work of its own. */
static void beside(void)
{
    begin_all();
    CHECK(cuCtxSetCurrent(gpus[0].context));
    CUcontext other = another_context();
    CUfunction add = load_kernel("add", add_grid, 1, (const size_t[]){sizeof(CUdeviceptr)});
    CUdeviceptr own;
    CHECK(cuMemAlloc(&own, BLOCK));
    void *args[] = {&own};
    CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize());
    sweep(&gpus[0], 2, 4, 3);
    sweep(&gpus[1], 2, 4, 3);
    show("beside");
    CHECK(cuCtxDestroy(other));
    end_gpu(0);
    begin(&gpus[0]);
    sweep(&gpus[0], 2, 4, 3);
    show("first gone");
    finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"phases", phases}, {"threads", threads},         {"processes", processes},
        {"busy", busy},     {"fetched", fetched},         {"peers", peers},
        {"gone", gone},     {"far_copies", far_copies},   {"beside", beside},
        {"copied", copied}, {"copied_late", copied_late}, {"copied_meanwhile", copied_meanwhile}};
    return RUN_SCENARIO(all, argc, argv);
}
