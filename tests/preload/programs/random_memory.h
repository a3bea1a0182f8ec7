/* SPDX-License-Identifier: MIT */
/* Requests, frees and questions of the random program. */
#ifndef RANDOM_MEMORY_H
#define RANDOM_MEMORY_H

#include <sys/mman.h>

#include "random_scene.h"

#define OWN_UNIT ((size_t)2 << 20) /* Of the memory that a program maps. */
#define FIXED_BYTES ((size_t)3 << 20)

static char fixed_memory[THREADS][FIXED_BYTES];

/* Often that of another block: programs have the same bytes on both sides. */
static inline size_t any_size(void)
{
    const struct block *like = one_in(3) ? pick(NULL) : NULL;
    if (like)
        return like->bytes;
    if (!awaits_cpu && one_in(2))
        return ((size_t)1 << 20) + below(3 << 20);
    switch (below(8)) {
    case 0:
        return 1 + below(100);
    case 1:
    case 2:
        return 1 + below(64 << 10);
    case 3:
        return (size_t)4096 << below(10);
    case 4:
        return ((size_t)2 << 20) + below(6 << 20);
    default:
        return (64 << 10) + below(1 << 20);
    }
}

static inline CUmemLocation place_of(int device)
{
    return (CUmemLocation){.type =
                               device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = device < 0 ? 0 : device};
}

static inline CUresult map_own(struct block *b, CUdeviceptr *p)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = place_of(current)};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    b->bytes = (b->bytes + OWN_UNIT - 1) / OWN_UNIT * OWN_UNIT;
    CHECK(cuMemAddressReserve(p, b->bytes, 0, 0, 0));
    CHECK(cuMemCreate(&handle, b->bytes, &prop, 0));
    CHECK(cuMemMap(*p, b->bytes, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    return cuMemSetAccess(*p, b->bytes, &access, 1);
}

static inline CUresult unmap_own(const struct block *b)
{
    CUresult code = cuMemUnmap(address(b, 0), b->bytes);
    CHECK(cuMemAddressFree(address(b, 0), b->bytes));
    return code;
}

static inline CUresult make_device(struct block *b, CUdeviceptr *p, struct stream *s)
{
    size_t pitch = 0, height = 1 + below(20);
    CUresult code;
    switch (b->kind) {
    case DEVICE:
        return cuMemAlloc(p, b->bytes);
    case OWN:
        return map_own(b, p);
    case MANAGED:
        return cuMemAllocManaged(p, b->bytes, CU_MEM_ATTACH_GLOBAL);
    case ASYNC:
        return cuMemAllocAsync(p, b->bytes, s->handle);
    case POOLED:
        return cuMemAllocFromPoolAsync(p, b->bytes, own_pool, s->handle);
    default:
        code = cuMemAllocPitch(p, &pitch, b->bytes / height + 1, height, 4u << below(3));
        b->bytes = pitch * height;
        return code;
    }
}

static inline char *make_host(struct block *b)
{
    void *p = NULL;
    switch (b->kind) {
    case HOST_ALLOC:
        CHECK(cuMemHostAlloc(&p, b->bytes, below(4)));
        return p;
    case MALLOC_HOST:
        CHECK(cuMemAllocHost(&p, b->bytes));
        return p;
    case FIXED:
        b->bytes = b->bytes < FIXED_BYTES ? b->bytes : FIXED_BYTES;
        return fixed_memory[thread_number];
    case STACK:
        b->bytes = b->bytes < FIXED_BYTES ? b->bytes : FIXED_BYTES;
        return stack_memory;
    case MAPPED_FILE:
        p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(p != MAP_FAILED);
        return p;
    default:
        return one_in(3) ? calloc(1, b->bytes) : malloc(b->bytes);
    }
}

static inline bool is_live(enum kind kind)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at && blocks[i].kind == kind)
            return true;
    return false;
}

static inline bool large_heap(const struct block *b)
{
    return b->kind == HEAP && b->bytes > (size_t)1 << 20;
}

/* Memory that a program makes on the device and brings to the host. */
static inline void make_and_copy(const struct block *b, const struct block *twin, struct stream *s)
{
    CUdeviceptr to = address(b, 0);
    size_t n = b->bytes;
    int k = (int)below(256);
    void *args[] = {&to, &n, &k};
    say("made: %d",
        (int)cuLaunchKernel(make_kernel[current], 1, 1, 1, 1, 1, 1, 0, s->handle, args, NULL));
    say("brought: %d", (int)cuMemcpyDtoH(twin->at, to, n));
}

