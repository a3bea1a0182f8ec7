/* SPDX-License-Identifier: MIT */
/* killed [THREADS]: threads copy known amounts up and down, then the process is ended by SIGKILL
 * while its blocks live. With HOW=abort, _exit or quick_exit in the second argument, by those. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "program.h"

#define COPIES 100 /* Of each direction and thread. */
#define UP 3000    /* Bytes of a copy to the device. */
#define DOWN 1000  /* Bytes of a copy back. */

static CUcontext context;

static void *copy(void *unused)
{
    char host[UP];
    CUdeviceptr p;
    (void)unused;
    memset(host, 1, sizeof(host));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&p, UP));
    for (int i = 0; i < COPIES; i++) {
        CHECK(cuMemcpyHtoD(p, host, UP));
        CHECK(cuMemcpyDtoH(host, p, DOWN));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    const char *how = argc > 2 ? argv[2] : "kill";
    pthread_t threads[64];
    if (count < 1 || count > 64)
        return 2;
    context = start_gpu(0);
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, copy, NULL));
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL));
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick_exit"))
        quick_exit(0);
    return raise(SIGKILL);
}
