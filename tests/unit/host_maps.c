/* SPDX-License-Identifier: MIT */
/* The kernel's answers about ranges of addresses. */
#include "host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "forbid_test.h"
#include "host/maps.h"
#include "memory/limits.h"

static char *map(size_t n, int fd)
{
    int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, kind, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* The answer where the kernel knows the question. */
static void answers(const void *p, size_t n, bool write, enum zc_maps_answer expected)
{
    static char own[2 * MIB];
    if (zc_maps_ask(own + MIB, 1, true) == ZC_MAPS_UNKNOWN)
        skip();
    assert_int_equal(zc_maps_ask(p, n, write), expected);
}

static void private_memory_is_what_its_protection_says(void **state)
{
    (void)state;
    char *p = map(8 * MIB, -1);
    answers(p, 8 * MIB, false, ZC_MAPS_YES);
    answers(p + 5, 8 * MIB - 5, true, ZC_MAPS_YES);
    mprotect(p + 4 * MIB, MIB, PROT_READ);
    answers(p, 8 * MIB, false, ZC_MAPS_YES);
    answers(p, 8 * MIB, true, ZC_MAPS_NO);
    answers(p, 4 * MIB, true, ZC_MAPS_YES);
    mprotect(p + 6 * MIB, MIB, PROT_NONE);
    answers(p, 8 * MIB, false, ZC_MAPS_NO);
    munmap(p + 2 * MIB, 4096);
    answers(p, 4 * MIB, false, ZC_MAPS_NO);
    answers(p + MIB, MIB, false, ZC_MAPS_YES);
    munmap(p, 8 * MIB);
    answers(p, 1, false, ZC_MAPS_NO);
}

static void a_file_may_end_early(void **state)
{
    (void)state;
    int fd = open("/proc/self/exe", O_RDONLY);
    char *p = map(MIB, fd);
    answers(p, MIB, false, ZC_MAPS_UNKNOWN);
    munmap(p, MIB);
    close(fd);
}

/* Whether an address is told to be in a mapping with this in its name, all of [from, from + n). */
static bool found(const void *at, const void *from, size_t n, const char *name)
{
    struct zc_maps_mapping m;
    return zc_maps_find((uintptr_t)at, &m) && m.start <= (uintptr_t)from &&
           m.end >= (uintptr_t)from + n && (*name ? strstr(m.name, name) != NULL : !*m.name);
}

/* The same of a mapping's rights and its file. */
static bool has(const void *at, int rights, const struct stat *file)
{
    struct zc_maps_mapping m;
    return zc_maps_find((uintptr_t)at, &m) && m.rights == rights &&
           m.inode == (file ? file->st_ino : 0);
}

static bool mappings_are_found(void)
{
    struct stat stat;
    struct zc_maps_mapping m;
    char local = 0, folder[300] = "/tmp/";
    memset(folder + 5, 'x', 250);
    char *own = map(4 * MIB, -1), *closed = map(MIB, -1);
    int memory = memfd_create("maps test", 0), file = open(folder, O_RDWR | O_CREAT, 0600);
    bool ok = memory >= 0 && ftruncate(memory, MIB) == 0 && file >= 0 &&
              ftruncate(file, MIB) == 0 && unlink(folder) == 0;
    char *shared = map(MIB, memory), *named = map(MIB, file);
    mprotect(closed, MIB, PROT_NONE);
    ok = ok && found(own, own, 4 * MIB, "") && found(own + 4 * MIB - 1, own, 4 * MIB, "") &&
         found(shared + 5, shared, MIB, "/memfd:maps test") &&
         found(&local, &local, 1, "[stack]") && found(named, named, MIB, "?") &&
         found(closed, closed, MIB, "") && !zc_maps_find(64, &m) &&
         !zc_maps_find(UINT64_MAX - 4096, &m) && fstat(file, &stat) == 0 &&
         has(own, PROT_READ | PROT_WRITE, NULL) && has(closed, PROT_NONE, NULL) &&
         has(named, PROT_READ | PROT_WRITE, &stat) &&
         mprotect(named, MIB, PROT_READ | PROT_EXEC) == 0 &&
         has(named, PROT_READ | PROT_EXEC, &stat);
    munmap(own, 4 * MIB);
    ok = ok && !found(own + MIB, own, 4 * MIB, "");
    munmap(shared, MIB);
    munmap(named, MIB);
    munmap(closed, MIB);
    close(memory);
    close(file);
    return ok;
}

static void a_mapping_is_found_by_the_query_and_by_the_text(void **state)
{
    char own = 0;
    int status;
    (void)state;
    bool known = zc_maps_ask(&own, 1, true) != ZC_MAPS_UNKNOWN;
    assert_true(mappings_are_found());
    assert_int_equal(zc_maps_slow(), !known);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!forbid_from(SYS_ioctl, 0, ENOTTY))
            _exit(77);
        bool ok = mappings_are_found();
        _exit(ok && zc_maps_slow() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void a_program_without_standard_input_gets_its_answers(void **state)
{
    (void)state;
    char *p = map(4096, -1);
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    enum zc_maps_answer answer = zc_maps_ask(p, 4096, true);
    bool in = found(p, p, 4096, ""), closed = fcntl(STDIN_FILENO, F_GETFD) == -1;
    dup2(input, STDIN_FILENO);
    close(input);
    assert_true(in && closed);
    assert_int_equal(answer, zc_maps_ask(p, 4096, true));
    munmap(p, 4096);
}

static void errno_is_kept(void **state)
{
    (void)state;
    errno = 4711;
    struct zc_maps_mapping m;
    zc_maps_ask((void *)(uintptr_t)64, 5, true);
    zc_maps_find(64, &m);
    assert_int_equal(errno, 4711);
}

/* Copies, malloc and free are no cancellation points of the program's. */
static void *ask_while_cancelled(void *returned)
{
    pthread_cancel(pthread_self());
    zc_maps_ask((void *)(uintptr_t)64, 5, true);
    zc_limits_maps();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    *(bool *)returned = true;
    return NULL;
}

static void a_thread_that_is_to_be_cancelled_gets_its_answer(void **state)
{
    pthread_t thread;
    bool returned = false;
    (void)state;
    pthread_create(&thread, NULL, ask_while_cancelled, &returned);
    pthread_join(thread, NULL);
    assert_true(returned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_memory_is_what_its_protection_says),
        cmocka_unit_test(a_file_may_end_early),
        cmocka_unit_test(a_mapping_is_found_by_the_query_and_by_the_text),
        cmocka_unit_test(a_program_without_standard_input_gets_its_answers),
        cmocka_unit_test(errno_is_kept),
        cmocka_unit_test(a_thread_that_is_to_be_cancelled_gets_its_answer),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
