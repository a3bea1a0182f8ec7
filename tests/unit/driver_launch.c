/* SPDX-License-Identifier: MIT */
/* Launches: who is told of one before the driver is, with what, and what a refusal stops. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/launch.h"
#include "real_test.h"

#define STREAM ((CUstream)0x5000)

static const char *order; /* The parties that were called, a letter each. */
static char letters[16];
static struct zc_launch last; /* As the party got it. */
static CUresult answer;       /* The result of the party. */
static unsigned forwarded;    /* Calls that came to the driver. */

static sem_t *in_driver, *go_on; /* Of a launch that the driver keeps; NULL: it keeps none. */

static void note(char letter)
{
    letters[strlen(letters)] = letter;
    order = letters;
}

static CUresult grow(const struct zc_launch *launch)
{
    note('g');
    last = *launch;
    return answer;
}

static CUresult move(const struct zc_launch *launch)
{
    note('m');
    last = *launch;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_kernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                      CUstream stream, void **params, void **extra)
{
    assert_ptr_equal(f, (CUfunction)1);
    assert_int_equal(gx + 10 * gy + 100 * gz + 1000 * bx + 10000 * by + 100000 * bz, 765432);
    assert_int_equal(shared, 8);
    assert_ptr_equal(stream, STREAM);
    assert_ptr_equal(params, (void **)9);
    assert_ptr_equal(extra, (void **)10);
    if (in_driver) {
        sem_post(in_driver);
        sem_wait(go_on);
    }
    forwarded++;
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static CUresult CUDAAPI driver_cooperative(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                           unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                           CUstream stream, void **params)
{
    (void)params;
    return driver_kernel(f, gx, gy, gz, bx, by, bz, shared, stream, (void **)9, (void **)10);
}

static CUresult CUDAAPI driver_ex(const CUlaunchConfig *config, CUfunction f, void **params,
                                  void **extra)
{
    (void)config, (void)f, (void)params, (void)extra;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_many(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
    (void)list, (void)count, (void)flags;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_old(CUfunction f)
{
    (void)f;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_grid(CUfunction f, int width, int height)
{
    (void)f, (void)width, (void)height;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_grid_async(CUfunction f, int width, int height, CUstream stream)
{
    (void)stream;
    return driver_grid(f, width, height);
}

static CUresult CUDAAPI driver_graph(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_unmap(CUdeviceptr ptr, size_t bytes)
{
    (void)ptr, (void)bytes;
    forwarded++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI driver_memop(CUstream stream, CUdeviceptr ptr, cuuint32_t value,
                                     unsigned flags)
{
    (void)stream, (void)value, (void)flags;
    return driver_unmap(ptr, 0);
}

static int setup(void **state)
{
    (void)state;
    real_without_driver();
    setenv("ZC_LOG", "off", 1);
    zc_real.cuLaunchKernel = zc_real.cuLaunchKernel_ptsz = driver_kernel;
    zc_real.cuLaunchCooperativeKernel = zc_real.cuLaunchCooperativeKernel_ptsz = driver_cooperative;
    zc_real.cuLaunchKernelEx = zc_real.cuLaunchKernelEx_ptsz = driver_ex;
    zc_real.cuLaunchCooperativeKernelMultiDevice = driver_many;
    zc_real.cuLaunch = driver_old;
    zc_real.cuLaunchGrid = driver_grid;
    zc_real.cuLaunchGridAsync = driver_grid_async;
    zc_real.cuGraphLaunch = zc_real.cuGraphLaunch_ptsz = driver_graph;
    zc_real.cuStreamWriteValue32_v2 = zc_real.cuStreamWriteValue32_v2_ptsz = driver_memop;
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    memset(letters, 0, sizeof(letters));
    memset(&last, 0, sizeof(last));
    order = letters;
    answer = CUDA_SUCCESS;
    forwarded = 0;
    zc_launch_reset();
    return 0;
}

static CUresult kernel(__typeof__(cuLaunchKernel) *call)
{
    return call((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, STREAM, (void **)9, (void **)10);
}

static void without_a_party_the_driver_gets_the_call_as_it_is(void **state)
{
    (void)state;
    assert_int_equal(kernel(cuLaunchKernel), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_int_equal(forwarded, 1);
    assert_string_equal(order, "");
}

/* The party was called once more, with what the call says. */
static void told(unsigned times, enum zc_fn fn, enum zc_flavour flavour, CUstream stream,
                 bool kernels)
{
    assert_int_equal(strlen(order), times);
    assert_int_equal(forwarded, times);
    assert_int_equal(last.fn, fn);
    assert_int_equal(last.flavour, flavour);
    assert_ptr_equal(last.stream, stream);
    assert_int_equal(last.kernels, kernels);
}

static void every_launch_tells_its_stream_and_flavour(void **state)
{
    (void)state;
    CUlaunchConfig config = {.hStream = STREAM};
    CUDA_LAUNCH_PARAMS many = {.hStream = STREAM};
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    kernel(cuLaunchKernel);
    told(1, ZC_FN_cuLaunchKernel, ZC_LEGACY, STREAM, true);
    kernel(cuLaunchKernel_ptsz);
    told(2, ZC_FN_cuLaunchKernel_ptsz, ZC_PER_THREAD, STREAM, true);
    cuLaunchCooperativeKernel((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, STREAM, NULL);
    told(3, ZC_FN_cuLaunchCooperativeKernel, ZC_LEGACY, STREAM, true);
    cuLaunchCooperativeKernel_ptsz((CUfunction)1, 2, 3, 4, 5, 6, 7, 8, STREAM, NULL);
    told(4, ZC_FN_cuLaunchCooperativeKernel_ptsz, ZC_PER_THREAD, STREAM, true);
    cuLaunchKernelEx(&config, NULL, NULL, NULL);
    told(5, ZC_FN_cuLaunchKernelEx, ZC_LEGACY, STREAM, true);
    cuLaunchKernelEx_ptsz(NULL, NULL, NULL, NULL);
    told(6, ZC_FN_cuLaunchKernelEx_ptsz, ZC_PER_THREAD, NULL, true);
    cuLaunchCooperativeKernelMultiDevice(&many, 1, 0);
    told(7, ZC_FN_cuLaunchCooperativeKernelMultiDevice, ZC_LEGACY, STREAM, true);
    cuLaunch(NULL);
    told(8, ZC_FN_cuLaunch, ZC_LEGACY, NULL, true);
    cuLaunchGrid(NULL, 1, 1);
    told(9, ZC_FN_cuLaunchGrid, ZC_LEGACY, NULL, true);
    cuLaunchGridAsync(NULL, 1, 1, STREAM);
    told(10, ZC_FN_cuLaunchGridAsync, ZC_LEGACY, STREAM, true);
    cuGraphLaunch(NULL, STREAM);
    told(11, ZC_FN_cuGraphLaunch, ZC_LEGACY, STREAM, true);
    cuGraphLaunch_ptsz(NULL, STREAM);
    told(12, ZC_FN_cuGraphLaunch_ptsz, ZC_PER_THREAD, STREAM, true);
}

static void other_work_on_memory_is_told_as_no_kernel(void **state)
{
    (void)state;
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    cuStreamWriteValue32_v2(STREAM, 0, 0, 0);
    told(1, ZC_FN_cuStreamWriteValue32_v2, ZC_LEGACY, STREAM, false);
    cuStreamWriteValue32_v2_ptsz(STREAM, 0, 0, 0);
    told(2, ZC_FN_cuStreamWriteValue32_v2_ptsz, ZC_PER_THREAD, STREAM, false);
}

static void a_refusal_is_the_programs_answer_and_nothing_is_launched(void **state)
{
    (void)state;
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    zc_launch_call(ZC_LAUNCH_MOVE, move);
    assert_int_equal(kernel(cuLaunchKernel), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuGraphLaunch(NULL, STREAM), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuStreamWriteValue32_v2(STREAM, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(forwarded, 0);
    assert_string_equal(order, "ggg");
}

static void parties_come_in_their_order_and_leave_by_themselves(void **state)
{
    (void)state;
    zc_launch_call(ZC_LAUNCH_MOVE, move);
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    kernel(cuLaunchKernel);
    assert_string_equal(order, "gm");
    zc_launch_call(ZC_LAUNCH_GROW, NULL);
    kernel(cuLaunchKernel);
    assert_string_equal(order, "gmm");
    zc_launch_call(ZC_LAUNCH_MOVE, NULL);
    assert_int_equal(zc_launch_watch, 0);
    kernel(cuLaunchKernel);
    assert_string_equal(order, "gmm");
    assert_int_equal(forwarded, 3);
}

static void none_is_called_after_a_reset_when_another_comes(void **state)
{
    (void)state;
    zc_launch_call(ZC_LAUNCH_MOVE, move);
    zc_launch_reset();
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    kernel(cuLaunchKernel);
    assert_string_equal(order, "g");
}

static void *launch(void *unused)
{
    (void)unused;
    kernel(cuLaunchKernel);
    return NULL;
}

static void *settle(void *before)
{
    zc_launch_drain();
    *(unsigned *)before = forwarded;
    return NULL;
}

static void who_settles_waits_for_launches_that_the_driver_is_being_given(void **state)
{
    sem_t inside, resume;
    pthread_t launching, settling;
    unsigned before = 0;
    (void)state;
    sem_init(&inside, 0, 0);
    sem_init(&resume, 0, 0);
    in_driver = &inside;
    go_on = &resume;
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    assert_int_equal(pthread_create(&launching, NULL, launch, NULL), 0);
    sem_wait(&inside);
    in_driver = NULL;
    assert_int_equal(pthread_create(&settling, NULL, settle, &before), 0);
    usleep(20000);
    sem_post(&resume);
    pthread_join(settling, NULL);
    pthread_join(launching, NULL);
    assert_int_equal(before, 1);
}

static CUresult grow_and_settle_once(const struct zc_launch *launch)
{
    if (strlen(letters) == 0)
        zc_launch_drain();
    return grow(launch);
}

static void a_launch_that_the_driver_has_not_yet_is_shown_again(void **state)
{
    (void)state;
    zc_launch_call(ZC_LAUNCH_GROW, grow_and_settle_once);
    kernel(cuLaunchKernel);
    assert_string_equal(order, "gg");
    assert_int_equal(forwarded, 1);
}

static CUresult arguments_end; /* The driver's code behind the last argument, */
static unsigned asked;         /* and how often it was asked for an argument. */

static CUresult CUDAAPI one_word(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    (void)f;
    asked++;
    if (index > 0 || arguments_end == CUDA_ERROR_NOT_SUPPORTED)
        return arguments_end;
    *offset = 0;
    *bytes = sizeof(uint64_t);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI no_kernel(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    (void)kernel, (void)index, (void)offset, (void)bytes;
    asked++;
    return CUDA_ERROR_INVALID_HANDLE;
}

static void add_up(uint64_t word, void *arg)
{
    *(uint64_t *)arg += word;
}

static void words_of_a_launch_are_unknown_where_the_driver_does_not_tell_them(void **state)
{
    uint64_t word = 7, sum = 0;
    void *arguments[] = {&word};
    const struct zc_launch launch = {.function = (CUfunction)1, .arguments = arguments};

    (void)state;
    zc_real.cuFuncGetParamInfo = one_word;
    zc_real.cuKernelGetParamInfo = no_kernel;
    arguments_end = CUDA_ERROR_INVALID_VALUE;
    assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, 7);
    arguments_end = CUDA_ERROR_NOT_SUPPORTED;
    zc_launch_forget();
    assert_false(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, 7);
}

static CUresult CUDAAPI kernel_word(CUkernel f, size_t index, size_t *offset, size_t *bytes)
{
    return one_word((CUfunction)f, index, offset, bytes);
}

static CUresult CUDAAPI no_function(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    (void)f, (void)index, (void)offset, (void)bytes;
    asked++;
    return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult CUDAAPI unloads(void *code)
{
    (void)code;
    return CUDA_SUCCESS;
}

/* One question behind the last argument takes the driver longer than a launch. */
static void what_arguments_a_function_has_is_asked_once_until_code_goes(void **state)
{
    uint64_t word = 7, sum = 0;
    void *arguments[] = {&word};
    struct zc_launch launch = {.function = (CUfunction)0x1230, .arguments = arguments};
    (void)state;
    zc_real.cuFuncGetParamInfo = one_word;
    zc_real.cuKernelGetParamInfo = no_kernel;
    zc_real.cuModuleUnload = (void *)unloads;
    zc_real.cuLibraryUnload = (void *)unloads;
    zc_real.cuGreenCtxDestroy = (void *)unloads; /* It may release the device's context. */
    arguments_end = CUDA_ERROR_INVALID_VALUE;
    asked = 0;
    for (unsigned i = 1; i <= 8; i++) {
        assert_true(zc_launch_words(&launch, add_up, &sum));
        assert_int_equal(asked, (i + 1) / 2 * 3); /* Behind the last one, too, as both kinds. */
        if (i == 2)
            cuModuleUnload((CUmodule)1);
        else if (i == 4)
            cuLibraryUnload((CUlibrary)1);
        else if (i == 6)
            cuGreenCtxDestroy((CUgreenCtx)1);
    }
    assert_int_equal(sum, 8 * 7);
    zc_real.cuFuncGetParamInfo = no_function;
    zc_real.cuKernelGetParamInfo = kernel_word;
    launch.function = (CUfunction)0x4560;
    for (unsigned i = 0; i < 2; i++)
        assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(asked, 4 * 3 + 3);
    assert_int_equal(sum, 10 * 7);
}

/* Blocks that no argument names are not looked after, so an error is not taken for the last one. */
static void an_error_says_nothing_of_how_many_arguments_there_are(void **state)
{
    uint64_t word = 7, sum = 0;
    void *arguments[] = {&word};
    const struct zc_launch launch = {.function = (CUfunction)0x7890, .arguments = arguments};
    (void)state;
    zc_real.cuFuncGetParamInfo = no_function;
    zc_real.cuKernelGetParamInfo = no_kernel;
    assert_false(zc_launch_words(&launch, add_up, &sum));
    zc_real.cuFuncGetParamInfo = one_word;
    arguments_end = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(zc_launch_words(&launch, add_up, &sum));
    arguments_end = CUDA_ERROR_INVALID_VALUE;
    assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, 2 * 7);
}

static void words_of_a_launch_are_read_from_a_buffer_in_either_order(void **state)
{
    uint64_t words[] = {3, 4, 5};
    size_t bytes = sizeof(words) - 1, many = 1 << 20;
    void *by_name[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                       CU_LAUNCH_PARAM_END};
    void *by_size[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, words,
                       CU_LAUNCH_PARAM_END};
    void *no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    void *no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_END};
    void *unknown[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, (void *)7, &bytes,
                       CU_LAUNCH_PARAM_END};
    void *too_many[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &many,
                        CU_LAUNCH_PARAM_END};
    struct {
        void **extra;
        bool known;
        uint64_t sum;
    } cases[] = {{by_name, true, 7}, {by_size, true, 7},  {no_buffer, false, 0},
                 {no_size, true, 0}, {unknown, false, 0}, {too_many, false, 0}};

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zc_launch launch = {.function = (CUfunction)1, .extra = cases[i].extra};
        uint64_t sum = 0;
        assert_int_equal(zc_launch_words(&launch, add_up, &sum), cases[i].known);
        assert_int_equal(sum, cases[i].sum);
        launch.function = NULL;
        assert_false(zc_launch_words(&launch, add_up, &sum));
        assert_int_equal(sum, cases[i].sum);
    }
}

static size_t sizes[70]; /* Of a function's arguments; 0: there are no more. */

static CUresult CUDAAPI sized(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    (void)f, (void)offset;
    *bytes = sizes[index];
    return sizes[index] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A kernel's arguments have 4096 bytes at most, and 64 of them are looked at. */
static void arguments_are_looked_at_as_far_as_kernels_have_them(void **state)
{
    static const struct {
        size_t first, others;
        unsigned count;
        bool known;
    } rows[] = {{4096, 0, 1, true},    {4104, 0, 1, false}, {4088, 8, 2, true}, {4088, 8, 3, false},
                {2048, 2048, 2, true}, {8, 8, 64, true},    {8, 8, 65, false}};
    static uint64_t words[600];
    void *arguments[70];
    (void)state;
    zc_real.cuFuncGetParamInfo = sized;
    zc_real.cuKernelGetParamInfo = no_kernel;
    for (unsigned i = 0; i < 600; i++)
        words[i] = 1;
    for (unsigned i = 0; i < 70; i++)
        arguments[i] = words;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_launch launch = {.function = (CUfunction)1, .arguments = arguments};
        uint64_t sum = 0;
        memset(sizes, 0, sizeof(sizes));
        for (unsigned j = 0; j < rows[i].count; j++)
            sizes[j] = j ? rows[i].others : rows[i].first;
        zc_launch_forget();
        assert_int_equal(zc_launch_words(&launch, add_up, &sum), rows[i].known);
        if (rows[i].known)
            assert_int_equal(sum, (rows[i].first + (rows[i].count - 1) * rows[i].others) / 8);
        launch.arguments = NULL; /* There are some, and nobody says where. */
        assert_false(zc_launch_words(&launch, add_up, &sum));
    }
}

static void the_driver_reads_the_arguments_before_the_buffer(void **state)
{
    static uint64_t words[512];
    uint64_t word = 7, sum = 0;
    size_t bytes = sizeof(words);
    void *arguments[] = {&word};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    struct zc_launch launch = {.function = (CUfunction)1, .arguments = arguments, .extra = extra};
    (void)state;
    zc_launch_forget();
    memset(sizes, 0, sizeof(sizes));
    sizes[0] = 8;
    zc_real.cuFuncGetParamInfo = sized;
    words[511] = 5;
    assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, 7);
    launch.arguments = NULL;
    assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, 12);
}

/* Another function may have the handle next. */
static void of_no_function_anything_is_kept_when_code_goes(void **state)
{
    uint64_t word = 7, sum = 0;
    void *arguments[] = {&word};
    (void)state;
    zc_real.cuFuncGetParamInfo = one_word;
    zc_real.cuKernelGetParamInfo = no_kernel;
    arguments_end = CUDA_ERROR_INVALID_VALUE;
    for (uintptr_t f = 1; f <= 4096; f++) {
        struct zc_launch launch = {.function = (CUfunction)(16 * f), .arguments = arguments};
        asked = 0;
        zc_launch_words(&launch, add_up, &sum);
        if (f % 2)
            zc_launch_forget();
        else
            zc_launch_reset();
        zc_launch_words(&launch, add_up, &sum);
        assert_int_equal(asked, 6);
    }
}

/* Each function has its own 0 to 12 arguments, of 1 to 3 words. */
static CUresult CUDAAPI of_its_own(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    (void)offset;
    asked++;
    *bytes = 8 * (1 + ((uintptr_t)f + index) % 3);
    return index < ((uintptr_t)f >> 4) % 13 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void assert_words_of(uintptr_t f)
{
    uint64_t words[] = {1, 1, 1}, sum = 0, expected = 0;
    void *arguments[13];
    const struct zc_launch launch = {.function = (CUfunction)f, .arguments = arguments};
    for (unsigned i = 0; i < 13; i++)
        arguments[i] = words;
    for (unsigned i = 0; i < (f >> 4) % 13; i++)
        expected += 1 + (f + i) % 3;
    assert_true(zc_launch_words(&launch, add_up, &sum));
    assert_int_equal(sum, expected);
}

/* Those of more functions than are remembered are asked for again. */
static void functions_share_no_arguments_however_many_there_are(void **state)
{
    (void)state;
    zc_real.cuFuncGetParamInfo = of_its_own;
    zc_real.cuKernelGetParamInfo = no_kernel;
    for (unsigned round = 0; round < 2; round++)
        for (uintptr_t f = 1; f <= 5000; f++)
            assert_words_of(0x7f1200000000 + 8 * f);
    for (uintptr_t high = 1; high <= UINT16_MAX; high++) { /* As no address has them. */
        assert_words_of(high << 48 | 0x7f1200000000);
        assert_words_of(0x7f1200000000);
    }
    for (unsigned round = 0; round < 3; round++) {
        for (uintptr_t f = 1; f <= 50; f++)
            assert_words_of(0x7f1200000000 + 0x350 * f);
        asked = round ? asked : 0;
    }
    assert_true(asked < 2 * 50 * 8 / 10); /* Those whose places others have taken. */
}

static void when_first(const struct zc_launch *launch)
{
    assert_true(launch->fn == ZC_FN_cuGraphLaunch || launch->fn == ZC_FN_cuLaunchKernel);
    note('1');
}

static void when_second(const struct zc_launch *launch)
{
    (void)launch;
    note('2');
}

static CUresult asks_for_both(const struct zc_launch *launch)
{
    (void)launch;
    zc_launch_when_done(when_first);
    zc_launch_when_done(when_first);
    note('a');
    return CUDA_SUCCESS;
}

static CUresult asks_for_second(const struct zc_launch *launch)
{
    (void)launch;
    zc_launch_when_done(when_second);
    note(zc_launch_again() ? 'B' : 'b');
    return answer;
}

static CUresult CUDAAPI graph_between(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    assert_false(zc_launch_again());
    note('-');
    return CUDA_SUCCESS;
}

/* Parties are called again behind the driver, each once, also where nothing was launched. */
static void a_party_is_told_when_the_driver_has_answered(void **state)
{
    (void)state;
    zc_real.cuGraphLaunch = graph_between;
    zc_launch_call(ZC_LAUNCH_PREFETCH, asks_for_both);
    zc_launch_call(ZC_LAUNCH_DIAGNOSE, asks_for_second);
    assert_int_equal(cuGraphLaunch(NULL, STREAM), CUDA_SUCCESS);
    assert_string_equal(order, "ab-12");
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(cuGraphLaunch(NULL, STREAM), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(order, "ab-12ab12");
    for (unsigned i = 0; i < 2; i++) {
        memset(letters, 0, sizeof(letters));
        answer = i ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        kernel(cuLaunchKernel);
        assert_string_equal(order, "ab12");
        assert_int_equal(forwarded, 1);
    }
    zc_launch_reset();
    zc_launch_call(ZC_LAUNCH_MOVE, move);
    memset(letters, 0, sizeof(letters));
    assert_int_equal(cuGraphLaunch(NULL, STREAM), CUDA_SUCCESS);
    assert_string_equal(order, "m-"); /* Nobody asked. */
    zc_real.cuGraphLaunch = driver_graph;
}

static CUresult ready_at_once(const void *unused)
{
    (void)unused;
    note(zc_launch_again() ? 'R' : 'r');
    return CUDA_SUCCESS;
}

static CUresult ready_after_a_look(const void *unused)
{
    if (!zc_launch_again())
        zc_launch_drain_briefly();
    return ready_at_once(unused);
}

static void *others_launch(void *in)
{
    sem_t **both = in;
    assert_int_equal(zc_launch_enter(ready_at_once, NULL), CUDA_SUCCESS);
    sem_post(both[0]);
    sem_wait(both[1]);
    zc_launch_leave();
    return NULL;
}

static void *others_look(void *out)
{
    *(bool *)out = zc_launch_drain_briefly();
    return NULL;
}

static bool nothing_for_others(void)
{
    pthread_t looking;
    bool none = false;
    assert_int_equal(pthread_create(&looking, NULL, others_look, &none), 0);
    pthread_join(looking, NULL);
    return none;
}

static void a_thread_does_not_wait_for_its_own_launch(void **state)
{
    sem_t inside, resume, *both[] = {&inside, &resume};
    pthread_t launching;
    (void)state;
    sem_init(&inside, 0, 0);
    sem_init(&resume, 0, 0);
    assert_int_equal(zc_launch_enter(ready_after_a_look, NULL), CUDA_SUCCESS);
    assert_string_equal(order, "rR"); /* Others looked meanwhile. */
    zc_launch_drain();
    assert_true(zc_launch_drain_briefly());
    assert_false(nothing_for_others());
    zc_launch_leave();
    assert_true(nothing_for_others());
    assert_int_equal(pthread_create(&launching, NULL, others_launch, both), 0);
    sem_wait(&inside);
    assert_false(zc_launch_drain_briefly());
    sem_post(&resume);
    pthread_join(launching, NULL);
    assert_true(zc_launch_drain_briefly());
}

static void after_a_reset_nothing_is_under_way_and_nobody_is_called(void **state)
{
    (void)state;
    zc_launch_call(ZC_LAUNCH_GROW, grow);
    assert_int_equal(zc_launch_enter(ready_at_once, NULL), CUDA_SUCCESS);
    zc_launch_reset();
    assert_true(zc_launch_drain_briefly() && nothing_for_others());
    assert_int_equal(zc_launch_watch, 0);
    zc_launch_call(ZC_LAUNCH_MOVE, move);
    memset(letters, 0, sizeof(letters));
    kernel(cuLaunchKernel);
    assert_string_equal(order, "m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_party_the_driver_gets_the_call_as_it_is, fresh),
        cmocka_unit_test_setup(every_launch_tells_its_stream_and_flavour, fresh),
        cmocka_unit_test_setup(other_work_on_memory_is_told_as_no_kernel, fresh),
        cmocka_unit_test_setup(a_refusal_is_the_programs_answer_and_nothing_is_launched, fresh),
        cmocka_unit_test_setup(parties_come_in_their_order_and_leave_by_themselves, fresh),
        cmocka_unit_test_setup(none_is_called_after_a_reset_when_another_comes, fresh),
        cmocka_unit_test_setup(who_settles_waits_for_launches_that_the_driver_is_being_given,
                               fresh),
        cmocka_unit_test_setup(a_launch_that_the_driver_has_not_yet_is_shown_again, fresh),
        cmocka_unit_test(words_of_a_launch_are_unknown_where_the_driver_does_not_tell_them),
        cmocka_unit_test(what_arguments_a_function_has_is_asked_once_until_code_goes),
        cmocka_unit_test(an_error_says_nothing_of_how_many_arguments_there_are),
        cmocka_unit_test(words_of_a_launch_are_read_from_a_buffer_in_either_order),
        cmocka_unit_test(arguments_are_looked_at_as_far_as_kernels_have_them),
        cmocka_unit_test(the_driver_reads_the_arguments_before_the_buffer),
        cmocka_unit_test(of_no_function_anything_is_kept_when_code_goes),
        cmocka_unit_test(functions_share_no_arguments_however_many_there_are),
        cmocka_unit_test_setup(a_party_is_told_when_the_driver_has_answered, fresh),
        cmocka_unit_test_setup(a_thread_does_not_wait_for_its_own_launch, fresh),
        cmocka_unit_test_setup(after_a_reset_nothing_is_under_way_and_nobody_is_called, fresh),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
