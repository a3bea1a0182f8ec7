/* SPDX-License-Identifier: MIT */
/* Threads of libzc's own. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Starts a thread of libzc's, to be detached or joined; `run` must not need much stack.  All
 * signals are blocked in it, because the program's handlers must not run in a thread that the
 * program does not know.  False if no thread can be started.
 */
bool zc_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/*
 * Runs a function in a thread of libzc's whose table of descriptors is its own, and empty: what it
 * opens no other thread can close, or take for its own.  `run` writes no message.  No cancellation
 * point.  False, without having run it, if no thread can be started, and before Linux 5.9.
 */
bool zc_thread_aside(void (*run)(void *arg), void *arg);
