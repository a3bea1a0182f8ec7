/* The life of a pair: its two sides are freed by different threads at once. */
#include "host_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "place/extent.h"
#include "shared/access.h"
#include "shared/pair.h"

#define SIZE (4 * MIB)

static struct zc_extent *extent;

/* The other side's free, between two instructions of this one's. */
static void free_host(int sig)
{
    (void)sig;
    zc_shared_host_gone(extent);
}

static struct zc_shared *pair_in(char *host)
{
    const char *why;
    const struct zc_shared_want want = {
        .size = SIZE, .rule = &zc_rules()->rules[1], .node = -1}; /* "[rule device]" */
    struct zc_shared *p = zc_shared_make(&want, &why);
    assert_non_null(p);
    assert_ptr_equal(p->pages.base, host);
    extent = zc_hostheap_extent((uintptr_t)host);
    zc_shared_publish(p);
    zc_hostheap_elected(extent);
    return p;
}

/* True once a thread blocks SIGUSR1, as it does from the moment on that it wants the lock. */
static bool wants_the_lock(pid_t thread)
{
    char path[64], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) && sscanf(line, "SigBlk: %llx", &blocked) != 1)
        ;
    fclose(f);
    return blocked & 1ull << (SIGUSR1 - 1);
}

static pid_t tid; /* Atomic. */

/* A new thread has the mask of the one that made it, which holds the lock. */
static void *free_device(void *pair)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    __atomic_store_n(&tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    zc_shared_device_gone(pair);
    return NULL;
}

#define POLICY                                                                                     \
    "[rule host]\napi = malloc\nsize = 1M..\nplace = shared\n"                                    \
    "[rule device]\napi = cudaMalloc\nplace = shared\n"

static void threads_that_free_both_sides_at_once_end_the_pair_once(void **test)
{
    struct zc_pair_counts before, after;
    struct zc_shared_hold hold;
    pthread_t thread;
    pid_t other;
    (void)test;
    host_policy(POLICY);
    char *host = host_get(SIZE);
    assert_non_null(host);
    struct zc_shared *p = pair_in(host);
    zc_shared_totals(&before);
    zc_shared_leave(p, false);
    signal(SIGUSR1, free_host);
    assert_true(zc_shared_lock(p, &hold));
    pthread_create(&thread, NULL, free_device, p);
    while (!(other = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)) || !wants_the_lock(other))
        sched_yield();
    pthread_kill(thread, SIGUSR1);
    zc_shared_unlock(p, &hold);
    pthread_join(thread, NULL);
    zc_shared_totals(&after);
    assert_int_equal(before.pairs, 1);
    assert_int_equal(after.pairs, 1);
    assert_null(extent->shared);
    zc_hostheap_put(host);
    /* The object of a pair that ended twice would be given out twice. */
    const struct zc_shared *first = pair_in(host_get(SIZE));
    assert_ptr_not_equal(first, pair_in(host_get(SIZE)));
}

static pthread_t second;
static int second_opened = -1; /* Atomic; -1 while it has no answer. */

static void *open_too(void *unused)
{
    const char *why;
    __atomic_store_n(&second_opened, zc_shared_access_open(&why), __ATOMIC_RELEASE);
    return unused;
}

/* The library's calls come here.  In the first one of a scene a second thread asks for the same,
 * and has some time to get it before the first. */
static bool ask_twice;

void *mmap(void *at, size_t n, int rights, int flags, int fd, off_t offset)
{
    if (ask_twice) {
        ask_twice = false;
        pthread_create(&second, NULL, open_too, NULL);
        for (int i = 0; i < 1000 && __atomic_load_n(&second_opened, __ATOMIC_ACQUIRE) < 0; i++)
            usleep(100);
    }
    return (void *)syscall(SYS_mmap, at, n, rights, flags, fd, offset);
}

static void open_at_once(void)
{
    const char *why;
    host_policy(POLICY);
    if (!zc_hostrule_open())
        _exit(2);
    ask_twice = true;
    bool first = zc_shared_access_open(&why);
    pthread_join(second, NULL);
    _exit(!(first && second_opened == 1));
}

static void threads_that_pair_first_at_once_both_may(void **test)
{
    int status;
    (void)test;
    pid_t child = fork();
    if (child == 0)
        open_at_once();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_pair_first_at_once_both_may),
        cmocka_unit_test(threads_that_free_both_sides_at_once_end_the_pair_once),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
