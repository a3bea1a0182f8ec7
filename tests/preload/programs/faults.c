/* SPDX-License-Identifier: MIT */
/* faults [-g | -p | -v] NAME...: lets each of these driver calls fail in turn, with several
 * codes, while blocks are made, used and freed; with -g while an array grows, with -p while another
 * device uses them, with -v while the program maps
 * memory itself. Every call of the program must then succeed or give that code, what succeeded
 * must have happened, and nothing may stay live but what the driver itself refused to take back. */
#include <stdbool.h>

#include "program.h"

#define LARGE ((size_t)3 << 20)
#define SMALL ((size_t)4 << 10)
#define MAPPING ((size_t)2 << 20)
#define MOST_CALLS 60 /* Calls made to fail of one function, with two devices. */

static char host[LARGE];
static const char *failing;     /* The call that fails. */
static int code;                /* With this code. */
static unsigned nth;            /* At this call of it. */
static int bad;                 /* Faults found. */
static char mode;               /* 0, or the letter of the option given. */
static unsigned long long made; /* Calls of it while it was to fail. */

static void complain(const char *what, int value)
{
    printf("%s:%d:%u: %s %d\n", failing, code, nth, what, value);
    bad++;
}

/* True if a call succeeded; any other code than the ordered one is a fault. */
static bool good(const char *what, CUresult result)
{
    if (result != CUDA_SUCCESS && (int)result != code)
        complain(what, (int)result);
    return result == CUDA_SUCCESS;
}

#define GOOD(call) good(#call, call)

/* Writes and reads a block; what all calls claim to have done must be there. */
static void use(CUdeviceptr p, size_t bytes, CUstream stream)
{
    memset(host, 1, bytes);
    bool done = GOOD(cuMemcpyHtoD(p, host, bytes));
    done = done && GOOD(cuMemcpyDtoDAsync(p, p + bytes / 2, bytes / 2, stream));
    done = done && GOOD(cuMemcpyHtoDAsync(p, host, bytes / 4, stream));
    done = done && GOOD(cuMemsetD8Async(p + bytes / 2, 2, bytes / 2, stream));
    done = done && GOOD(cuStreamSynchronize(stream));
    memset(host, 0, bytes);
    done = done && GOOD(cuMemcpyDtoH(host, p, bytes));
    if (done && !(all_are(host, 1, bytes / 2) && all_are(host + bytes / 2, 2, bytes / 2)))
        complain("wrong bytes of block of", (int)bytes);
    done = GOOD(cuMemsetD8(p, 3, bytes)) && GOOD(cuMemcpyDtoHAsync(host, p, bytes, stream)) &&
           GOOD(cuStreamSynchronize(stream));
    if (done && !all_are(host, 3, bytes))
        complain("wrong bytes after a set of", (int)bytes);
}

static void ordinary(size_t bytes, CUstream stream)
{
    CUdeviceptr p = 0;
    if (!GOOD(cuMemAlloc(&p, bytes)))
        return;
    use(p, bytes, stream);
    GOOD(cuMemFree(p));
}

static void stream_ordered(size_t bytes, CUstream stream)
{
    CUdeviceptr p = 0;
    for (int round = 0; round < 3; round++) {
        if (!GOOD(cuMemAllocAsync(&p, bytes, stream)))
            continue;
        use(p, bytes, stream);
        GOOD(cuMemFreeAsync(p, stream));
        if (round)
            GOOD(cuStreamSynchronize(stream));
    }
}

/* Frees a block.  After a refusal it is the program's still, or gone. */
static void give_up(CUdeviceptr p)
{
    CUresult again = GOOD(cuMemFree(p)) ? CUDA_SUCCESS : cuMemFree(p);
    if (again != CUDA_ERROR_INVALID_VALUE)
        good("cuMemFree(p) again", again);
}

/* An array grows four times, the third time with something in between that writes the old one, the
 * last time freed in the order of a stream. */
