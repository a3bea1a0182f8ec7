/* SPDX-License-Identifier: MIT */
/* Allocates and copies in threads whose stacks are the smallest that there are; for each, that is
 * the first time that its place in the program asks. */
#include <limits.h>
#include <pthread.h>

#include "program.h"

#define BYTES ((size_t)100000)

static CUcontext context;

static void *use_host(void *unused)
{
    char *p = malloc(BYTES);
    (void)unused;
    memset(p, 1, BYTES);
    p = realloc(p, 30 * BYTES);
    EXPECT(all_are(p, 1, BYTES));
    free(p);
    return NULL;
}

static void *use_device(void *unused)
{
    CUdeviceptr p;
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&p, BYTES));
    CHECK(cuMemsetD8(p, 1, BYTES));
    CHECK(cuMemFree(p));
    return NULL;
}

int main(void)
{
    void *(*const all[])(void *) = {use_host, use_device};
    pthread_attr_t attributes;
    context = start_gpu(0);
    CHECK(pthread_attr_init(&attributes));
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN));
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &attributes, all[i], NULL));
        CHECK(pthread_join(thread, NULL));
    }
    return 0;
}
