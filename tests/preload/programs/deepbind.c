/* SPDX-License-Identifier: MIT */
/*
 * Opens a library by RTLD_DEEPBIND, whose free would be libc's own, and then copies a block of
 * malloc to the device and back.
 */
#include "preload/programs/program.h"
#include <dlfcn.h>

#define BYTES ((size_t)1 << 20)

int main(void)
{
    CUcontext context;
    CUdeviceptr device;
    EXPECT(dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND));
    char *host = malloc(BYTES);
    EXPECT(host);
    memset(host, 7, BYTES);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&device, BYTES));
    CHECK(cuMemcpyHtoD(device, host, BYTES));
    memset(host, 0, BYTES);
    CHECK(cuMemcpyDtoH(host, device, BYTES));
    EXPECT(host[0] == 7 && host[BYTES - 1] == 7);
    CHECK(cuMemFree(device));
    free(host);
    puts("PASSED");
    return 0;
}
