/* SPDX-License-Identifier: MIT */
/* System calls that wait for descriptors, fill small structures or go to the process's own memory,
 * where all of that lies in a host block of a pair. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "../../fortified.h"
#include "shared_scene.h"

#define FDS 1000
#define BUFFER ((size_t)200) /* Bytes that a call may fill. */
#define LINK "/proc/self/cwd"

/* Arguments of the calls, all of them in the pair. */
struct waits {
    struct pollfd *fds; /* In two pages. */
    fd_set *set;
    struct epoll_event *events;
    struct timespec *now;
    struct timeval *at_once;
    sigset_t *mask;
    struct sockaddr_un *name;
    socklen_t *length;
    char *buf; /* In two pages. */
    int fd, epoll, listener;
};

static struct waits lay_out(unsigned char *h)
{
    return (struct waits){.fds = (struct pollfd *)(void *)(h + UNIT - 4096),
                          .set = (fd_set *)(void *)(h + 2 * UNIT),
                          .events = (struct epoll_event *)(void *)(h + UNIT - 24),
                          .now = (struct timespec *)(void *)(h + 64),
                          .at_once = (struct timeval *)(void *)(h + 128),
                          .mask = (sigset_t *)(void *)(h + 256),
                          .name = (struct sockaddr_un *)(void *)(h + 2 * UNIT),
                          .length = (socklen_t *)(void *)(h + 64),
                          .buf = (char *)h + UNIT - BUFFER / 2};
}

/* A connection with a byte in it, one that was not accepted yet, and a set that knows the first. */
static void connect_all(struct waits *w)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t length = sizeof(name);
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    EXPECT(write(ends[1], "x", 1) == 1);
    w->fd = ends[0];
    w->epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 42};
    CHECK(epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->fd, &event));
    w->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(w->listener, (struct sockaddr *)&name, sizeof(sa_family_t)));
    CHECK(listen(w->listener, 64));
    CHECK(getsockname(w->listener, (struct sockaddr *)&name, &length));
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(client, (struct sockaddr *)&name, length));
}

static void fill_polls(struct waits *w)
{
    for (int i = 0; i < FDS; i++)
        w->fds[i] = (struct pollfd){.fd = w->fd, .events = POLLIN};
    *w->now = (struct timespec){0};
    *w->at_once = (struct timeval){0};
    sigemptyset(w->mask);
}

static void fill_sets(struct waits *w)
{
    fill_polls(w);
    FD_ZERO(w->set);
    FD_SET(w->fd, w->set);
    FD_SET(w->epoll, w->set);
    FD_SET(1000, w->set);
}

static void fill_names(struct waits *w)
{
    memset(w->name, 0, sizeof(*w->name));
    *w->length = sizeof(*w->name);
}

static void fill_nothing(struct waits *w)
{
    (void)w;
}

static long polled(const struct waits *w)
{
    long sum = 0;
    for (int i = 0; i < FDS; i++)
        sum += w->fds[i].revents;
    return sum;
}

static long selected(const struct waits *w)
{
    return FD_ISSET(w->fd, w->set) + 10 * FD_ISSET(w->epoll, w->set) + 100 * FD_ISSET(1000, w->set);
}

static long waited(const struct waits *w)
{
    return (long)w->events[0].data.u64 * 10 + w->events[0].events;
}

static long named(const struct waits *w)
{
    return w->name->sun_family * 1000 + (long)*w->length;
}

/* Of text; what is random differs from what was there, almost surely. */
static long spelled(const struct waits *w)
{
    return strncmp(w->buf, getenv("PWD"), strlen(getenv("PWD"))) == 0;
}

static long random_now(const struct waits *w)
{
    return !shows_part((unsigned char *)w->buf - (UNIT - BUFFER / 2), UNIT - BUFFER / 2, BUFFER, 1);
}

