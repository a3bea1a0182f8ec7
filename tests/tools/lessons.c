/* SPDX-License-Identifier: MIT */
/* lessons ROUNDS [KIND...]: a program whose best policy is known. In each round it allocates, uses
 * and frees blocks of malloc: `often` 32 MiB that are copied four times, `vain` 32 MiB of which
 * an eighth is copied once, `never` 32 MiB that never are, `small` eight of 256 KiB that are copied
 * eight times each, `idle` eight of 256 KiB that never are. Each kind has a call path of its own;
 * without any it is all of them. With `turned` as the last word those of `vain` are copied whole,
 * four times; `fail` ends with status 3, `kill` by SIGKILL. Prints the sum of bytes that came back.
 */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)32 << 20)
#define SMALL ((size_t)256 << 10)

static CUdeviceptr table;
static int sum, turned;

/* Copies a part of a block so many times, and a byte of it back. */
static void use(char *block, size_t size, size_t part, int times)
{
    char last = 0;
    memset(block, 7, size);
    for (int i = 0; i < times; i++)
        if (cuMemcpyHtoD(table, block, part) != CUDA_SUCCESS)
            exit(1);
    if (times && cuMemcpyDtoH(&last, table + part - 1, 1) != CUDA_SUCCESS)
        exit(1);
    sum += last;
    free(block);
}

#define KIND(name, size, part, times, blocks)                                                      \
    __attribute__((noinline)) static void name(void)                                               \
    {                                                                                              \
        for (int i = 0; i < (blocks); i++)                                                         \
            use(malloc(size), size, part, times);                                                  \
    }

KIND(often, LARGE, LARGE, 4, 1)
KIND(vain, LARGE, turned ? LARGE : LARGE / 8, turned ? 4 : 1, 1)
KIND(never, LARGE, 0, 0, 1)
KIND(small, SMALL, SMALL, 8, 8)
KIND(idle, SMALL, 0, 0, 8)

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {
        {"often", often}, {"vain", vain}, {"never", never}, {"small", small}, {"idle", idle}};
    const char *last = argv[argc - 1];
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    CUcontext context;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&table, LARGE) != CUDA_SUCCESS)
        return 1;
    turned = !strcmp(last, "turned");
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            int asked = argc < 3;
            for (int at = 2; at < argc; at++)
                asked |= !strcmp(argv[at], kinds[i].name);
            if (asked)
                kinds[i].run();
        }
    printf("%d\n", sum);
    if (!strcmp(last, "kill"))
        raise(SIGKILL);
    return strcmp(last, "fail") ? 0 : 3;
}
