/* SPDX-License-Identifier: MIT */
/* A program whose malloc'd memory outlives the context that it was copied or registered in:
 * host_contexts reset|resets|staged.  It prints what it finds; the tests compare that with and
 * without libzc. */
#include "host_scene.h"

/* Resets the context, and makes another one with a block of the same size. */
static void again(void)
{
    CUdevice d;
    CHECK(cuDeviceGet, &d, 0);
    CHECK(cuDevicePrimaryCtxReset_v2, d);
    CHECK(cuDevicePrimaryCtxRetain, &context, d);
    CHECK(cuCtxSetCurrent, context);
    CHECK(cuMemAlloc_v2, &device, BLOCK);
}

/* Registered memory goes with the context, the block does not. */
static void reset(void)
{
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    again();
    printf("content %d\n", holds(p, BLOCK, 1));
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    printf("device %d\n", device_holds(BLOCK, 1));
    free(p);
}

/* A block that the program registers, in a context that goes before the block does or after it. */
static void register_and_reset(bool free_first)
{
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemHostRegister_v2, p, BLOCK, 0);
    if (free_first)
        free(p);
    again();
    if (free_first)
        return;
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    printf("device %d\n", device_holds(BLOCK, 1));
    free(p);
}

static void copy_behind_work(unsigned char *p)
{
    CUstream stream;
    CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CHECK(cuLaunchHostFunc, stream, sleep_a_little, NULL);
    CHECK(cuMemcpyHtoDAsync_v2, device, p, BLOCK, stream);
    CHECK(cuStreamSynchronize, stream);
}

/* The mark of the end of an asynchronous copy goes with the context, too, and is not asked about
 * any more. */
static void staged(void)
{
    unsigned char *p = filled(malloc(BLOCK), BLOCK, 1);
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    copy_behind_work(p);
    again();
    CHECK(cuMemcpyHtoD_v2, device, p, BLOCK);
    unsigned long long before = cu.sim_calls("cuEventQuery");
    copy_behind_work(filled(p, BLOCK, 2));
    fprintf(stderr, "asked %llu\n", cu.sim_calls("cuEventQuery") - before);
    printf("device %d\n", device_holds(BLOCK, 2));
    free(p);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    start();
    if (!strcmp(name, "reset"))
        reset();
    if (!strcmp(name, "staged"))
        staged();
    for (int i = 0; !strcmp(name, "resets") && i < 20; i++)
        register_and_reset(i % 2);
    fprintf(stderr, "registrations %u\n", registrations());
    return 0;
}