/* X(what fills the arguments, what tells of the result, name, the call) */
#define CALLS(X)                                                                                   \
    X(fill_polls, polled, poll, poll(w.fds, FDS, 0))                                               \
    X(fill_polls, polled, __poll, __poll(w.fds, FDS, 0))                                           \
    X(fill_polls, polled, __poll_chk, __poll_chk(w.fds, FDS, 0, FDS * sizeof(*w.fds)))             \
    X(fill_polls, polled, ppoll, ppoll(w.fds, FDS, w.now, w.mask))                                 \
    X(fill_polls, polled, __ppoll_chk,                                                             \
      __ppoll_chk(w.fds, FDS, w.now, w.mask, FDS * sizeof(*w.fds)))                                \
    X(fill_sets, selected, select, select(w.epoll + 1, w.set, NULL, NULL, w.at_once))              \
    X(fill_sets, selected, __select, __select(w.epoll + 1, NULL, w.set, NULL, w.at_once))          \
    X(fill_sets, selected, pselect, pselect(w.epoll + 1, w.set, NULL, NULL, w.now, w.mask))        \
    X(fill_polls, waited, epoll_wait, epoll_wait(w.epoll, w.events, 10, 0))                        \
    X(fill_polls, waited, epoll_pwait, epoll_pwait(w.epoll, w.events, 10, 0, w.mask))              \
    X(fill_polls, waited, epoll_pwait2, epoll_pwait2(w.epoll, w.events, 10, w.now, w.mask))        \
    X(fill_names, named, accept, accept(w.listener, (struct sockaddr *)w.name, w.length))          \
    X(fill_names, named, accept4, accept4(w.listener, (struct sockaddr *)w.name, w.length, 0))     \
    X(fill_names, named, getsockname, getsockname(w.fd, (struct sockaddr *)w.name, w.length))      \
    X(fill_names, named, getpeername, getpeername(w.fd, (struct sockaddr *)w.name, w.length))      \
    X(fill_nothing, random_now, getrandom, getrandom(w.buf, BUFFER, 0))                            \
    X(fill_nothing, random_now, getentropy, getentropy(w.buf, BUFFER))                             \
    X(fill_nothing, spelled, getcwd, getcwd(w.buf, BUFFER) == w.buf)                               \
    X(fill_nothing, spelled, __getcwd_chk, __getcwd_chk(w.buf, BUFFER, BUFFER) == w.buf)           \
    X(fill_nothing, spelled, readlink, readlink(LINK, w.buf, BUFFER) > 0)                          \
    X(fill_nothing, spelled, __readlink_chk, __readlink_chk(LINK, w.buf, BUFFER, BUFFER) > 0)      \
    X(fill_nothing, spelled, readlinkat, readlinkat(AT_FDCWD, LINK, w.buf, BUFFER) > 0)            \
    X(fill_nothing, spelled, __readlinkat_chk,                                                     \
      __readlinkat_chk(AT_FDCWD, LINK, w.buf, BUFFER, BUFFER) > 0)

/* A pair for each call, because one whose pages part again and again stops sharing. */
#define CALL(fill, tell, name, call)                                                               \
    static void with_##name(void)                                                                  \
    {                                                                                              \
        struct pair p = new_pair(SIZE);                                                            \
        struct waits w = lay_out(p.h);                                                             \
        connect_all(&w);                                                                           \
        paint(p.h, SIZE, 1);                                                                       \
        fill(&w);                                                                                  \
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));                                                       \
        errno = 55;                                                                                \
        long got = (long)(call);                                                                   \
        bool kept = errno == 55;                                                                   \
        printf(#name ": %d, %ld, %d\n", (int)(got > 2 ? 3 : got), tell(&w), kept);                 \
        give_back(p);                                                                              \
    }
CALLS(CALL)

static void waits(void)
{
#define RUN(fill, tell, name, call) with_##name();
    CALLS(RUN)
}

/* Waiting calls end a thread that is cancelled in them. */
static struct waits empty;

static void *poll_for_ever(void *unused)
{
    (void)unused;
    poll(empty.fds, 1, -1);
    return NULL;
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    epoll_wait(empty.epoll, empty.events, 1, -1);
    return NULL;
}

