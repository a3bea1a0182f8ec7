/* SPDX-License-Identifier: MIT */
/* Forks beside a thread that works on host blocks: before and after each system call that libzc
 * makes in one of the two, the other goes as far as it can.  The child has every block that the
 * program had, and the parent all that the thread did. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shared_scene.h"

#define PAGE ((size_t)4096)
#define SEEN ((size_t)64 << 10) /* Of each block, from its start: what is painted. */
#define PATIENCE 20             /* Times 0.1 ms: the other may wait for a lock of this one's. */

extern pid_t _Fork(void) __attribute__((weak)); /* From glibc 2.34 on. */
static pid_t (*make_child)(void) = fork;

/* The block, NULL while it is no block, and its pattern, 0 while that changes. */
static unsigned char *volatile h;
static unsigned char *other; /* Any fork has something to do for it. */
static volatile unsigned seed;
static CUdeviceptr d;
static CUcontext context;

static pid_t parent;
static bool fork_pauses;         /* Else the work does. */
static __thread int left;        /* Moments up to the pause; 0 in a thread that has none. */
static atomic_bool ready;        /* The thread is there. */
static atomic_bool met;          /* The pause was reached. */
static atomic_bool go, finished; /* The other may begin, and has ended. */

static void pause_here(void)
{
    atomic_store(&met, true);
    atomic_store(&go, true);
    for (int i = 0; i < PATIENCE && !atomic_load(&finished); i++)
        usleep(100);
    left = fork_pauses; /* A fork gives back what others wait for only later. */
}

/* libzc's, too. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    bool counts = left && number != SYS_nanosleep && getpid() == parent;
    if (counts && !--left)
        pause_here();
    long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    int saved = errno;
    if (counts && left && !--left)
        pause_here();
    errno = saved;
    return result;
}

static void repaint(unsigned with)
{
    seed = 0;
    paint(h, SEEN, with);
    seed = with;
}

static void get(void)
{
    h = host_block(UNIT);
}

static void put_back(void)
{
    unsigned char *gone = h;
    h = NULL;
    free(gone);
    h = host_block(UNIT);
}

static void resize(void)
{
    unsigned char *old = h;
    h = NULL;
    h = realloc(old, 2 * UNIT);
}

static void send(void)
{
    CHECK(cuMemcpyHtoD(d, h, UNIT));
}

static void fetch(void)
{
    seed = 0;
    CHECK(cuMemcpyDtoH(h, d, UNIT));
}

static unsigned char *last_page(void)
{
    return (unsigned char *)((uintptr_t)(h + UNIT - PAGE) & ~(PAGE - 1));
}

static void protect(void)
{
    EXPECT(mprotect(last_page(), PAGE, PROT_NONE) == 0);
}

static void map_over(void)
{
    EXPECT(mmap(last_page(), PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == last_page());
    memset(last_page(), 7, PAGE);
}

static void empty(void)
{
    EXPECT(madvise(last_page(), PAGE, MADV_DONTNEED) == 0);
    memset(last_page(), 7, PAGE);
}

/* True where the kernel may read the page. */
static bool readable(const void *page)
{
    int ends[2];
    EXPECT(pipe(ends) == 0);
    bool done = write(ends[1], page, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return done;
}

static const struct job {
    const char *name;
    void (*run)(void);
    enum { NOTHING, ALONE, PAIR } before; /* The host block at first. */
} jobs[] = {{"get", get, NOTHING},
            {"free", put_back, ALONE},
            {"realloc", resize, ALONE},
            {"protect", protect, ALONE},
            {"map over", map_over, ALONE},
            {"empty", empty, ALONE},
            {"send", send, ALONE},
            {"fetch", fetch, ALONE},
            {"free of a pair's", put_back, PAIR},
            {"protect of a pair's", protect, PAIR},
            {"map over of a pair's", map_over, PAIR},
            {"send again", send, PAIR},
            {"fetch again", fetch, PAIR}};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]), HOST_JOBS = 6 };

