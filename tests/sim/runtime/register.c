/* SPDX-License-Identifier: MIT */
/*
 * Registrations by nvcc's generated constructors: binaries, their kernels and their variables.  A
 * binary is loaded when one of its symbols is first needed, as with CUDA_MODULE_LOADING=LAZY.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>

/* One __cudaRegisterFatBinary; its address is the handle that the generated code keeps. */
struct binary {
    const void *image; /* nvcc's wrapper around the fat binary */
    CUlibrary library; /* NULL until it is loaded */
    struct binary *next;
};

enum symbol_kind { SYMBOL_KERNEL, SYMBOL_VARIABLE, SYMBOL_MANAGED };

/* One kernel or variable of a binary. */
struct symbol {
    const void *host; /* stub's address, shadow's address, or the managed pointer's address */
    const char *name; /* mangled name; borrowed from the program's image */
    struct binary *binary;
    enum symbol_kind kind;
    CUkernel kernel; /* SYMBOL_KERNEL, NULL until it was looked up */
    struct symbol *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lists and what they hold */
static struct binary *binaries;
static struct symbol *symbols;

/* The generated code declares these in crt/host_runtime.h, which only nvcc may include. */
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
                            const char *name, int thread_limit, uint3 *tid, uint3 *bid, dim3 *block,
                            dim3 *grid, int *warp_size);
void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name,
                       int external, size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **host, char *device_address, const char *name,
                              int external, size_t bytes, int constant, int global);
char __cudaInitModule(void **handle);

void **__cudaRegisterFatBinary(void *image)
{
    struct binary *binary = calloc(1, sizeof(*binary));

    if (binary == NULL)
        return NULL;
    binary->image = image;
    pthread_mutex_lock(&lock);
    binary->next = binaries;
    binaries = binary;
    pthread_mutex_unlock(&lock);
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

static void add_symbol(void **handle, const void *host, const char *name, enum symbol_kind kind)
{
    struct symbol *symbol = handle != NULL ? calloc(1, sizeof(*symbol)) : NULL;

    if (symbol == NULL)
        return;
    symbol->host = host;
    symbol->name = name;
    symbol->binary = (struct binary *)handle;
    symbol->kind = kind;
    pthread_mutex_lock(&lock);
    symbol->next = symbols;
    symbols = symbol;
    pthread_mutex_unlock(&lock);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
                            const char *name, int thread_limit, uint3 *tid, uint3 *bid, dim3 *block,
                            dim3 *grid, int *warp_size)
{
    (void)device_function, (void)thread_limit, (void)tid, (void)bid;
    (void)block, (void)grid, (void)warp_size;
    add_symbol(handle, host, name, SYMBOL_KERNEL);
}

void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *name,
                       int external, size_t bytes, int constant, int global)
{
    (void)device_address, (void)external, (void)bytes, (void)constant, (void)global;
    add_symbol(handle, host, name, SYMBOL_VARIABLE);
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device_address, const char *name,
                              int external, size_t bytes, int constant, int global)
{
    (void)device_address, (void)external, (void)bytes, (void)constant, (void)global;
    add_symbol(handle, host, name, SYMBOL_MANAGED);
}

/* With the lock held and a context current. */
static CUresult load_binary(struct binary *binary)
{
    if (binary->library != NULL)
        return CUDA_SUCCESS;
    return rt_driver.cuLibraryLoadData(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL,
                                       0);
}

/* Gives the program's managed pointers of one binary their values; called before main. */
char __cudaInitModule(void **handle)
{
    struct binary *binary = (struct binary *)handle;
    CUresult result;

    if (binary == NULL || rt_enter() != cudaSuccess)
        return 0;
    pthread_mutex_lock(&lock);
    result = load_binary(binary);
    for (struct symbol *s = symbols; s != NULL && result == CUDA_SUCCESS; s = s->next) {
        CUdeviceptr address;
        size_t bytes;

        if (s->binary != binary || s->kind != SYMBOL_MANAGED)
            continue;
        result = rt_driver.cuLibraryGetManaged(&address, &bytes, binary->library, s->name);
        if (result == CUDA_SUCCESS)
            *(void **)(uintptr_t)s->host = (void *)(uintptr_t)address;
    }
    pthread_mutex_unlock(&lock);
    return rt_return(result) == cudaSuccess;
}

