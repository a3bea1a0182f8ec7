/* SPDX-License-Identifier: MIT */
/* The control groups that limit a process, in a mount namespace whose /sys/fs/cgroup is the test's.
 */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */
#include "child_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "memory/cgroup.h"
#include "memory/limits.h"
#include "memory/crew.h"

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        _exit(4);
}

/* A folder of /sys/fs/cgroup with the files of a version; an empty text for no file. */
static void group(const char *folder, const char *most, const char *held, const char *stat)
{
    char path[256];
    int second = strncmp(folder, "/sys/fs/cgroup/memory", 21) != 0;
    mkdir(folder, 0700);
    snprintf(path, sizeof(path), "%s/memory.%s", folder, second ? "max" : "limit_in_bytes");
    put(path, most);
    snprintf(path, sizeof(path), "%s/memory.%s", folder, second ? "current" : "usage_in_bytes");
    put(path, held);
    snprintf(path, sizeof(path), "%s/memory.stat", folder);
    put(path, stat);
}

/* Gives the process an empty /sys/fs/cgroup and this /proc/self/cgroup. */
static void begin(const char *lines)
{
    char own[] = "/tmp/zc-cgroup-XXXXXX";
    int fd = mkstemp(own);
    if (fd < 0 || write(fd, lines, strlen(lines)) != (ssize_t)strlen(lines))
        _exit(4);
    close(fd);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("zc", "/sys/fs/cgroup", "tmpfs", 0, NULL) != 0 ||
        mount(own, "/proc/self/cgroup", NULL, MS_BIND, NULL) != 0) {
        unlink(own);
        _exit(77);
    }
    unlink(own);
}

static void expect(int holds, int line)
{
    if (!holds) {
        fprintf(stderr, "line %d: not so\n", line);
        _exit(1);
    }
}
#define EXPECT(condition) expect((condition), __LINE__)

static void *ask_often(void *wrong)
{
    for (int i = 0; i < 2000; i++)
        *(bool *)wrong |= zc_cgroup_left() != 32000 - 12000;
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];
    bool wrong[4] = {false};
    begin("1:name=systemd:/x\n0::/job/step/task\n");
    group("/sys/fs/cgroup/job", "32000\n", "12000\n", "anon 7\n");
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&thread[i], NULL, ask_often, &wrong[i]) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(thread[i], NULL) == 0 && !wrong[i]);
}

static void nested(void)
{
    begin("1:name=systemd:/x\n0::/job/step/task\n");
    group("/sys/fs/cgroup/job", "32000\n", "12000\n", "anon 7\ninactive_file 2000\nslab 1\n");
    group("/sys/fs/cgroup/job/step", "max\n", "11000\n", "");
    EXPECT(zc_cgroup_left() == 22000);
    group("/sys/fs/cgroup/job/step/task", "12000\n", "10000\n", "anon 7\ninactive_file 5\n");
    EXPECT(zc_cgroup_left() == 2005);
    group("/sys/fs/cgroup/job/step", "12000\n", "11000\n", "");
    EXPECT(zc_cgroup_left() == 1000);
    group("/sys/fs/cgroup/job", "12500\n", "12000\n", "");
    EXPECT(zc_cgroup_left() == 500);
    group("/sys/fs/cgroup", "12600\n", "12500\n", "");
    EXPECT(zc_cgroup_left() == 100);
    group("/sys/fs/cgroup/job/step/task", "9000\n", "10000\n", "");
    EXPECT(zc_cgroup_left() == 0);
}

static void first_version(void)
{
    begin("5:cpuacct,memory:/a/b\n4:cpuset:/x\n0::/a\n");
    mkdir("/sys/fs/cgroup/memory", 0700);
    mkdir("/sys/fs/cgroup/memory/a", 0700);
    group("/sys/fs/cgroup/memory", "9223372036854771712\n", "5\n", "");
    group("/sys/fs/cgroup/memory/a/b", "1000\n", "100\n",
          "inactive_file 1\nx 2\ntotal_inactive_file 50\n");
    EXPECT(zc_cgroup_left() == 950);
}

