/* SPDX-License-Identifier: MIT */
/* Threads of libzc's own. */
#include "memory/thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define STACK ((size_t)256 << 10)

/* glibc keeps 40 MiB of stacks of ended threads.  Unmapping one of the usual 8 MiB interrupts all
 * processors, about 70 us a thread.  So ours are small, unless the process has more thread-local
 * storage than fits. */
bool zc_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int error = pthread_create(thread, &attr, run, arg);
    if (error == EINVAL)
        error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return error == 0;
}

struct aside {
    void (*run)(void *arg);
    void *arg;
    bool done;
};

/* Of <linux/close_range.h> and <asm/unistd.h>, for older headers; all architectures have one
 * number. */
#define CALL_CLOSE_RANGE 436
#define UNSHARE (1u << 1)

/* Descriptors closed here stay open in the table that they were copied from. */
static void *aside_main(void *arg)
{
    struct aside *a = arg;
    a->done = syscall(CALL_CLOSE_RANGE, 0u, ~0u, UNSHARE) == 0;
    if (a->done)
        a->run(a->arg);
    return NULL;
}

bool zc_thread_aside(void (*run)(void *arg), void *arg)
{
    struct aside a = {run, arg, false};
    pthread_t thread;
    int cancelled;
    if (!zc_thread_start(&thread, aside_main, &a))
        return false;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    pthread_join(thread, NULL);
    pthread_setcancelstate(cancelled, NULL);
    return a.done;
}
