/* SPDX-License-Identifier: MIT */
/*
 * zc-views: what GPUs find at the two addresses of a pair of `shared` (docs/shared.md), and kernels
 * that are given its host block.  `zc doctor --measure` runs it and keeps what it finds, because on
 * a device that reaches pageable memory (HMM, ATS) libzc makes pairs only where all of it was
 * exact.
 *
 * Prints a JSON object a line: for each device
 *   {"device", "machine", "pageable", "tables", "read_only"}
 * and for each of its steps {"device", "step", "what", "exact", "why"}, where `exact` is null if
 * there was nothing to try.  With the argument `names` nothing is tried.  Exit status 77 where no
 * GPU answers, else 0.
 *
 * Each step runs in a process of its own, because a kernel that faults ends the use of CUDA there.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "shared/reach.h"
#include "tools/views/leave_off.h"
#include "tools/views/steps.h"

#define NO_GPU 77
#define STEP_MS 60000u /* The longest that a step takes. */
#define END_MS 2000u   /* A process that the driver holds in the kernel does not end by SIGKILL. */
#define TICK_MS 5u

static const struct view_step *current;
static int current_device;

static void print(struct zc_text *t)
{
    size_t n = strlen(zc_text_cstr(t));
    if (write(STDOUT_FILENO, t->buf, n) != (ssize_t)n)
        _exit(1);
}

/* `exact`: a word of JSON. */
static void report(const char *exact, const char *why)
{
    char line[1024];
    struct zc_text t = zc_text_on(line, sizeof(line));
    zc_text_fmt(&t, "{\"device\":%d,\"step\":\"%s\",\"what\":\"%s\",\"exact\":%s,\"why\":\"",
                current_device, current->name, current->what, exact);
    zc_text_json(&t, why);
    zc_text_str(&t, "\"}\n");
    print(&t);
}

void view_wrong(const char *fmt, ...)
{
    char why[256];
    va_list list;
    va_start(list, fmt);
    vsnprintf(why, sizeof(why), fmt, list);
    va_end(list);
    report("false", why);
    _exit(0);
}

void view_has_none(const char *why)
{
    report("null", why);
    _exit(0);
}

static void run(const struct view_step *step)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (step->without_hmm)
        view_leave_off();
    const char *error = view_load();
    if (error)
        view_wrong("%s", error);
    const struct view_device device = view_device(current_device);
    step->run(&device);
    report("true", "");
    _exit(0);
}

/* False if the process has not ended in that time. */
static bool ends(pid_t child, int *status, unsigned most_ms)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000l};
    for (unsigned ms = 0; ms <= most_ms; ms += TICK_MS) {
        if (waitpid(child, status, WNOHANG) == child)
            return true;
        nanosleep(&tick, NULL);
    }
    return false;
}

static void attempt(const struct view_step *step)
{
    char why[64];
    int status = 0;
    current = step;
    pid_t child = fork();
    if (child == 0)
        run(step);
    if (child < 0) {
        report("false", "there is no process for it");
    } else if (!ends(child, &status, STEP_MS)) {
        kill(child, SIGKILL);
        ends(child, &status, END_MS);
        report("false", "it did not end within 60 s");
    } else if (WIFSIGNALED(status)) {
        snprintf(why, sizeof(why), "its process was ended by signal %d", WTERMSIG(status));
        report("false", why);
    }
}

/* In a process of its own, because what has started the driver has no children that can use it. */
static void describe(int number)
{
    char name[256] = "?", line[1024];
    int version = 0;
    struct zc_text t = zc_text_on(line, sizeof(line));
    const struct view_device device = view_device(number);
    driver.cuDeviceGetName(name, sizeof(name), number);
    driver.cuDriverGetVersion(&version);
    char machine[512];
    struct zc_text m = zc_text_on(machine, sizeof(machine));
    zc_reach_machine(&m, name, version);
    zc_text_fmt(&t, "{\"device\":%d,\"machine\":\"", number);
    zc_text_json(&t, zc_text_cstr(&m));
    zc_text_fmt(&t, "\",\"pageable\":%s,\"tables\":%s,\"read_only\":%s}\n",
                device.reaches ? "true" : "false", device.tables ? "true" : "false",
                device.read_only ? "true" : "false");
    print(&t);
}

static int describe_all(void)
{
    int count = 0;
    if (view_load() || driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return 0;
    for (int i = 0; i < count; i++)
        describe(i);
    return count;
}

int main(int argc, char **argv)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(describe_all());
    if (child < 0 || !ends(child, &status, STEP_MS) || !WIFEXITED(status) || !WEXITSTATUS(status)) {
        fprintf(stderr, "zc-views: no GPU answers\n");
        return NO_GPU;
    }
    if (argc > 1 && strcmp(argv[1], "names") == 0)
        return 0;
    for (current_device = 0; current_device < WEXITSTATUS(status); current_device++)
        for (unsigned i = 0; i < view_step_count; i++)
            attempt(&view_steps[i]);
    return 0;
}
