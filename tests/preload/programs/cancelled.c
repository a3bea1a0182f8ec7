/* SPDX-License-Identifier: MIT */
/*
 * cancelled malloc|init: a thread with a cancellation request pending allocates much, or makes the
 * first CUDA call, neither of which is a cancellation point.  Then the program
 * uses the driver.  It loads the driver itself, so that nothing allocates before.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool came_through;

static void *allocate(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    void *volatile p = malloc((size_t)1 << 20);
    free(p);
    came_through = true;
    return NULL;
}

static void *initialize(void *init)
{
    pthread_cancel(pthread_self());
    ((CUresult(*)(unsigned))init)(0);
    came_through = true;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *(*first)(void *) = argc > 1 && !strcmp(argv[1], "init") ? initialize : allocate;
    void *init = first == initialize ? dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit") : NULL;
    if (pthread_create(&thread, NULL, first, init) || pthread_join(thread, NULL))
        return 1;
    puts(came_through ? "came through" : "ended");
    init = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    printf("%d\n", init ? (int)((CUresult(*)(unsigned))init)(0) : -1);
    return 0;
}
