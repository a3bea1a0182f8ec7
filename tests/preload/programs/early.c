/* SPDX-License-Identifier: MIT */
/* CUDA calls at the edges of a process's life: in a constructor before main, in main, in a handler
 * of atexit(3) and in a destructor after it. Prints every code. */
#include "program.h"

static CUdeviceptr first, second;

static void use(const char *when)
{
    char host[3000];
    CUdeviceptr p = 0;
    memset(host, 1, sizeof(host));
    printf("%s:\n", when);
    SHOW(cuInit(0));
    SHOW(cuMemAlloc(&p, sizeof(host)));
    SHOW(cuMemcpyHtoD(p, host, sizeof(host)));
    memset(host, 0, sizeof(host));
    SHOW(cuMemcpyDtoH(host, p, sizeof(host)));
    printf("%s\n", all_are(host, 1, sizeof(host)) ? "same" : "other");
    SHOW(cuMemFree(p));
}

static void at_exit(void)
{
    use("atexit");
    SHOW(cuMemFree(first));
    fflush(stdout);
}

__attribute__((constructor(101))) static void before_main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    CUcontext context;
    printf("before main:\n");
    SHOW(cuMemAlloc(&first, 16)); /* Before cuInit. */
    SHOW(cuMemFree(4096));
    SHOW(cuInit(0));
    SHOW(cuDevicePrimaryCtxRetain(&context, 0));
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuMemAlloc(&first, 4096));
    SHOW(cuMemAlloc(&second, (size_t)3 << 20));
    use("constructor");
}

__attribute__((destructor(101))) static void after_exit(void)
{
    use("destructor");
    SHOW(cuMemFree(second));
    fflush(stdout);
}

int main(void)
{
    atexit(at_exit);
    use("main");
    return 0;
}
