/* SPDX-License-Identifier: MIT */
/* Reports of the simulated driver on a whole run: SIM_TRACE, SIM_COPIES, SIM_LEAKS, SIM_FAIL. The
 * test runs itself again as the program that is watched. */
#include "sim_test.h"
#include <stdio.h>

static char folder[] = "/tmp/sim-reports-XXXXXX";

/* Copies of several kinds, two leaks, one ordered failure. */
static int watched(void)
{
    CUcontext ctx;
    CUdeviceptr d;
    void *pinned;
    char pageable[100] = {0};
    ok(cuInit(0));
    ok(cuCtxCreate_v2(&ctx, 0, 0));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&d, 300));
    ok(cuMemAlloc_v2(&d, 300));
    ok(cuMemHostAlloc(&pinned, 100, 0));
    ok(cuMemcpyHtoD_v2(d, pageable, 100));
    ok(cuMemcpyHtoD_v2(d, pinned, 60));
    ok(cuMemcpyDtoD_v2(d + 100, d, 50));
    ok(cuMemsetD32_v2(d, 0, 10));
    ok(cuMemcpyDtoH_v2(pageable, d, 0));
    ok(cuCtxSynchronize());
    return 0;
}

static char *content(const char *name)
{
    static char text[8192];
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static int run(void **state)
{
    static const char *const names[] = {"SIM_TRACE", "SIM_COPIES", "SIM_LEAKS"};
    char path[128];
    int status;
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]);
            setenv(names[i], path, 1);
        }
        setenv("SIM_FAIL", "cuMemAlloc_v2:2:1,cuMemFree_v2:999:7", 1);
        execl("/proc/self/exe", "sim_reports", "watched", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return status;
}

static int clean(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void copies_are_counted_by_kind_with_their_bytes(void **state)
{
    (void)state;
    assert_string_equal("HtoD Pageable Device 1 100\n"
                        "HtoD Pinned Device 1 60\n"
                        "DtoD Device Device 1 50\n"
                        "Memset - Device 1 40\n",
                        content("SIM_COPIES"));
}

static void leaks_are_named_by_class(void **state)
{
    (void)state;
    assert_string_equal("device 1\nhost 1\n", content("SIM_LEAKS"));
}

static void the_trace_has_a_line_with_the_result_of_each_call(void **state)
{
    (void)state;
    assert_non_null(strstr(content("SIM_TRACE"), "cuInit 0\ncuCtxCreate_v2 0\ncuMemAlloc_v2 2\n"
                                                 "cuMemAlloc_v2 0\ncuMemHostAlloc 0\n"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_counted_by_kind_with_their_bytes),
        cmocka_unit_test(leaks_are_named_by_class),
        cmocka_unit_test(the_trace_has_a_line_with_the_result_of_each_call),
    };
    if (argc > 1 && strcmp(argv[1], "watched") == 0)
        return watched();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, run, clean);
}