/* Fills a free slot; what it gets is written whole, so that nothing reads what nobody wrote. */
static inline void make_block(struct block *b)
{
    static const enum kind kinds[] = {DEVICE,     DEVICE,     DEVICE,      DEVICE, PITCHED,
                                      MANAGED,    ASYNC,      ASYNC,       POOLED, OWN,
                                      HOST_ALLOC, HOST_ALLOC, MALLOC_HOST, HEAP,   HEAP,
                                      HEAP,       HEAP,       FIXED,       STACK,  MAPPED_FILE};
    CUdeviceptr p = 0;
    CUresult code;
    struct stream *s = any_stream();
    b->kind = kinds[below(sizeof(kinds) / sizeof(*kinds))];
    struct block *twin = b->kind == DEVICE && one_in(2) ? pick(large_heap) : NULL;
    b->bytes = twin ? twin->bytes : any_size();
    b->device = current;
    b->last = NULL;
    b->held = 0;
    if ((b->kind == FIXED || b->kind == STACK) && is_live(b->kind))
        b->kind = HEAP;
    if (b->kind == POOLED && current != 0)
        b->kind = ASYNC;
    if (!on_device(b)) {
        b->at = make_host(b);
        scribble(b->at, b->bytes);
        say("host block %d kind %d of %zu", (int)(b - blocks), (int)b->kind, b->bytes);
        return;
    }
    code = make_device(b, &p, s);
    say("device block %d kind %d of %zu on %d: %d", (int)(b - blocks), (int)b->kind, b->bytes,
        current, (int)code);
    if (code != CUDA_SUCCESS)
        return;
    b->at = (char *)(uintptr_t)p;
    if (b->kind == ASYNC || b->kind == POOLED)
        b->last = s;
    else
        s = legacy(current);
    take(s, b);
    if (twin) {
        settle(twin);
        if (kernels && !reads_only && one_in(2))
            make_and_copy(b, twin, s);
        else
            say("filled: %d", (int)cuMemcpyHtoD(p, twin->at, b->bytes));
        return;
    }
    say("set: %d", (int)cuMemsetD8Async(p, (unsigned char)below(256), b->bytes, s->handle));
}

static inline void drop_block(struct block *b)
{
    CUresult code = CUDA_SUCCESS;
    struct stream *s = any_stream();
    if (b->held)
        return;
    bool in_order = b->kind < OWN && b->kind != MANAGED && b->device == current &&
                    (b->kind >= ASYNC ? !one_in(4) : one_in(6));
    if (in_order) {
        take(s, b);
        code = cuMemFreeAsync(address(b, 0), s->handle);
    } else {
        bool waits = b->kind <= PITCHED && (!b->last || b->last->device == b->device);
        if (!waits || one_in(2))
            settle(b);
        switch (b->kind) {
        case HOST_ALLOC:
        case MALLOC_HOST:
            code = cuMemFreeHost(b->at);
            break;
        case REGISTERED:
            code = cuMemHostUnregister(b->at); /* fall through */
        case HEAP:
            free(b->at);
            break;
        case OWN:
            code = unmap_own(b);
            break;
        case FIXED:
        case STACK:
            break;
        case MAPPED_FILE:
            munmap(b->at, b->bytes);
            break;
        default:
            code = cuMemFree(address(b, 0));
        }
    }
    say("drop block %d kind %d%s: %d", (int)(b - blocks), (int)b->kind, in_order ? " in order" : "",
        (int)code);
    if (threads == 1 && !in_order && on_device(b) && one_in(4))
        say("again: %d", (int)cuMemFree(address(b, 0)));
    b->at = NULL;
}

static inline void make_or_drop(void)
{
    struct block *b = &blocks[below(BLOCKS)];
    if (b->at)
        drop_block(b);
    else
        make_block(b);
}

static inline bool growable(const struct block *b)
{
    return b->kind == DEVICE && !b->held && b->device == current && b->bytes < (size_t)3 << 20;
}

