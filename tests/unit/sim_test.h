/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the simulated driver: cmocka, a context, expectations of CUDA codes. */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* each ABI version under its own name */
#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/sim.h"

#define ok(call) assert_int_equal(CUDA_SUCCESS, (call))
#define refused(code, call) assert_int_equal((code), (call))
#define MIB ((size_t)1 << 20)

/* A group's setup: cuInit and the primary context of device 0, current. */
static inline int sim_test_start(void **state)
{
    CUcontext ctx;
    (void)state;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&ctx, 0));
    ok(cuCtxSetCurrent(ctx));
    return 0;
}

/* Starts the driver in a child, with settings such as "SIM_HMM=1 SIM_WRONG=flag", and looks what it
 * does; a failed assertion aborts the child. Only for programs that do not start it themselves. */
static inline void sim_on_machine(const char *environment, int (*setup)(void **),
                                  void (*scene)(void))
{
    char text[64], *value;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(300);
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        strcpy(text, environment);
        for (char *name = strtok(text, " "); name; name = strtok(NULL, " ")) {
            value = strchr(name, '=');
            *value++ = 0;
            setenv(name, value, 1);
        }
        setup(NULL);
        scene();
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_int_equal(0, status);
}

/* After each test: nothing may be left. */
static inline int sim_test_clean(void **state)
{
    (void)state;
    sim_fail(NULL, CUDA_SUCCESS, 0);
    return sim_leaks(SIM_LEAK_CLASSES) == 0 ? 0 : -1;
}

#define sim_test(f) cmocka_unit_test_setup_teardown(f, NULL, sim_test_clean)
#define sim_main(tests)                                                                            \
    (cmocka_set_message_output(CM_OUTPUT_TAP), cmocka_run_group_tests(tests, sim_test_start, NULL))

#endif
