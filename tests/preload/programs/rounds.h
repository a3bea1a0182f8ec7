/* SPDX-License-Identifier: MIT */
/* Many runs of a random program in one process, so that what it leaks adds up: with the argument
 * `many` alone, each line of standard input holds the arguments of a run, and a line of standard
 * output says when it is over.  A line `leak WHAT` leaks on purpose. */
#ifndef TESTS_PRELOAD_ROUNDS_H
#define TESTS_PRELOAD_ROUNDS_H

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *leak_thread(void *data)
{
    pause();
    return data;
}

static void leak(const char *what)
{
    static void *volatile leaked; /* So that no compiler leaves the block out. */
    pthread_t thread;
    if (!strcmp(what, "memory")) {
        leaked = malloc((size_t)4 << 20);
        memset(leaked, 1, (size_t)4 << 20);
    } else if (!strcmp(what, "mapping")) {
        for (int i = 0; i < 8; i++) {
            leaked = mmap(NULL, 2 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            mprotect(leaked, 4096, PROT_NONE); /* It joins no other one. */
        }
    } else if (!strcmp(what, "descriptor")) {
        (void)!dup(0);
    } else if (!strcmp(what, "thread")) {
        pthread_create(&thread, NULL, leak_thread, NULL);
    } else if (!strcmp(what, "process") && fork() == 0) {
        for (;;)
            pause();
    } else if (!strcmp(what, "failure")) {
        exit(1); /* As a failed check. */
    }
#ifdef PROGRAM_H
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle;
    if (!strcmp(what, "handle"))
        CHECK(cuMemCreate(&handle, (size_t)2 << 20, &prop, 0));
#endif
}

/* Calls `run` as main is called, once or for each line; returns its status. */
static int run_rounds(int argc, char **argv, int (*run)(int argc, char **argv))
{
    char line[200], *words[8];
    if (argc != 2 || strcmp(argv[1], "many") != 0)
        return run(argc, argv);
    while (fgets(line, sizeof(line), stdin)) {
        int count = 1, status = 0;
        words[0] = argv[0];
        for (char *w = strtok(line, " \n"); w && count < 7; w = strtok(NULL, " \n"))
            words[count++] = w;
        words[count] = NULL;
        if (count == 3 && !strcmp(words[1], "leak"))
            leak(words[2]);
        else
            status = run(count, words);
        if (status != 0)
            return status;
        malloc_trim(0); /* So that resident memory is memory in use. */
        printf("round over\n");
        fflush(stdout);
    }
    return 0;
}

#endif