/* The container's group is the top folder, whatever it is called on the host. */
static void container(void)
{
    begin("0::/kubepods/pod7/c1\n");
    group("/sys/fs/cgroup", "500\n", "100\n", "");
    EXPECT(zc_cgroup_left() == 400);
}

/* Only those of other controllers. */
static void in_no_group(void)
{
    begin("7:pids:/a\n1:name=systemd:/a\n");
    group("/sys/fs/cgroup/a", "500\n", "100\n", "");
    EXPECT(zc_cgroup_left() == UINT64_MAX);
}

static void outside(void)
{
    begin("0::/../../other\n");
    group("/sys/fs/cgroup", "500\n", "100\n", "");
    EXPECT(zc_cgroup_left() == 400);
}

/* A process above memory.high is throttled ever more, and pinned memory can't be taken back. */
static void throttled(void)
{
    begin("0::/a/b\n");
    group("/sys/fs/cgroup/a", "max\n", "100\n", "");
    put("/sys/fs/cgroup/a/memory.high", "300\n");
    group("/sys/fs/cgroup/a/b", "500\n", "100\n", "");
    put("/sys/fs/cgroup/a/b/memory.high", "max\n");
    EXPECT(zc_cgroup_left() == 200 && zc_available() == 200);
    put("/sys/fs/cgroup/a/memory.high", "max\n");
    EXPECT(zc_cgroup_left() == 400 && zc_available() == 400);
}

/* Containers in containers have long paths, in a line for each controller. */
static void long_paths(void)
{
    char lines[8192], path[600];
    size_t n = 0;
    memset(path, 'x', sizeof(path));
    for (int i = 12; i > 1; i--)
        n += (size_t)snprintf(lines + n, sizeof(lines) - n, "%d:cpu%d:/%.*s\n", i, i, 600, path);
    snprintf(lines + n, sizeof(lines) - n, "1:memory:/%.*s\n", 600, path);
    begin(lines);
    mkdir("/sys/fs/cgroup/memory", 0700);
    group("/sys/fs/cgroup/memory", "500\n", "100\n", "");
    EXPECT(zc_cgroup_left() == 400);
}

static const struct zc_policy empty;

static void *first_start(void *unused)
{
    zc_limits_start(&empty);
    return unused;
}

static void *second_start(void *granted)
{
    const char *why;
    zc_limits_start(&empty);
    *(bool *)granted = zc_limits_take(ZC_PLACE_PINNED, -1, 4096, &why);
    return granted;
}

/* The first thread reads how much memory is available, for as long as the test wants. */
static void at_once(void)
{
    pthread_t first, second;
    bool granted = false;
    begin("0::/a\n");
    EXPECT(mkfifo("/sys/fs/cgroup/meminfo", 0600) == 0 &&
           mount("/sys/fs/cgroup/meminfo", "/proc/meminfo", NULL, MS_BIND, NULL) == 0);
    EXPECT(pthread_create(&first, NULL, first_start, NULL) == 0);
    FILE *meminfo = fopen("/proc/meminfo", "w"); /* When the thread has opened it, too. */
    EXPECT(meminfo && pthread_create(&second, NULL, second_start, &granted) == 0);
    usleep(50000);
    EXPECT(fputs("MemAvailable: 1000000 kB\n", meminfo) >= 0 && fclose(meminfo) == 0);
    EXPECT(pthread_join(first, NULL) == 0 && pthread_join(second, NULL) == 0);
    EXPECT(granted);
}

