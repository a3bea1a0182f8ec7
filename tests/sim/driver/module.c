/* SPDX-License-Identifier: MIT */
/* Modules and libraries: any image loads, and names are found among the kernels and variables of
 * the host build. */
#include "launch.h"
#include "stream.h"
#include <stdlib.h>

/* One loaded module or library. */
struct image {
    struct image *next;   /* all loaded images */
    bool library;         /* a CUlibrary, not a CUmodule */
    bool borrowed;        /* the module of a library: not to be unloaded by itself */
    struct image *module; /* of a library: what cuLibraryGetModule gave */
};

static struct image *images;

static struct image *image_of(const void *handle, bool library)
{
    for (struct image *i = images; i; i = i->next)
        if (i == handle && i->library == library)
            return i;
    return NULL;
}

static struct image *image_new(bool library)
{
    struct image *i = calloc(1, sizeof *i);
    i->library = library;
    i->next = images;
    images = i;
    return i;
}

static void image_free(struct image *image)
{
    struct image **p = &images;
    while (*p != image)
        p = &(*p)->next;
    *p = image->next;
    free(image);
}

/* Reads code as a driver does: a fat binary by the size in its head, a text to its end. */
static void read_code(const void *image)
{
    const volatile unsigned char *at = image;
    const uint32_t *head = image;
    if (at[0] == 0x50 && at[1] == 0xed && at[2] == 0x55 && at[3] == 0xba)
        for (uint64_t n = *(const uint64_t *)(head + 2) + (head[1] >> 16); n; n--)
            (void)*at++;
    else
        while (*at++)
            ;
}

static CUresult load(CUmodule *out, const void *image)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    read_code(image);
    *out = (CUmodule)image_new(false);
    return CUDA_SUCCESS;
}

SIM_API(cuModuleLoad, (CUmodule * out, const char *path), (out, path))
{
    return load(out, path);
}

SIM_API(cuModuleLoadData, (CUmodule * out, const void *image), (out, image))
{
    return load(out, image);
}

SIM_API(cuModuleLoadDataEx,
        (CUmodule * out, const void *image, unsigned int count, CUjit_option *options,
         void **values),
        (out, image, count, options, values))
{
    for (unsigned i = 0; i < count; i++)
        (void)((volatile CUjit_option *)options)[i], (void)((void *volatile *)values)[i];
    return load(out, image);
}

SIM_API(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image))
{
    return load(out, image);
}

SIM_API(cuModuleUnload, (CUmodule module), (module))
{
    struct sim_context *ctx;
    struct image *i = image_of(module, false);
    if (!i || i->borrowed)
        return CUDA_ERROR_INVALID_HANDLE;
    image_free(i);
    CUresult r = sim_current(&ctx);
    bool none = r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return none ? CUDA_SUCCESS : r;
}

static CUresult function_by_name(void **out, const char *name)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_function *f = sim_function_find(name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    *out = f;
    return CUDA_SUCCESS;
}

SIM_API(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char *name),
        (out, module, name))
{
    if (!image_of(module, false))
        return CUDA_ERROR_INVALID_HANDLE;
    return function_by_name((void **)out, name);
}

SIM_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode))
{
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

static CUresult global_by_name(CUdeviceptr *dptr, size_t *bytes, const char *name)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_variable *v = sim_variable_find(name);
    if (!v)
        return CUDA_ERROR_NOT_FOUND;
    CUdeviceptr va = sim_variable_address(v, ctx->device);
    if (!va)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (dptr)
        *dptr = va;
    if (bytes)
        *bytes = v->size;
    return CUDA_SUCCESS;
}

SIM_API(cuModuleGetGlobal_v2,
        (CUdeviceptr * dptr, size_t *bytes, CUmodule module, const char *name),
        (dptr, bytes, module, name))
{
    return image_of(module, false) ? global_by_name(dptr, bytes, name) : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuLibraryLoadData,
        (CUlibrary * out, const void *code, CUjit_option *jit, void **jit_values,
         unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
        (out, code, jit, jit_values, jit_count, options, values, count))
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    if (!out || !code)
        return CUDA_ERROR_INVALID_VALUE;
    read_code(code);
    *out = (CUlibrary)image_new(true);
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryLoadFromFile,
        (CUlibrary * out, const char *file, CUjit_option *jit, void **jit_values,
         unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
        (out, file, jit, jit_values, jit_count, options, values, count))
{
    return body_cuLibraryLoadData(out, file, jit, jit_values, jit_count, options, values, count);
}

SIM_API(cuLibraryUnload, (CUlibrary library), (library))
{
    struct image *i = image_of(library, true);
    if (!i)
        return CUDA_ERROR_INVALID_HANDLE;
    if (i->module)
        image_free(i->module);
    image_free(i);
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char *name),
        (out, library, name))
{
    if (!image_of(library, true))
        return CUDA_ERROR_INVALID_HANDLE;
    return function_by_name((void **)out, name);
}

SIM_API(cuLibraryGetModule, (CUmodule * out, CUlibrary library), (out, library))
{
    struct sim_context *ctx;
    struct image *i = image_of(library, true);
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!i || !out)
        return i ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!i->module) {
        i->module = image_new(false);
        i->module->borrowed = true;
    }
    *out = (CUmodule)i->module;
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetGlobal,
        (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
        (dptr, bytes, library, name))
{
    return image_of(library, true) ? global_by_name(dptr, bytes, name) : CUDA_ERROR_INVALID_HANDLE;
}

SIM_API(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), (out, kernel))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || !sim_function_of(kernel))
        return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *out = (CUfunction)kernel;
    return CUDA_SUCCESS;
}