static void growth(void)
{
    CUdeviceptr array = 0, more = 0;
    bool done = GOOD(cuMemAlloc(&array, LARGE)) && GOOD(cuMemsetD8(array, 1, LARGE));
    for (size_t size = LARGE, round = 0; done && round < 4; size *= 2, round++) {
        if (!GOOD(cuMemAlloc(&more, 2 * size)))
            break;
        done = GOOD(cuMemcpyDtoD(more, array, size));
        if (done && round == 2)
            done = GOOD(cuMemsetD8(array, 9, size));
        if (round < 3 || !GOOD(cuMemFreeAsync(array, NULL)))
            give_up(array);
        array = more;
        done = done && GOOD(cuMemsetD8(array + size, 1, size));
    }
    memset(host, 0, SMALL);
    if (done && GOOD(cuMemcpyDtoH(host, array, SMALL)) && !all_are(host, 1, SMALL))
        complain("wrong bytes after growing", 0);
    if (array)
        give_up(array);
}

/* True if kernels of the current device reach a block, all of it. */
static bool reached(CUdeviceptr p)
{
    return sim_gpu_pointer(p) && sim_gpu_pointer(p + LARGE - 1);
}

/* A block must be reached by the peer, or not, as the call before gave. */
static void must_be_reached(const char *when, CUdeviceptr p, bool reach)
{
    if (p && reached(p) != reach)
        complain(when, reached(p));
}

/* A block of one value in the current context; 0 where that failed. */
static CUdeviceptr block_of(int value)
{
    CUdeviceptr p = 0;
    if (!GOOD(cuMemAlloc(&p, LARGE)))
        return 0;
    if (GOOD(cuMemsetD8(p, (unsigned char)value, LARGE)) && GOOD(cuCtxSynchronize()))
        return p;
    give_up(p);
    return 0;
}

static void must_hold(CUdeviceptr p, int value)
{
    memset(host, 0, LARGE);
    if (p && GOOD(cuMemcpyDtoH(host, p, LARGE)) && !all_are(host, value, LARGE))
        complain("wrong bytes of the block of", value);
}

/* The current device copies a block of another one, in order and in a stream. */
static void far_copies(CUdeviceptr far, int value)
{
    CUdeviceptr near = block_of(9);
    CUstream stream = NULL;
    if (near && GOOD(cuMemcpyDtoD(near, far, LARGE)) && GOOD(cuCtxSynchronize()))
        must_hold(near, value);
    if (near && GOOD(cuStreamCreate(&stream, CU_STREAM_DEFAULT))) {
        memset(host, value, LARGE);
        if (GOOD(cuMemcpyHtoDAsync(far, host, LARGE, stream)) &&
            GOOD(cuMemcpyDtoDAsync(near, far, LARGE, stream)) && GOOD(cuStreamSynchronize(stream)))
            must_hold(near, value);
        GOOD(cuStreamSynchronize(stream));
        GOOD(cuStreamDestroy(stream));
    }
    if (near)
        give_up(near);
}

/* A device uses blocks of another by copies, and by peer access that comes and goes. */
static void peers(CUcontext first, CUcontext second)
{
    CUdeviceptr copied = block_of(1), block = block_of(2), later;
    CHECK(cuCtxSetCurrent(second));
    if (copied)
        far_copies(copied, 1);
    bool on = GOOD(cuCtxEnablePeerAccess(first, 0)) || GOOD(cuCtxEnablePeerAccess(first, 0));
    if (on)
        must_be_reached("not reached after enabling", block, true);
    CHECK(cuCtxSetCurrent(first));
    later = block_of(3);
    CHECK(cuCtxSetCurrent(second));
    if (on)
        must_be_reached("not reached, made later", later, true);
    if (on && !GOOD(cuCtxDisablePeerAccess(first))) {
        must_be_reached("not reached, not disabled", block, true);
        must_be_reached("not reached, not disabled, made later", later, true);
    }
    CHECK(cuCtxSetCurrent(first));
    const CUdeviceptr all[] = {copied, block, later};
    for (int i = 0; i < 3; i++) {
        must_hold(all[i], i + 1);
        if (all[i])
            give_up(all[i]);
    }
}

/* Gives or takes the second device's right to what the pool of the first one has. */
static bool let_pool(CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = flags};
    CUmemoryPool pool;
    desc.location.id = 1;
    return GOOD(cuDeviceGetDefaultMemPool(&pool, 0)) && GOOD(cuMemPoolSetAccess(pool, &desc, 1));
}