struct turn {
    const struct job *job;
    int at; /* The pause: the moment before or after a system call. */
};

static void *work(void *arg)
{
    const struct turn *turn = arg;
    CHECK(cuCtxSetCurrent(context));
    atomic_store(&ready, true);
    while (fork_pauses && !atomic_load(&go))
        usleep(100);
    left = fork_pauses ? 0 : turn->at;
    turn->job->run();
    repaint(2);
    left = 0;
    atomic_store(fork_pauses ? &finished : &go, true);
    return NULL;
}

static _Noreturn void look(void)
{
    bool good = true;
    if (h) {
        good = !seed || shows(h, SEEN, seed);
        paint(h, SEEN, 5);
        good = good && shows(h, SEEN, 5);
    }
    _exit(good ? 0 : 1);
}

/* No block that was freed before is given out again. */
static void empty_pool(void)
{
    pid_t child = fork();
    if (!child)
        _exit(0);
    EXPECT(waitpid(child, NULL, 0) == child);
}

static void prepare(const struct job *job)
{
    empty_pool();
    other = host_block(UNIT);
    h = NULL;
    seed = 0;
    d = device_block(UNIT);
    if (job->before != NOTHING) {
        h = host_block(UNIT);
        memset(h, 0, UNIT);
        repaint(1);
    }
    bool by_fetch = job->before == PAIR && !kernels_read;
    if (job->before == PAIR && kernels_read)
        send();
    else if (by_fetch || job->run == fetch)
        put(d, UNIT, 1);
    if (by_fetch) {
        fetch();
        seed = 1;
    }
    atomic_store(&ready, false);
    atomic_store(&met, false);
    atomic_store(&go, false);
    atomic_store(&finished, false);
}

static void conclude(const struct job *job)
{
    EXPECT(shows(h, SEEN, 2));
    if (job->run == protect) {
        EXPECT(!readable(last_page()));
        EXPECT(mprotect(last_page(), PAGE, PROT_READ | PROT_WRITE) == 0);
    }
    if (job->run == map_over || job->run == empty)
        EXPECT(all_are(last_page(), 7, PAGE));
    give_back((struct pair){h, d});
    free(other);
}

/* False where there was no such moment. */
static bool take_turn(struct turn turn)
{
    pthread_t thread;
    int status;
    prepare(turn.job);
    CHECK(pthread_create(&thread, NULL, work, &turn));
    while (!atomic_load(fork_pauses ? &ready : &go))
        usleep(100);
    left = fork_pauses ? turn.at : 0;
    pid_t child = make_child();
    if (!child)
        look();
    left = 0;
    atomic_store(fork_pauses ? &go : &finished, true);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(pthread_join(thread, NULL));
    if (status)
        TELL("%s: %s paused at its moment %d: the child's status is %#x\n", turn.job->name,
             fork_pauses ? "a fork" : "it", turn.at, status);
    EXPECT(status == 0);
    conclude(turn.job);
    return atomic_load(&met);
}

static void do_jobs(int count)
{
    parent = getpid();
    /* With two devices in use libzc registers nothing early.  The simulation is closed while it
     * forks, so that each fork would wait for that. */
    start_gpu(1);
    context = start_gpu(0);
    for (int i = 0; i < 2 * count; i++) {
        struct turn turn = {&jobs[i / 2], 1};
        fork_pauses = i % 2;
        while (take_turn(turn))
            turn.at++;
        TELL("%s, %s: %d\n", turn.job->name, fork_pauses ? "fork" : "work", turn.at - 1);
    }
    end_gpu(1);
}

static void beside(void)
{
    do_jobs(JOBS);
}

/* With children of which libc tells no handler.  What the simulation has registered would be its
 * children's. */
static void beside_quiet(void)
{
    if (_Fork)
        make_child = _Fork;
    do_jobs(HOST_JOBS);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"beside", beside}, {"beside_quiet", beside_quiet}};
    return RUN_SCENES(all, argc, argv);
}
