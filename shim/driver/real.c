/* SPDX-License-Identifier: MIT */
/* Finds the driver's functions, and maps addresses that the driver hands out to wrappers. */
#include "driver/real.h"

#include <dlfcn.h>
#include <string.h>

struct zc_real zc_real;
void *(*zc_real_dlsym)(void *handle, const char *name);
void *(*zc_real_dlopen)(const char *file, int mode);

/* Name and wrapper of each row; rows that libzc only calls have no wrapper. struct zc_real has its
 * pointers in the same order, as the assertion below checks. */
static const struct {
    const char *name;
    void *wrapper;
} rows[] = {
#define ZC_ROW(name, base, params) {#name, (void *)name},
#include "driver.def"
#define ZC_USE(name, base) {#name, NULL},
#include "driver.def"
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == ZC_FN_COUNT, "one row an entry point");
_Static_assert(sizeof(struct zc_real) == ZC_FN_COUNT * sizeof(void *), "one pointer a row");

/* The names of passthrough.def, those of a row with commas in between. */
static const char *const passed[] = {
#define ZC_PASSTHROUGH(why, ...) #__VA_ARGS__,
#include "passthrough.def"
};

/* A hash table with open addressing, from real addresses to row numbers plus one, ZC_FN_COUNT for
 * functions that are passed.  Slots are claimed by compare and swap, so several threads may fill it
 * with the same pairs. */
#define BUCKETS 2048u
static struct {
    bool found; /* zc_real is filled.  Atomic. */
    struct {
        void *real;
        uint32_t row;
    } bucket[BUCKETS];
} driver;
_Static_assert(ZC_FN_COUNT * 4 < BUCKETS, "half empty, with as many functions passed");

static unsigned bucket_of(const void *address)
{
    return (unsigned)(((uintptr_t)address >> 4) * 0x9E3779B1u >> 7) % BUCKETS;
}

static void remember_real(void *real, uint32_t row)
{
    for (unsigned i = bucket_of(real);; i = (i + 1) % BUCKETS) {
        void *expected = NULL;
        if (__atomic_load_n(&driver.bucket[i].row, __ATOMIC_ACQUIRE) &&
            __atomic_load_n(&driver.bucket[i].real, __ATOMIC_ACQUIRE) == real)
            return;
        if (__atomic_compare_exchange_n(&driver.bucket[i].real, &expected, real, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            expected == real) {
            __atomic_store_n(&driver.bucket[i].row, row + 1, __ATOMIC_RELEASE);
            return;
        }
    }
}

/* The number of the row plus one; 0: none. */
static uint32_t row_of(const void *real)
{
    for (unsigned i = bucket_of(real);
         real && __atomic_load_n(&driver.bucket[i].real, __ATOMIC_ACQUIRE); i = (i + 1) % BUCKETS) {
        uint32_t row = __atomic_load_n(&driver.bucket[i].row, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&driver.bucket[i].real, __ATOMIC_ACQUIRE) == real && row)
            return row;
    }
    return 0;
}

void *zc_wrapper_of(void *real)
{
    uint32_t row = row_of(real);
    return !row ? NULL : row <= ZC_FN_CAUGHT ? rows[row - 1].wrapper : real;
}

/* The row of a wrapper; ZC_FN_CAUGHT for other addresses. */
static uint32_t row_of_wrapper(const void *address)
{
    uint32_t i = 0;
    while (i < ZC_FN_CAUGHT && rows[i].wrapper != address)
        i++;
    return i;
}

bool zc_is_wrapper(const void *address)
{
    return row_of_wrapper(address) < ZC_FN_CAUGHT;
}

const char *zc_real_name(enum zc_fn fn)
{
    return rows[fn].name;
}

bool zc_error_unrelated(CUresult code)
{
    switch (code) {
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS: /* zc_check_sticky() reports it. */
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_NOT_PERMITTED: /* CUDA calls return it inside host functions. */
        return true;
    default:
        return false;
    }
}

/* Stands for functions that the driver lacks, so that libzc's own calls need no test: all driver
 * functions return a CUresult, and callers clean up after an error anyway. */
static CUresult missing_function(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

bool zc_driver_has(const void *wrapper)
{
    void *const *slots = (void *const *)&zc_real;
    uint32_t row = row_of_wrapper(wrapper);
    return row < ZC_FN_CAUGHT &&
           __atomic_load_n(&slots[row], __ATOMIC_ACQUIRE) != (void *)missing_function;
}

static void remember_passed(void *handle, const char *names)
{
    char name[128];
    while (*names) {
        size_t n = strcspn(names, ",");
        if (n < sizeof(name)) {
            memcpy(name, names, n);
            name[n] = '\0';
            void *real = zc_real_dlsym(handle, name);
            if (real)
                remember_real(real, ZC_FN_COUNT);
        }
        names += n + strspn(names + n, ", ");
    }
}

bool zc_real_find(void)
{
    if (__atomic_load_n(&driver.found, __ATOMIC_ACQUIRE))
        return true;
    zc_libc_find();
    if (!zc_real_dlsym || !zc_real_dlopen)
        return false;
    void *handle = zc_real_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); /* Loads nothing. */
    if (!handle)
        return false;
    void **slots = (void **)&zc_real;
    for (uint32_t i = 0; i < ZC_FN_COUNT; i++) {
        void *real = zc_real_dlsym(handle, rows[i].name);
        if (!real || real == rows[i].wrapper)
            real = (void *)missing_function;
        else
            remember_real(real, i);
        __atomic_store_n(&slots[i], real, __ATOMIC_RELEASE);
    }
    for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
        remember_passed(handle, passed[i]);
    __atomic_store_n(&driver.found, true, __ATOMIC_RELEASE);
    return true;
}

/* Looks dlsym up by its glibc versions: 2.34 moved it into libc, 2.2.5 and 2.17 are the first
 * versions on x86-64 and aarch64. dlvsym is not hooked, so this never calls the hook. */
void zc_libc_find(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    if (__atomic_load_n(&zc_real_dlsym, __ATOMIC_ACQUIRE))
        return;
    void *sym = NULL, *open = NULL;
    for (unsigned i = 0; i < 3 && !(sym && open); i++) {
        if (!open)
            open = dlvsym(RTLD_NEXT, "dlopen", versions[i]);
        if (!sym)
            sym = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    __atomic_store_n(&zc_real_dlopen, (void *(*)(const char *, int))open, __ATOMIC_RELEASE);
    __atomic_store_n(&zc_real_dlsym, (void *(*)(void *, const char *))sym, __ATOMIC_RELEASE);
}