static void drop_symbols_of(const struct binary *binary)
{
    struct symbol **link = &symbols;

    while (*link != NULL) {
        struct symbol *symbol = *link;

        if (symbol->binary == binary) {
            *link = symbol->next;
            free(symbol);
        } else {
            link = &symbol->next;
        }
    }
}

/*
 * Called by the program's exit handlers, and where a plugin is unloaded.  As in NVIDIA's runtime
 * the driver hears of it in close_runtime only.
 */
void __cudaUnregisterFatBinary(void **handle)
{
    pthread_mutex_lock(&lock);
    drop_symbols_of((struct binary *)handle);
    pthread_mutex_unlock(&lock);
}

/*
 * The runtime's own end, after the program's exit handlers.  The driver may be gone by then; it
 * says so by itself (CUDA_ERROR_DEINITIALIZED), and there is no one to tell.
 */
static void __attribute__((destructor)) close_runtime(void)
{
    while (binaries != NULL) {
        struct binary *binary = binaries;

        binaries = binary->next;
        if (binary->library != NULL)
            (void)rt_driver.cuLibraryUnload(binary->library);
        drop_symbols_of(binary);
        free(binary);
    }
    rt_release_contexts();
}

/* With the lock held. */
static struct symbol *find_symbol(const void *host, bool kernel)
{
    struct symbol *s = symbols;

    while (s != NULL && (s->host != host || (s->kind == SYMBOL_KERNEL) != kernel))
        s = s->next;
    return s;
}

cudaError_t rt_kernel(const void *stub, CUkernel *kernel_out)
{
    CUresult result = CUDA_SUCCESS;
    struct symbol *symbol;

    pthread_mutex_lock(&lock);
    symbol = find_symbol(stub, true);
    if (symbol != NULL && symbol->kernel == NULL) {
        result = load_binary(symbol->binary);
        if (result == CUDA_SUCCESS)
            result = rt_driver.cuLibraryGetKernel(&symbol->kernel, symbol->binary->library,
                                                  symbol->name);
    }
    if (symbol == NULL || result == CUDA_ERROR_NOT_FOUND)
        result = (CUresult)cudaErrorInvalidDeviceFunction;
    else
        *kernel_out = symbol->kernel;
    pthread_mutex_unlock(&lock);
    return (cudaError_t)result;
}

/* A CUkernel serves as a CUfunction (CUDA Driver API, cuLaunchKernel). */
cudaError_t rt_enter_function(const void *stub, CUfunction *function_out)
{
    cudaError_t error = rt_enter();
    CUkernel kernel;

    if (error != cudaSuccess)
        return error;
    error = rt_kernel(stub, &kernel);
    *function_out = error == cudaSuccess ? (CUfunction)kernel : (CUfunction)(uintptr_t)stub;
    if (error == cudaErrorInvalidDeviceFunction)
        error = cudaSuccess;
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t rt_symbol(const void *host, CUdeviceptr *address_out, size_t *bytes_out)
{
    CUresult result = (CUresult)cudaErrorInvalidSymbol;
    struct symbol *symbol;

    pthread_mutex_lock(&lock);
    symbol = find_symbol(host, false);
    if (symbol != NULL) {
        result = load_binary(symbol->binary);
        if (result == CUDA_SUCCESS)
            result = (symbol->kind == SYMBOL_MANAGED ? rt_driver.cuLibraryGetManaged
                                                     : rt_driver.cuLibraryGetGlobal)(
                address_out, bytes_out, symbol->binary->library, symbol->name);
        if (result == CUDA_ERROR_NOT_FOUND)
            result = (CUresult)cudaErrorInvalidSymbol;
    }
    pthread_mutex_unlock(&lock);
    return (cudaError_t)result;
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    CUdeviceptr device;
    size_t bytes;
    cudaError_t error = rt_enter();

    if (error == cudaSuccess)
        error = address == NULL ? cudaErrorInvalidValue : rt_symbol(symbol, &device, &bytes);
    if (error != cudaSuccess)
        return rt_fail(error);
    *address = (void *)(uintptr_t)device;
    return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr device;
    cudaError_t error = rt_enter();

    if (error == cudaSuccess)
        error = size == NULL ? cudaErrorInvalidValue : rt_symbol(symbol, &device, size);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}
