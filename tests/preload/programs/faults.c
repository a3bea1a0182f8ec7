/* faults [-g] NAME...: lets each of these driver calls fail in turn, with several codes, while
 * blocks are made, used and freed; with -g while an array grows. Every call of the program must
 * then succeed or give that code, what succeeded must have happened, and nothing may stay live but
 * what the driver itself refused to take back. */
#include <stdbool.h>

#include "program.h"

#define LARGE ((size_t)3 << 20)
#define SMALL ((size_t)4 << 10)

static char host[LARGE];
static const char *failing; /* The call that fails. */
static int code;            /* With this code. */
static unsigned nth;        /* At this call of it. */
static int bad;             /* Faults found. */
static bool growing;        /* -g was given. */

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

/* An array grows three times, the last time with something in between that writes the old one. */
static void growth(void)
{
    CUdeviceptr array = 0, more = 0;
    bool done = GOOD(cuMemAlloc(&array, SMALL)) && GOOD(cuMemsetD8(array, 1, SMALL));
    for (size_t size = SMALL, round = 0; done && round < 3; size *= 2, round++) {
        if (!GOOD(cuMemAlloc(&more, 2 * size)))
            break;
        done = GOOD(cuMemcpyDtoD(more, array, size));
        if (done && round == 2)
            done = GOOD(cuMemsetD8(array, 9, size));
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

/* True for the driver's calls that give something back. */
static bool gives_back(const char *name)
{
    return strstr(name, "Free") || strstr(name, "Unmap") || strstr(name, "Release");
}

static void everything(void)
{
    CUstream stream;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    if (failing)
        sim_fail(failing, (CUresult)code, nth);
    if (growing) {
        growth();
    } else {
        ordinary(LARGE, stream);
        ordinary(SMALL, stream);
        stream_ordered(LARGE, stream);
        stream_ordered(SMALL, stream);
    }
    sim_fail(NULL, CUDA_SUCCESS, 0);
    end_gpu(0);
    static size_t refused; /* What is live because the driver itself refused to take it back. */
    size_t live = sim_leaks(SIM_LEAK_CLASSES);
    if (failing && gives_back(failing))
        refused = live;
    else if (live != refused)
        complain("leaks", (int)(live - refused));
}

int main(int argc, char **argv)
{
    static const int codes[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY,
                                CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN};
    growing = argc > 1 && !strcmp(argv[1], "-g");
    everything(); /* Without a fault; also for tracing which calls there are. */
    for (int i = 1 + growing; i < argc; i++)
        for (size_t c = 0; c < sizeof(codes) / sizeof(codes[0]); c++)
            for (nth = 1; nth <= 3; nth++) {
                failing = argv[i];
                code = codes[c];
                everything();
            }
    return bad != 0;
}
