/* SPDX-License-Identifier: MIT */
/*
 * grow_vmm [chunks [chunk_bytes [step_chunks]]]: grow as an expert writes it with the driver's
 * virtual memory management: addresses for the full length are reserved, and physical memory is
 * mapped behind them as the capacity grows, so nothing is ever copied.
 */
#include <cuda.h>

#include "grow.h"

#define CHECK_DRIVER(call) check_driver((call), #call)
#define MAX_PIECES 4096

/* A reserved range and what is mapped into it. */
struct pieces {
    CUdeviceptr base;
    size_t reserved, mapped; /* bytes; mapped from the base on */
    size_t granularity;      /* of a piece */
    CUmemAllocationProp properties;
    size_t count; /* pieces */
    CUmemGenericAllocationHandle handle[MAX_PIECES];
};

static void check_driver(CUresult error, const char *call)
{
    if (error != CUDA_SUCCESS) {
        fprintf(stderr, "%s: driver error %d\n", call, (int)error);
        exit(EXIT_CUDA);
    }
}

static size_t rounded(const struct pieces *p, size_t bytes)
{
    return (bytes + p->granularity - 1) / p->granularity * p->granularity;
}

static void pieces_open(struct pieces *p, size_t full)
{
    p->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK_DRIVER(cuMemGetAllocationGranularity(&p->granularity, &p->properties,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    p->reserved = rounded(p, full);
    CHECK_DRIVER(cuMemAddressReserve(&p->base, p->reserved, 0, 0, 0));
}

/* Maps memory up to `capacity`, as far as there are addresses. */
static void pieces_grow(struct pieces *p, size_t capacity)
{
    size_t end = capacity < p->reserved ? rounded(p, capacity) : p->reserved;
    size_t bytes = end - p->mapped;
    CUmemAccessDesc access = {};

    if (end <= p->mapped)
        return;
    if (p->count == MAX_PIECES) {
        fprintf(stderr, "grow_vmm: more than %d pieces\n", MAX_PIECES);
        exit(EXIT_USAGE);
    }
    access.location = p->properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK_DRIVER(cuMemCreate(&p->handle[p->count], bytes, &p->properties, 0));
    CHECK_DRIVER(cuMemMap(p->base + p->mapped, bytes, 0, p->handle[p->count], 0));
    CHECK_DRIVER(cuMemSetAccess(p->base + p->mapped, bytes, &access, 1));
    p->count++;
    p->mapped = end;
}

static void pieces_close(struct pieces *p)
{
    CHECK_DRIVER(cuMemUnmap(p->base, p->mapped));
    for (size_t i = 0; i < p->count; i++)
        CHECK_DRIVER(cuMemRelease(p->handle[i]));
    CHECK_DRIVER(cuMemAddressFree(p->base, p->reserved));
}

int main(int argc, char **argv)
{
    struct report report = {};
    struct grow_sizes s = grow_arguments(argc, argv, &report);
    static struct pieces p;
    size_t capacity = s.chunk;
    uint64_t checksum;

    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    pieces_open(&p, s.full);
    pieces_grow(&p, capacity);
    unsigned *vector = (unsigned *)(uintptr_t)p.base;
    for (size_t used = 0; used < s.full; used += s.chunk) {
        if (used + s.chunk > capacity) {
            capacity = next_capacity(&s, capacity);
            pieces_grow(&p, capacity);
        }
        launch_append(vector, used, &s);
    }
    CHECK(cudaDeviceSynchronize());
    phase_end(&report, "grow");

    int verified = grow_verify(vector, &s, &checksum);

    phase_begin(&report);
    pieces_close(&p);
    phase_end(&report, "free");
    return report_print(&report, "grow_vmm", checksum, verified);
}
