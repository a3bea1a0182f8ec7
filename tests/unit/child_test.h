/* SPDX-License-Identifier: MIT */
/* Children of a test, which end as what is tested makes them. */
#ifndef TESTS_UNIT_CHILD_TEST_H
#define TESTS_UNIT_CHILD_TEST_H

#include "base_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a scene in a child of its own, where no handler of cmocka's is, and returns its wait status.
 */
static inline int in_child(void (*scene)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int sig = 1; sig < 32; sig++)
            signal(sig, SIG_DFL);
        alarm(300);
        scene();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

#endif
