/* SPDX-License-Identifier: MIT */
/* A process without a CUDA driver: what it finds when it looks for one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void print(const char *what, void *found)
{
    const char *why = dlerror();
    const char *text = why ? strstr(why, "undefined symbol") : NULL;
    printf("%s: %s, %s\n", what, found ? "found" : "none", text ? text : why ? why : "no error");
}

int main(void)
{
    print("default", dlsym(RTLD_DEFAULT, "cuInit"));
    print("unknown", dlsym(RTLD_DEFAULT, "cuNoSuchEntryPoint"));
    print("handle", dlsym(dlopen(NULL, RTLD_LAZY), "cuMemAlloc_v2"));
    print("driver", dlopen("libcuda.so.1", RTLD_LAZY));
    return 0;
}