/* An array grows as programs let it: a larger block, a copy, and the old one is freed. */
static inline void grow_array(void)
{
    struct block *old = pick(growable), *b = blocks;
    CUdeviceptr p = 0;
    while (b < blocks + BLOCKS && b->at)
        b++;
    if (!old || b == blocks + BLOCKS)
        return;
    *b = (struct block){.kind = DEVICE, .bytes = old->bytes + below(1 << 20), .device = current};
    CHECK(cuMemAlloc(&p, b->bytes));
    b->at = (char *)(uintptr_t)p;
    take(legacy(current), old);
    take(legacy(current), b);
    if (one_in(2) && b->bytes > old->bytes)
        CHECK(cuMemsetD8(p + old->bytes, 9, b->bytes - old->bytes));
    say("grow %d from %zu to %d, %zu: %d", (int)(old - blocks), old->bytes, (int)(b - blocks),
        b->bytes, (int)cuMemcpyDtoD(p, address(old, 0), old->bytes));
    if (one_in(8))
        show_content("grow:", old);
    drop_block(old);
    if (b->bytes > old->bytes)
        CHECK(cuMemsetD8(p + old->bytes, 5, b->bytes - old->bytes));
    if (one_in(2))
        show_content("grown:", b);
}

static inline bool in_heap(const struct block *b)
{
    return b->kind == HEAP && !b->held;
}

static inline bool is_registered(const struct block *b)
{
    return b->kind == REGISTERED && !b->held;
}

static inline void resize(void)
{
    struct block *b = pick(in_heap);
    if (!b)
        return;
    size_t bytes = any_size(), kept = bytes < b->bytes ? bytes : b->bytes;
    settle(b);
    b->at = realloc(b->at, bytes);
    say("realloc %d from %zu to %zu keeps %016llx", (int)(b - blocks), b->bytes, bytes,
        checksum(b->at, kept));
    scribble(b->at + kept, bytes - kept);
    b->bytes = bytes;
}

static inline void register_or_not(void)
{
    struct block *b = pick(one_in(2) ? in_heap : is_registered);
    if (!b)
        return;
    settle(b);
    bool was = b->kind == REGISTERED;
    CUresult code = was ? cuMemHostUnregister(b->at) : cuMemHostRegister(b->at, b->bytes, below(4));
    say("%sregister %d: %d", was ? "un" : "", (int)(b - blocks), (int)code);
    if (code == CUDA_SUCCESS) {
        b->kind = was ? HEAP : REGISTERED;
        b->device = current;
    }
    if (one_in(4) && !was)
        say("twice: %d", (int)cuMemHostRegister(b->at, b->bytes, 0));
}

/* The CPU reads or writes a part of a host block, or of a managed one. */
static inline bool cpu_reaches(const struct block *b)
{
    return !b->held && (!on_device(b) || b->kind == MANAGED);
}

static inline void touch(void)
{
    struct block *b = pick(cpu_reaches);
    if (!b)
        return;
    size_t low = below(b->bytes), n = 1 + below(b->bytes - low);
    settle(b);
    say("the CPU reads %d: %016llx", (int)(b - blocks), checksum(b->at + low, n));
    if (one_in(2))
        scribble(b->at + low, n);
}

static inline void show_relative(const char *what, CUresult code, CUdeviceptr is, CUdeviceptr base)
{
    say("%s: %d %s%lld", what, (int)code, code || !is ? "none " : "",
        code || !is ? 0 : (long long)(is - base));
}

/* Attributes whose values are addresses, handles or unique numbers, and the two that differ on
 * purpose for converted blocks. */
static inline bool tells_nothing(int attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return true;
    default:
        return false;
    }
}

static inline void ask_attributes(struct block *b, size_t offset)
{
    CUdeviceptr at = address(b, offset), base = address(b, 0), p = 0;
    for (int a = 1; a <= 23; a++) {
        unsigned long long value[2] = {0, 0};
        if (tells_nothing(a))
            continue;
        CUresult code = cuPointerGetAttribute(value, (CUpointer_attribute)a, at);
        say("attribute %d: %d %llx", a, (int)code, code ? 0 : value[0]);
    }
    CUresult code = cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at);
    show_relative("device pointer", code, p, base);
    code = cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_HOST_POINTER, at);
    show_relative("host pointer", code, p, base);
    code = cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at);
    show_relative("range start", code, p, base);
    CUcontext owner = NULL;
    code = cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, at);
    say("context: %d %d %d", (int)code, owner == contexts[0], owner == contexts[1]);
    CUmemoryPool pool = NULL;
    code = cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, at);
    say("pool: %d %d %d", (int)code, pool == own_pool, pool == NULL);
}

