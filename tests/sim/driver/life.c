/* SPDX-License-Identifier: MIT */
/* cuInit, the driver's version, fork and the end of the process. */
#include "life.h"
#include "view.h"
#include <stdlib.h>

/* States of the driver. A forked child of an initialised process can't use CUDA at all (CUDA
 * Programming Guide). */
enum life { LIFE_NEW, LIFE_RUNNING, LIFE_FORKED, LIFE_OVER };

static _Atomic int life = LIFE_NEW;
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t sim_progress = PTHREAD_COND_INITIALIZER;

void sim_relock(void)
{
    pthread_mutex_lock(&sim_lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim_lock);
}

unsigned long long sim_next_id(void)
{
    static _Atomic unsigned long long id;
    return ++id;
}

CUresult sim_life_check(enum sim_when when)
{
    int now = life;
    if (when == SIM_STUB)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (now == LIFE_OVER)
        return CUDA_ERROR_DEINITIALIZED;
    if (when == SIM_AFTER_INIT && now != LIFE_RUNNING)
        return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

static void fork_prepare(void)
{
    sim_relock();
    sim_view_fork_prepare();
}

static void fork_parent(void)
{
    sim_view_fork_parent();
    sim_unlock();
}

static void fork_child(void)
{
    sim_view_fork_child();
    /* The parent's workers and condition variables do not exist here; only the lock is put right.
     */
    pthread_mutex_init(&sim_lock, NULL);
    life = LIFE_FORKED;
}

SIM_API_ALWAYS(cuInit, (unsigned int flags), (flags))
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (life == LIFE_FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (life == LIFE_RUNNING)
        return CUDA_SUCCESS;
    CUresult r = sim_devices_start();
    if (r != CUDA_SUCCESS)
        return r;
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    life = LIFE_RUNNING;
    sim_unlock(); /* constructors of kernel libraries may call anything */
    sim_kernels_open();
    sim_relock();
    return CUDA_SUCCESS;
}

int sim_driver_version(void)
{
    const char *set = getenv("SIM_DRIVER");
    return set ? atoi(set) : 13000;
}

SIM_API_ALWAYS(cuDriverGetVersion, (int *version), (version))
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim_driver_version();
    return CUDA_SUCCESS;
}

__attribute__((destructor)) static void life_end(void)
{
    int was = life;
    life = LIFE_OVER;
    if (was != LIFE_RUNNING)
        return;
    sim_traffic_write();
    sim_leaks_write();
    sim_devices_end();
}
