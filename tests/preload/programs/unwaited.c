/* SPDX-License-Identifier: MIT */
/* Synchronous calls whose memory is all on the device return before their stream has come to them
 * (CUDA Driver API, "API synchronization behavior").
 *
 *   unwaited CALL     makes it on a stream that waits for the program
 *   unwaited list     prints the calls
 */
#include "program.h"

#define SIDE ((size_t)256) /* Rows, and bytes of a row. */
#define BYTES (SIDE * SIDE)

#define IN_ROWS .srcPitch = SIDE, .dstPitch = SIDE, .WidthInBytes = SIDE, .Height = SIDE
#define FROM_P .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p
#define TO_Q .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = q

/* Each call, its parameters, and the byte that `q` is then full of: what `p` was before, or is set
 * to. */
#define CALLS(CALL)                                                                                \
    CALL(cuMemcpy, (q, p, BYTES), 7)                                                               \
    CALL(cuMemcpyDtoD_v2, (q, p, BYTES), 7)                                                        \
    CALL(cuMemcpy2D_v2, (&rows), 7)                                                                \
    CALL(cuMemcpy2DUnaligned_v2, (&rows), 7)                                                       \
    CALL(cuMemcpy3D_v2, (&box), 7)                                                                 \
    CALL(cuMemsetD8_v2, (p, 5, BYTES), 5)                                                          \
    CALL(cuMemsetD16_v2, (p, 0x505, BYTES / 2), 5)                                                 \
    CALL(cuMemsetD32_v2, (p, 0x5050505, BYTES / 4), 5)                                             \
    CALL(cuMemsetD2D8_v2, (p, SIDE, 5, SIDE, SIDE), 5)                                             \
    CALL(cuMemsetD2D16_v2, (p, SIDE, 0x505, SIDE / 2, SIDE), 5)                                    \
    CALL(cuMemsetD2D32_v2, (p, SIDE, 0x5050505, SIDE / 4, SIDE), 5)

/* cuda.h does not declare the twins. */
#define DECLARE(name, args, value) extern __typeof__(name) name##_ptds;
CALLS(DECLARE)

/* Makes the call, if its name is one of these, and returns the value; else 0. */
static int make(const char *call, CUdeviceptr q, CUdeviceptr p)
{
    CUDA_MEMCPY2D rows = {IN_ROWS, FROM_P, TO_Q};
    CUDA_MEMCPY3D box = {IN_ROWS, .Depth = 1, .srcHeight = SIDE, .dstHeight = SIDE, FROM_P, TO_Q};
#define MAKE(name, args, value)                                                                    \
    if (!strcmp(call, #name)) {                                                                    \
        CHECK(name args);                                                                          \
        return value;                                                                              \
    }                                                                                              \
    if (!strcmp(call, #name "_ptds")) {                                                            \
        CHECK(name##_ptds args);                                                                   \
        return value;                                                                              \
    }
    CALLS(MAKE)
    return 0;
}

/* Through an array and back, for which there are calls of rows alone. */
static int make_array(const char *call, CUdeviceptr q, CUdeviceptr p)
{
    CUDA_ARRAY_DESCRIPTOR shape = {SIDE, SIDE, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    if (strcmp(call, "array"))
        return 0;
    CHECK(cuArrayCreate(&array, &shape));
    CUDA_MEMCPY2D in = {IN_ROWS, FROM_P, .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array};
    CUDA_MEMCPY2D out = {IN_ROWS, TO_Q, .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array};
    CHECK(cuMemcpy2D(&in));
    CHECK(cuMemcpy2D(&out));
    return 7;
}

static void list(void)
{
#define NAME(name, args, value) puts(#name "\n" #name "_ptds");
    CALLS(NAME)
    puts("array");
}

static void run(const char *call)
{
    static unsigned char seen[BYTES];
    CUstream stream = strstr(call, "_ptds") ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    struct gate gate;
    CUdeviceptr p, q;
    start_gpu(0);
    CHECK(cuMemAlloc(&p, BYTES));
    CHECK(cuMemAlloc(&q, BYTES));
    gate_close(&gate, stream);
    fill(p, 7, BYTES, stream);
    int value = make(call, q, p) + make_array(call, q, p);
    EXPECT(value != 0);
    if (value == 5)
        CHECK(cuMemcpyDtoDAsync(q, p, BYTES, stream));
    fill(p, 9, BYTES, stream);
    EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(seen, q, BYTES));
    EXPECT(all_are(seen, value, BYTES));
    CHECK(cuMemcpyDtoH(seen, p, BYTES));
    EXPECT(all_are(seen, 9, BYTES));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "list"))
        list();
    else
        run(argc > 1 ? argv[1] : "");
    return 0;
}