/* Several attributes by one call, and those of managed memory. */
static inline void ask_together(struct block *b, size_t offset)
{
    static const CUmem_range_attribute ranges[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                                   CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                                   CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 77, managed = 77;
    int device = 77, hint[3] = {77, 77, 77};
    void *answers[] = {&type, &managed, &device};
    CUresult code = cuPointerGetAttributes(3, which, answers, address(b, offset));
    say("together: %d %u %u %d", (int)code, type, managed & 1, device);
    for (int a = 0; a < 3; a++) {
        code = cuMemRangeGetAttribute(&hint[a], 4, ranges[a], address(b, 0), b->bytes);
        say("of the range: %d %d", (int)code, hint[a]);
    }
}

static inline void ask(void)
{
    struct block *b = pick(NULL);
    CUdeviceptr base = 77;
    size_t bytes = 77, free_bytes = 0, total = 0;
    unsigned flags = 77;
    if (!b)
        return;
    say("ask about %d kind %d", (int)(b - blocks), (int)b->kind);
    size_t offset = one_in(2) ? 0 : below(b->bytes);
    CUresult code = cuMemGetAddressRange(&base, &bytes, address(b, offset));
    show_relative("range", code, base, address(b, 0));
    say("size %zu", code ? 0 : bytes);
    ask_attributes(b, offset);
    ask_together(b, offset);
    code = cuMemHostGetFlags(&flags, b->at + offset);
    say("flags: %d %u", (int)code, code ? 0 : flags);
    code = cuMemHostGetDevicePointer(&base, b->at + offset, 0);
    show_relative("mapped at", code, base, address(b, 0));
    code = cuMemGetInfo(&free_bytes, &total);
    say("info: %d %d %zu", (int)code, free_bytes <= total, total);
}

/* Calls that want a context, where none is current. */
static inline void without_context(struct block *b)
{
    CUdeviceptr p = 0;
    char word[4] = {0};
    settle(b);
    CHECK(cuCtxSetCurrent(NULL));
    say("no context: %d", (int)cuMemAlloc(&p, 70000));
    if (on_device(b)) {
        say("no context: %d", (int)cuMemcpyDtoH(word, address(b, 0), 1));
        say("no context: %d", (int)cuMemcpyHtoDAsync(address(b, 0), word, 1, NULL));
        say("no context: %d", (int)cuMemsetD8(address(b, 0), 0, 1));
    }
    say("no context: %d", (int)cuMemcpy(address(b, 0), (CUdeviceptr)(uintptr_t)word, 0));
    say("no context: %d", (int)cuMemGetAddressRange(&p, NULL, address(b, 0)));
    CHECK(cuCtxSetCurrent(contexts[current]));
}

/* Calls that CUDA refuses, whatever the memory. */
static inline void mistake(void)
{
    struct block *b = pick(NULL);
    int word = 0;
    if (!b)
        return;
    say("mistakes with %d kind %d", (int)(b - blocks), (int)b->kind);
    switch (below(8)) {
    case 7:
        without_context(b);
        break;
    case 0:
        say("free of nothing: %d", (int)cuMemFree(0));
        break;
    case 1:
        if (b->bytes > 1)
            say("inner free: %d", (int)cuMemFree(address(b, 1)));
        break;
    case 2:
        say("low address: %d", (int)cuMemcpyDtoH(&word, 16, 4));
        break;
    case 3:
        if (!pinned(b))
            say("host free: %d", (int)cuMemFreeHost(b->at + (b->bytes > 1)));
        break;
    case 4:
        if (b->kind != REGISTERED)
            say("unregister: %d", (int)cuMemHostUnregister(b->at));
        break;
    case 5:
        say("empty: %d", (int)cuMemAlloc(&(CUdeviceptr){0}, 0));
        break;
    default:
        say("huge: %d", (int)cuMemAlloc(&(CUdeviceptr){0}, (size_t)1 << 50));
    }
}

static inline void hint(void)
{
    struct block *b = pick(NULL);
    struct stream *s = any_stream();
    if (!b || pageable(b))
        return;
    take(s, b);
    CUmemLocation where = place_of((int)below(3) - 1);
    if (one_in(2))
        say("prefetch %d: %d", (int)(b - blocks),
            (int)cuMemPrefetchAsync(address(b, 0), b->bytes, where, 0, s->handle));
    else
        say("advise %d: %d", (int)(b - blocks),
            (int)cuMemAdvise(address(b, 0), b->bytes, (CUmem_advise)(1 + below(6)), where));
}

#endif
