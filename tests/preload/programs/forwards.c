/* SPDX-License-Identifier: MIT */
/* forwards NAME...: calls entry points before cuInit, when the driver looks at no argument, and
 * fails unless each is refused as uninitialized, or as not there. The driver's trace tells what
 * was reached. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

/*
 * Long enough for every signature, arguments passed on the stack by value included.  The second
 * one is an address: on aarch64 a handle of another process, which is large, goes by reference.
 */
typedef CUresult (*any)(size_t, const void *, size_t, size_t, size_t, size_t, size_t, size_t,
                        size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t);

int main(int argc, char **argv)
{
    static const CUipcMemHandle handle;
    int bad = cuDriverGetVersion(NULL) == CUDA_SUCCESS; /* Binds the driver to the program. */
    for (int i = 1; i < argc; i++) {
        any f;
        *(void **)&f = dlsym(RTLD_DEFAULT, argv[i]);
        CUresult result =
            f ? f(0, &handle, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : CUDA_SUCCESS;
        if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_NOT_SUPPORTED)
            continue;
        printf("%s gave %d\n", argv[i], (int)result);
        bad = 1;
    }
    return bad;
}
