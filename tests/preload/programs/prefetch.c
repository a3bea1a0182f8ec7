/* SPDX-License-Identifier: MIT */
/* prefetch SCENARIO: device blocks that libzc puts into managed memory, and where their pages were
 * sent: prints a device's number, or -2 for nowhere. */
#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (4 * MIB)

static char host[SIZE];
static CUdeviceptr block;

static int sent_to(void)
{
    int device = -9;
    CHECK(sim_range_attribute(&device, sizeof(device),
                              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, block, SIZE));
    return device;
}

static void show(const char *when)
{
    CHECK(cuCtxSynchronize());
    printf("%s: %d\n", when, sent_to());
}

static void finish(void)
{
    fill(block, 3, SIZE, NULL);
    CHECK(cuMemcpyDtoH(host, block + SIZE - MIB, MIB));
    EXPECT(all_are(host, 3, MIB));
    CHECK(cuMemFree(block));
    end_gpu(0);
}

static void made(void)
{
    start_gpu(0);
    CHECK(cuMemAlloc(&block, SIZE));
    show("made");
    finish();
}

/* Three launches and three copies need no more than one prefetch. */
static void again(void)
{
    start_gpu(0);
    CHECK(cuMemAlloc(&block, SIZE));
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemcpyHtoD(block, host, SIZE));
        fill(block, 3, SIZE, NULL);
    }
    printf("prefetches %llu\n",
           sim_calls("cuMemPrefetchAsync_v2") + sim_calls("cuMemPrefetchAsync"));
    finish();
}

/* The pages come while the legacy stream waits for the program. */
static void beside(void)
{
    struct gate gate;
    start_gpu(0);
    gate_close(&gate, NULL);
    CHECK(cuMemAlloc(&block, SIZE));
    while (sent_to() < 0)
        usleep(100);
    gate_open(&gate);
    show("beside");
    finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"made", made}, {"again", again}, {"beside", beside}};
    return RUN_SCENARIO(all, argc, argv);
}
