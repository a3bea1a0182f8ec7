/* A program whose malloc'd memory outlives the context that it was copied or registered in:
 * host_contexts reset|resets.  It prints what it finds; the tests compare that with and without
 * libzc. */
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

int main(int argc, char **argv)
{
    bool once = argc > 1 && !strcmp(argv[1], "reset");
    start();
    if (once)
        reset();
    for (int i = 0; !once && i < 20; i++)
        register_and_reset(i % 2);
    fprintf(stderr, "registrations %u\n", registrations());
    return 0;
}