/* A device uses a block of another one's pool, while the pool lets it. */
static void pooled(CUcontext first, CUcontext second)
{
    CUdeviceptr p = 0;
    if (!GOOD(cuMemAllocAsync(&p, LARGE, NULL)))
        return;
    CHECK(cuCtxSetCurrent(second));
    must_be_reached("reached before it was let", p, false);
    bool on = let_pool(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    must_be_reached("reached after it was let", p, on);
    on = on && !let_pool(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    must_be_reached("reached after it was no longer let", p, on);
    if (on)
        let_pool(CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(cuCtxSetCurrent(first));
    if (!GOOD(cuMemFreeAsync(p, NULL)))
        give_up(p);
}

/* Handles are made, exported, mapped, used, released early and late. */
static void mapping(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    CUmemAllocationProp told = {0};
    CUdeviceptr p = 0;
    if (!GOOD(cuMemAddressReserve(&p, MAPPING, 0, 0, 0)))
        return;
    for (int round = 0; round < 2; round++) {
        if (!GOOD(cuMemCreate(&handle, MAPPING, &prop, 0)))
            continue;
        if (GOOD(cuMemGetAllocationPropertiesFromHandle(&told, handle)) &&
            told.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            complain("told location", (int)told.location.type);
        bool mapped = GOOD(cuMemMap(p, MAPPING, 0, handle, 0));
        if (round && mapped && GOOD(cuMemRetainAllocationHandle(&again, (void *)p)))
            GOOD(cuMemRelease(again));
        if (mapped && GOOD(cuMemSetAccess(p, MAPPING, &access, 1)))
            use(p, MAPPING, NULL);
        if (round)
            GOOD(cuMemRelease(handle));
        if (!GOOD(cuCtxSynchronize())) /* Unmapping does not wait. */
            GOOD(cuCtxSynchronize());
        if (mapped && !GOOD(cuMemUnmap(p, MAPPING)))
            GOOD(cuMemUnmap(p, MAPPING));
        if (!round)
            GOOD(cuMemRelease(handle));
    }
    GOOD(cuMemAddressFree(p, MAPPING));
}

/* True for the driver's calls that give something back. */
static bool gives_back(const char *name)
{
    return strstr(name, "Free") || strstr(name, "Unmap") || strstr(name, "Release") ||
           strstr(name, "Unregister");
}

/* Free memory with no block is always the same, but where the driver took nothing back. */
static void must_be_free(void)
{
    static size_t before;
    static bool anew = true;
    size_t available;
    CHECK(cuMemGetInfo(&available, NULL));
    if (!anew && available != before)
        complain("KiB free before it", (int)(((long long)available - (long long)before) / 1024));
    before = available;
    anew = failing && gives_back(failing);
}

static void everything(void)
{
    CUstream stream;
    CUcontext second = mode == 'p' ? start_gpu(1) : NULL, first = start_gpu(0);
    must_be_free();
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    sim_reset_counts();
    if (failing)
        sim_fail(failing, (CUresult)code, nth);
    if (mode == 'g') {
        growth();
    } else if (mode == 'v') {
        mapping();
    } else if (second) {
        peers(first, second);
        pooled(first, second);
    } else {
        ordinary(LARGE, stream);
        ordinary(SMALL, stream);
        stream_ordered(LARGE, stream);
        stream_ordered(SMALL, stream);
    }
    made = failing ? sim_calls(failing) : 0;
    sim_fail(NULL, CUDA_SUCCESS, 0);
    end_gpu(0);
    if (second)
        end_gpu(1);
    static size_t refused; /* Live because the driver itself refused to take it back. */
    size_t live = sim_leaks(SIM_LEAK_CLASSES);
    if (failing && gives_back(failing))
        refused = live;
    else if (live != refused)
        complain("leaks", (int)(live - refused));
}

int main(int argc, char **argv)
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};
    mode = (char)(argc > 1 && argv[1][0] == '-' ? argv[1][1] : 0);
    const bool every = mode == 'p'; /* Call of a function. */
    everything();                   /* Without a fault; also for tracing which calls there are. */
    for (int i = mode ? 2 : 1; i < argc; i++)
        for (size_t c = 0; c < (every ? 1 : sizeof(codes) / sizeof(codes[0])); c++) {
            const unsigned most = every ? MOST_CALLS : 3;
            failing = argv[i];
            made = most;
            for (nth = 1; nth <= most && nth <= made; nth++) {
                code = every ? codes[nth % 2] : codes[c]; /* Many calls take turns. */
                everything();
            }
        }
    return bad != 0;
}