/* The group with the smallest share counts, of whatever length its period is. */
static void quota(void)
{
    begin("0::/pod/c1\n");
    mkdir("/sys/fs/cgroup/pod", 0700);
    mkdir("/sys/fs/cgroup/pod/c1", 0700);
    EXPECT(zc_cgroup_processors() == UINT64_MAX);
    put("/sys/fs/cgroup/pod/c1/cpu.max", "max 100000\n");
    EXPECT(zc_cgroup_processors() == UINT64_MAX);
    put("/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
    EXPECT(zc_cgroup_processors() == 4);
    put("/sys/fs/cgroup/pod/c1/cpu.max", "20000 10000\n");
    EXPECT(zc_cgroup_processors() == 2);
    put("/sys/fs/cgroup/pod/c1/cpu.max", "1000 100000\n");
    EXPECT(zc_cgroup_processors() == 1 && zc_crew_cpus() == 1);
}

static void quota_of_the_first_version(void)
{
    begin("3:memory:/x\n2:cpu,cpuacct:/a\n0::/a\n");
    mkdir("/sys/fs/cgroup/cpu", 0700);
    mkdir("/sys/fs/cgroup/cpu/a", 0700);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
    EXPECT(zc_cgroup_processors() == UINT64_MAX);
    put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n");
    EXPECT(zc_cgroup_processors() == 3);
}

static void none(void)
{
    begin("0::/a\nsomething else\n:\n7:cpu\n");
    EXPECT(zc_cgroup_left() == UINT64_MAX);
    group("/sys/fs/cgroup", "max\n", "100\n", "");
    EXPECT(zc_cgroup_left() == UINT64_MAX);
    group("/sys/fs/cgroup", "100\n", "", "");
    EXPECT(zc_cgroup_left() == UINT64_MAX);
}

#define IN_A_NAMESPACE(test, scene)                                                                \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        int status = in_child(scene);                                                              \
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)                                        \
            skip();                                                                                \
        assert_int_equal(status, 0);                                                               \
    }
IN_A_NAMESPACE(each_group_above_the_process_counts_with_what_it_leaves, nested)
IN_A_NAMESPACE(threads_may_ask_at_the_same_time, threads)
IN_A_NAMESPACE(the_first_version_of_control_groups_is_read, first_version)
IN_A_NAMESPACE(a_containers_group_is_the_top_folder, container)
IN_A_NAMESPACE(groups_of_other_controllers_limit_nothing, in_no_group)
IN_A_NAMESPACE(a_group_outside_of_the_mount_is_the_top_folder, outside)
IN_A_NAMESPACE(the_bound_above_which_a_group_is_throttled_counts_too, throttled)
IN_A_NAMESPACE(groups_with_long_paths_are_found, long_paths)
IN_A_NAMESPACE(no_thread_places_before_another_one_has_found_the_limits, at_once)
IN_A_NAMESPACE(the_least_cpu_quota_bounds_the_threads, quota)
IN_A_NAMESPACE(cpu_quotas_of_the_first_version_are_read, quota_of_the_first_version)
IN_A_NAMESPACE(without_limits_there_are_no_groups, none)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_group_above_the_process_counts_with_what_it_leaves),
        cmocka_unit_test(threads_may_ask_at_the_same_time),
        cmocka_unit_test(the_first_version_of_control_groups_is_read),
        cmocka_unit_test(a_containers_group_is_the_top_folder),
        cmocka_unit_test(groups_of_other_controllers_limit_nothing),
        cmocka_unit_test(a_group_outside_of_the_mount_is_the_top_folder),
        cmocka_unit_test(the_bound_above_which_a_group_is_throttled_counts_too),
        cmocka_unit_test(groups_with_long_paths_are_found),
        cmocka_unit_test(no_thread_places_before_another_one_has_found_the_limits),
        cmocka_unit_test(the_least_cpu_quota_bounds_the_threads),
        cmocka_unit_test(cpu_quotas_of_the_first_version_are_read),
        cmocka_unit_test(without_limits_there_are_no_groups),
    };
    return RUN_TESTS(tests);
}
