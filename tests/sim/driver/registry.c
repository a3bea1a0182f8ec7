/* SPDX-License-Identifier: MIT */
/* The tables of kernels and variables that host-built kernel libraries register. */
#include "launch.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_function *functions;
static struct sim_variable *variables;

struct sim_function *sim_function_find(const char *name)
{
    pthread_mutex_lock(&registry_lock);
    struct sim_function *f = functions;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    pthread_mutex_unlock(&registry_lock);
    return f;
}

struct sim_function *sim_function_of(const void *handle)
{
    pthread_mutex_lock(&registry_lock);
    struct sim_function *f = functions;
    while (f && f != handle)
        f = f->next;
    pthread_mutex_unlock(&registry_lock);
    return f;
}

struct sim_variable *sim_variable_find(const char *name)
{
    pthread_mutex_lock(&registry_lock);
    struct sim_variable *v = variables;
    while (v && strcmp(v->name, name) != 0)
        v = v->next;
    pthread_mutex_unlock(&registry_lock);
    return v;
}

SIM_EXPORT void sim_kernel_register(const char *name, sim_thunk fn, size_t nparams,
                                    const size_t *sizes)
{
    struct sim_function *f = sim_function_find(name);
    if (!f)
        f = calloc(1, sizeof *f);
    pthread_mutex_lock(&registry_lock);
    bool fresh = !f->name;
    f->name = name;
    f->thunk = fn;
    f->nparams = nparams;
    f->sizes = sizes;
    if (fresh) {
        f->next = functions;
        functions = f;
    }
    pthread_mutex_unlock(&registry_lock);
}

SIM_EXPORT void sim_global_register(const char *name, void *address, size_t bytes)
{
    if (sim_variable_find(name))
        return;
    struct sim_variable *v = calloc(1, sizeof *v);
    v->name = name;
    v->address = address;
    v->size = bytes;
    pthread_mutex_lock(&registry_lock);
    v->next = variables;
    variables = v;
    pthread_mutex_unlock(&registry_lock);
}

CUdeviceptr sim_variable_address(struct sim_variable *v, int device)
{
    if (v->va[device])
        return v->va[device];
    size_t page = (v->size + 4095) / 4096 * 4096;
    CUdeviceptr va = sim_va_take(page, 4096);
    if (!va)
        return 0;
    struct sim_block *b = sim_block_add(va, v->size, SIM_GLOBAL, device, NULL);
    b->storage = v->address;
    v->va[device] = va;
    return va;
}

void sim_kernels_open(void)
{
    const char *list = getenv("SIM_KERNELS");
    char path[4096];
    while (list && *list) {
        size_t n = strcspn(list, ":");
        if (n && n < sizeof path) {
            memcpy(path, list, n);
            path[n] = 0;
            if (!dlopen(path, RTLD_NOW | RTLD_GLOBAL))
                fprintf(stderr, "simulated GPU: %s\n", dlerror());
        }
        list += n;
        list += *list == ':';
    }
}