static void cancelled(void)
{
    void *(*const waiting[])(void *) = {poll_for_ever, wait_for_ever};
    struct pair p = filled_pair(SIZE, 1);
    int fd[2];
    empty = lay_out(p.h);
    CHECK(pipe(fd));
    empty.epoll = epoll_create1(0);
    empty.fds[0] = (struct pollfd){.fd = fd[0], .events = POLLIN};
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    for (size_t i = 0; i < 2; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, waiting[i], NULL));
        CHECK(pthread_cancel(thread));
        CHECK(pthread_join(thread, &result));
        printf("cancelled %d\n", result == PTHREAD_CANCELED);
    }
    give_back(p);
}

/* The process's memory as a file: what was written there is the CPU's, and not the device's. */
static int memory_file(const char *path)
{
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0);
    return fd;
}

#define MEMORY_CALLS(X)                                                                            \
    X(pwrite, pwrite(fd, bytes, 64, at))                                                           \
    X(pwrite64, pwrite64(fd, bytes, 64, at))                                                       \
    X(__pwrite64, __pwrite64(fd, bytes, 64, at))                                                   \
    X(pwritev, pwritev(fd, parts, 2, at))                                                          \
    X(pwritev64, pwritev64(fd, parts, 2, at))                                                      \
    X(pwritev2, pwritev2(fd, parts, 2, at, 0))                                                     \
    X(pwritev64v2, pwritev64v2(fd, parts, 2, at, 0))                                               \
    X(pread, pread(fd, bytes, 64, at))                                                             \
    X(__pread_chk, __pread_chk(fd, bytes, 64, at, 64))                                             \
    X(pread64, pread64(fd, bytes, 64, at))                                                         \
    X(__pread64, __pread64(fd, bytes, 64, at))                                                     \
    X(__pread64_chk, __pread64_chk(fd, bytes, 64, at, 64))                                         \
    X(preadv, preadv(fd, parts, 2, at))                                                            \
    X(preadv64, preadv64(fd, parts, 2, at))                                                        \
    X(preadv2, preadv2(fd, parts, 2, at, 0))                                                       \
    X(preadv64v2, preadv64v2(fd, parts, 2, at, 0))

#define MEMORY_CALL(name, call)                                                                    \
    static void memory_##name(int fd)                                                              \
    {                                                                                              \
        static unsigned char bytes[64];                                                            \
        struct iovec parts[2] = {{bytes, 32}, {bytes + 32, 32}};                                   \
        (void)parts;                                                                               \
        struct pair p = filled_pair(SIZE, 1);                                                      \
        off_t at = (off_t)(uintptr_t)(p.h + UNIT - 32);                                            \
        memset(bytes, 7, 64);                                                                      \
        printf(#name ": %zd, ", call);                                                             \
        printf("%d %d\n", bytes[63], p.h[UNIT + 31]);                                              \
        printf("the device's %d\n", copy_sees(p.d, 0, SIZE, 1));                                   \
        give_back(p);                                                                              \
    }
MEMORY_CALLS(MEMORY_CALL)

static void own_memory(void)
{
#define MEMORY_RUN(name, call)                                                                     \
    memory_##name(memory_file("/proc/self/mem"));                                                  \
    memory_##name(memory_file("/proc/thread-self/mem"));
    MEMORY_CALLS(MEMORY_RUN)
}

/* Another file may be as long as the heap's addresses are high. */
static void sparse_file(void)
{
    struct pair p = filled_pair(SIZE, 1);
    int fd = memfd_create("mem", 0);
    char byte = 5;
    printf("%zd", pwrite(fd, &byte, 1, (off_t)(uintptr_t)p.h));
    byte = 0;
    printf(" %zd %d\n", pread(fd, &byte, 1, (off_t)(uintptr_t)p.h), byte);
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    give_back(p);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"waits", waits},
        {"cancelled", cancelled},
        {"own_memory", own_memory},
        {"sparse_file", sparse_file},
    };
    return RUN_SCENES(all, argc, argv);
}
