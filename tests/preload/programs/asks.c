/* SPDX-License-Identifier: MIT */
/* asks [BYTES]: names ranges and asks what its memory is in, by zc.h.  Prints what it is told. */
#include "include/zc.h"
#include "program.h"

#define MIB ((size_t)1 << 20)

static char host[2 * MIB];

static void tell(const char *of, uintptr_t address, CUdeviceptr base)
{
    struct zc_memory m;
    if (!zc_query((const void *)address, &m)) {
        printf("%s: unknown\n", of);
        return;
    }
    EXPECT(m.address == base && m.site != 0 && m.device == 0);
    printf("%s: %llu of %s in %s, %s, rule %s, %lld on the device\n", of,
           (unsigned long long)m.bytes, m.request, m.place, m.kind, m.rule ? m.rule : "-",
           (long long)m.device_bytes);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : MIB + 1;
    CUdeviceptr block;
    void *pinned;
    int level = zc_push("outer");
    start_gpu(0);
    printf("present %d level %d\n", zc_present(), level);
    CHECK(cuMemAlloc(&block, bytes));
    tell("new", block, block);
    level = zc_push("inner");
    CHECK(cuMemcpyHtoD(block, host, MIB));
    int inner = zc_pop(), outer = zc_pop();
    printf("level %d %d %d %d\n", level, inner, outer, zc_pop());
    tell("used", block + MIB, block);
    CHECK(cuMemHostAlloc(&pinned, MIB, 0));
    tell("pinned", (uintptr_t)pinned, (CUdeviceptr)(uintptr_t)pinned);
    tell("static", (uintptr_t)host, 0);
    CHECK(cuMemFree(block));
    tell("freed", block, block);
    CHECK(cuMemFreeHost(pinned));
    end_gpu(0);
    return 0;
}
