/* SPDX-License-Identifier: MIT */
/* Prints what RTLD_NEXT finds for itself and for the libraries first, second and linked, as far as
 * they are there. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *marker(void);

const char *marker(void)
{
    return "program";
}

static void *next_from_program(const char *symbol)
{
    return dlsym(RTLD_NEXT, symbol);
}

static void print(const char *from, void *(*next)(const char *))
{
    Dl_info info;
    const char *(*found)(void);
    *(void **)&found = next("marker");
    printf("%s marker %s\n", from, found ? found() : "none");
    void *driver = next("cuMemAlloc_v2");
    const char *file = driver && dladdr(driver, &info) ? strrchr(info.dli_fname, '/') + 1 : "none";
    printf("%s cuMemAlloc_v2 %s\n", from, file);
    printf("%s no_such_symbol %s\n", from, next("no_such_symbol") ? "found" : "none");
}

int main(void)
{
    static const char *const libraries[] = {"first", "second", "linked"};
    char symbol[64];
    print("program", next_from_program);
    for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void *(*next)(const char *);
        snprintf(symbol, sizeof(symbol), "next_from_%s", libraries[i]);
        *(void **)&next = dlsym(RTLD_DEFAULT, symbol);
        if (next)
            print(libraries[i], next);
    }
    return cuInit(0) != CUDA_SUCCESS;
}
