/* SPDX-License-Identifier: MIT */
/* Prints which function of which object each route to a driver entry point gives. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Object and symbol of an address, "object symbol", or "-" for NULL. The buffer is the caller's. */
static const char *who(void *address, char *text, size_t cap)
{
    Dl_info info;
    if (!address || !dladdr(address, &info) || !info.dli_sname)
        return "-";
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(text, cap, "%s %s%s", slash ? slash + 1 : info.dli_fname, info.dli_sname,
             info.dli_saddr == address ? "" : " (inside)");
    return text;
}

static void print(const char *route, void *address)
{
    char text[256];
    printf("%s: %s\n", route, who(address, text, sizeof(text)));
}

/* The four routes to one name, given as argument; the version is 13000 for the ones that ask
 * one. */
static void routes_to(const char *name, const char *symbol)
{
    CUdriverProcAddressQueryResult status;
    int query; /* enum cudaDriverEntryPointQueryResult */
    char route[32];
    void *f = NULL, *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    void *runtime = dlopen("libcudart.so.13", RTLD_LAZY);
    print("handle", dlsym(driver, symbol));
    print("default", dlsym(RTLD_DEFAULT, symbol));
    __typeof__(&cuGetProcAddress) version1 = NULL;
    *(void **)&version1 = dlsym(driver, "cuGetProcAddress");
    int (*old)(const char *, void **, int, cuuint64_t) =
        (int (*)(const char *, void **, int, cuuint64_t))(void *)version1;
    if (old(name, &f, 13000, 0) == 0)
        print("v1", f);
    for (unsigned flags = 0; flags <= 2; flags++) {
        snprintf(route, sizeof(route), "v2 flags %u", flags);
        f = NULL;
        if (cuGetProcAddress(name, &f, 13000, flags, &status) == CUDA_SUCCESS)
            print(route, f);
    }
    /* By name, because the headers of some versions lack the one and call the other deprecated. */
    cudaError_t (*by_version)(const char *, void **, unsigned, unsigned long long, void *);
    cudaError_t (*newest)(const char *, void **, unsigned long long, void *);
    *(void **)&by_version = dlsym(runtime, "cudaGetDriverEntryPointByVersion");
    *(void **)&newest = dlsym(runtime, "cudaGetDriverEntryPoint");
    f = NULL;
    if (by_version && by_version(name, &f, 13000, cudaEnableDefault, &query) == 0)
        print("runtime", f);
    f = NULL;
    if (newest && newest(name, &f, cudaEnableDefault, &query) == 0)
        print("runtime without version", f);
    f = NULL;
    if (by_version && by_version(name, &f, 13000, cudaEnablePerThreadDefaultStream, &query) == 0)
        print("runtime per thread", f);
}

/* Makes every request of a list of lines "name version flags ...", and prints the answers. */
static int requests(const char *path)
{
    char line[1024], name[128], text[256];
    int version;
    unsigned flags;
    FILE *list = fopen(path, "r");
    if (!list)
        return 1;
    while (fgets(line, sizeof(line), list)) {
        CUdriverProcAddressQueryResult status;
        void *f = NULL;
        if (line[0] == '#' || sscanf(line, "%127s %d %u", name, &version, &flags) != 3)
            continue;
        CUresult result = cuGetProcAddress(name, &f, version, flags, &status);
        printf("%s %d %u %d %d %s\n", name, version, flags, (int)result, (int)status,
               who(f, text, sizeof(text)));
    }
    fclose(list);
    return cuInit(0) != CUDA_SUCCESS; /* Only a process that uses CUDA is reported on. */
}

/* One request with its code and status: "name version flags". */
static void ask(const char *name, int version, unsigned flags)
{
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)7;
    char text[256];
    void *f = (void *)&status;
    CUresult result = cuGetProcAddress(name, &f, version, flags, &status);
    printf("%d %d %s\n", (int)result, (int)status,
           f == (void *)&status ? "untouched" : who(f, text, sizeof(text)));
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "requests"))
        return requests(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "bound"))
        print("bound", (void *)cuMemAlloc);
    else if (argc == 4 && !strcmp(argv[1], "to"))
        routes_to(argv[2], argv[3]);
    else if (argc == 5 && !strcmp(argv[1], "ask"))
        ask(argv[2], atoi(argv[3]), (unsigned)atoi(argv[4]));
    else
        return 2;
    return 0;
}
