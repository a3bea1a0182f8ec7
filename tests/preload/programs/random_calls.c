/* SPDX-License-Identifier: MIT */
/* A random program: random_calls SEED [STEPS [THREADS [read|write [fork]]]], or random_calls many,
 * as rounds.h says.  It prints what every call gave, behind the numbers of the thread and the step,
 * and no address, so that each thread prints the same in two runs of a seed that saw the same.  All
 * that it does is defined by CUDA.  With `read` and `write` no stream waits for the CPU, and with
 * `read` kernels only read the blocks of cuMemAlloc; with `fork` a single thread forks now and
 * then, and changes rights of pages. */
#include <pthread.h>

#include "random_forks.h"
#include "random_graphs.h"
#include "random_memory.h"
#include "rounds.h"

static const struct choice choices[] = {{make_or_drop, 22},
                                        {copy, 40},
                                        {set, 10},
                                        {touch, 10},
                                        {launch, 10},
                                        {ask, 4},
                                        {mistake, 3},
                                        {copy_too_much, 3},
                                        {grow_array, 5},
                                        {resize, 5},
                                        {register_or_not, 3},
                                        {hint, 3},
                                        {through_array, 3},
                                        {wait_event, 3},
                                        {gate_a_stream, 4},
                                        {write_value, 2},
                                        {call_host, 3},
                                        {through_file, 2},
                                        {through_image, 3},
                                        {renew_stream, 2},
                                        {synchronize, 2},
                                        {switch_device, 2},
                                        {graph, 8}};

struct job {
    uint64_t seed;
    unsigned steps;
    int number;
};

static void make_streams(void)
{
    for (int d = 0; d < DEVICES; d++) {
        struct stream *s = legacy(d);
        enter(d);
        s[0] = (struct stream){one_in(2) ? NULL : CU_STREAM_LEGACY, d, true, true};
        s[1] = (struct stream){CU_STREAM_PER_THREAD, d, true, false};
        s[2] = s[3] = (struct stream){NULL, d, true, false};
        s[3].blocking = false;
        CHECK(cuStreamCreate(&s[2].handle, CU_STREAM_DEFAULT));
        CHECK(cuStreamCreate(&s[3].handle, CU_STREAM_NON_BLOCKING));
        CHECK(cuEventCreate(&marks[d], CU_EVENT_DISABLE_TIMING));
        leave();
    }
}

static void one_step(void)
{
    if (forks && one_in(16))
        (one_in(2) ? fork_child : change_pages)();
    chosen(choices, sizeof(choices) / sizeof(*choices))->run();
}

static void run_job(struct job *job)
{
    char stack[FIXED_BYTES];
    stack_memory = stack;
    thread_number = job->number;
    dice = job->seed * 0x9e3779b97f4a7c15ull + (uint64_t)job->number;
    for (int i = 0; i < 8; i++)
        below(2);
    kernels = !one_in(4);
    values = one_in(6) && awaits_cpu;
    current = 0;
    memset(blocks, 0, sizeof(blocks));
    CHECK(cuCtxSetCurrent(contexts[0]));
    make_streams();
    load_kernels();
    for (step = 0; step < job->steps; step++) {
        one_step();
        tell_thread();
    }
    for (int i = 0; i < BLOCKS; i++)
        show_content("end:", &blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at)
            drop_block(&blocks[i]);
    CHECK(synchronize_context());
}

static void *start_thread(void *data)
{
    run_job(data);
    return NULL;
}

static void run_threads(struct job *jobs)
{
    pthread_t handles[THREADS];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&handles[i], NULL, start_thread, &jobs[i]));
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(handles[i], NULL));
}

static int run(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned steps = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 200;
    struct job jobs[THREADS] = {{.seed = seed, .steps = steps, .number = 0},
                                {.seed = seed, .steps = steps, .number = 1}};
    CUmemPoolProps pool = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    threads = argc > 3 && atoi(argv[3]) == THREADS ? THREADS : 1;
    awaits_cpu = argc <= 4;
    reads_only = !awaits_cpu && !strcmp(argv[4], "read");
    gates = threads == 1;
    forks = argc > 5 && gates && !strcmp(argv[5], "fork");
    setvbuf(stdout, NULL, _IOLBF, 0);
    contexts[1] = start_gpu(1);
    contexts[0] = start_gpu(0);
    CHECK(cuMemPoolCreate(&own_pool, &pool));
    if (threads == 1)
        run_job(&jobs[0]);
    else
        run_threads(jobs);
    CHECK(cuMemPoolDestroy(own_pool));
    end_gpu(0);
    end_gpu(1);
    return 0;
}

int main(int argc, char **argv)
{
    return run_rounds(argc, argv, run);
}
