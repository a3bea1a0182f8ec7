/* SPDX-License-Identifier: MIT */
/* lessons ROUNDS [KIND...]: a program whose best policy is known. In each round it allocates, uses
 * and frees blocks of malloc: `often` 32 MiB that are copied four times, `vain` 32 MiB of which
 * an eighth is copied once, and which stay until the end, `never` 32 MiB that never are, `small`
 * eight of 1 MiB that are copied eight times each, `idle` eight of 1 MiB that never are; and if
 * they are named `ragged` as `vain`, but freed, and 2 MiB larger in each round, so that none can
 * have the memory of one before, `served` eight of 3 MiB that are copied once, one after the other,
 * and `kept` the same, which stay until the end, and `moody` 32 of 1 MiB, of which the first,
 * second, fourth and so on are copied. Each kind has a call path of its own; without any it is the
 * first five. With `turned` as the last word those of `vain`, `ragged` and `kept` are copied four
 * times, whole or 32 MiB, with `midway` from the middle of the rounds on, with `odd` in each odd
 * round; `fail` ends with status 3, `kill` by SIGKILL. Prints the sum of bytes that came back. */
#include <cuda.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE ((size_t)32 << 20)
#define SMALL ((size_t)1 << 20)
#define THREE ((size_t)3 << 20)

static CUdeviceptr table;
static int sum, turned, now; /* `now`: the round. */

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
}

/* The same for a block that is freed then. */
static void use_once(char *block, size_t size, size_t part, int times)
{
    use(block, size, part, times);
    free(block);
}

#define KIND(name, size, part, times, blocks)                                                      \
    __attribute__((noinline)) static void name(void)                                               \
    {                                                                                              \
        for (int i = 0; i < (blocks); i++)                                                         \
            use_once(malloc(size), size, part, times);                                             \
    }

KIND(often, LARGE, LARGE, 4, 1)
KIND(never, LARGE, 0, 0, 1)
KIND(small, SMALL, SMALL, 8, 8)
KIND(idle, SMALL, 0, 0, 8)
KIND(ragged, LARGE + ((size_t)now << 21), turned ? LARGE : LARGE / 8, turned ? 4 : 1, 1)
KIND(moody, SMALL, SMALL, (now * 32 + i) & (now * 32 + i + 1) ? 0 : 8, 32)
KIND(served, THREE, THREE, 1, 8)

__attribute__((noinline)) static void vain(void)
{
    use(malloc(LARGE), LARGE, turned ? LARGE : LARGE / 8, turned ? 4 : 1);
}

__attribute__((noinline)) static void kept(void)
{
    for (int i = 0; i < 8; i++)
        use(malloc(THREE), THREE, THREE, turned ? 4 : 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {{"often", often},   {"vain", vain}, {"never", never},
                 {"small", small},   {"idle", idle}, {"ragged", ragged},
                 {"served", served}, {"kept", kept}, {"moody", moody}};
    const char *last = argv[argc - 1];
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    CUcontext context;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&table, LARGE) != CUDA_SUCCESS)
        return 1;
    for (; now < rounds; now++)
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            int asked = argc < 3 && i < 5;
            turned = !strcmp(last, "turned") || (!strcmp(last, "midway") && now >= rounds / 2) ||
                     (!strcmp(last, "odd") && now % 2);
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
