/* SPDX-License-Identifier: MIT */
/* vmm_blocks SCENARIO: blocks that come and go, on a device of 256 MiB, with a rule for requests up
 * to 32 MiB. */
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

static CUdeviceptr make(size_t bytes)
{
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

/* Handles whose memory may leave the process have a file of their own in the simulated driver. */
static void exportable(void)
{
    char path[64], target[64];
    unsigned files = 0;
    start_gpu(0);
    CUdeviceptr p = make(3 * MIB);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        files += strstr(target, "simulated-gpu-shared") != NULL;
    }
    printf("exportable %u\n", files);
    CHECK(cuMemFree(p));
    end_gpu(0);
}

static void *churn(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 2000; i++)
        CHECK(cuMemFree(make(2 * MIB)));
    return NULL;
}

/* Threads that make and free beside each other. */
static void threads(void)
{
    CUcontext context = start_gpu(0);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, context));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"exportable", exportable}, {"threads", threads}};
    return RUN_SCENARIO(all, argc, argv);
}
