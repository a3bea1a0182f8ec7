/* SPDX-License-Identifier: MIT */
/* In place of libc's pthread_create(3), for libzc: threads that the kernel runs late. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

static struct {
    bool held;              /* Threads that are started do not run.  Atomic. */
    unsigned made, running; /* Atomic. */
} late_threads;

struct late_start {
    void *(*run)(void *);
    void *arg;
};

static void *late_main(void *arg)
{
    struct late_start s = *(struct late_start *)arg;
    free(arg);
    while (__atomic_load_n(&late_threads.held, __ATOMIC_ACQUIRE))
        sched_yield();
    void *result = s.run(s.arg);
    __atomic_fetch_sub(&late_threads.running, 1, __ATOMIC_ACQ_REL);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    struct late_start *start = malloc(sizeof(*start));
    *start = (struct late_start){run, arg};
    __atomic_fetch_add(&late_threads.made, 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&late_threads.running, 1, __ATOMIC_ACQ_REL);
    return next(thread, attr, late_main, start);
}

static void late_threads_hold(bool held)
{
    __atomic_store_n(&late_threads.held, held, __ATOMIC_RELEASE);
}

/* Until so few of the threads that were started have not ended. */
static void late_threads_wait(unsigned few)
{
    while (__atomic_load_n(&late_threads.running, __ATOMIC_ACQUIRE) > few)
        sched_yield();
}
