/* SPDX-License-Identifier: MIT */
/* System calls on protected buffers: what they transfer, and what they say of bad ones. */
#include "fault_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../fortified.h"

#define BYTES (3 * PAGE)
#define OFFSET ((size_t)100) /* In the region: the buffer begins and ends inside a page. */

/* Two halves, the second first in memory, so that the order matters. */
static void halves(struct iovec *vec, void *buf, size_t n)
{
    vec[0] = (struct iovec){.iov_base = buf, .iov_len = n / 2};
    vec[1] = (struct iovec){.iov_base = (char *)buf + n / 2, .iov_len = n - n / 2};
}

/* A call that transfers n bytes between a descriptor and a buffer. */
#define CALL(name, expression)                                                                     \
    static ssize_t with_##name(int fd, void *buf, size_t n)                                        \
    {                                                                                              \
        return (ssize_t)(expression);                                                              \
    }
#define CALL_VECTOR(name, expression)                                                              \
    static ssize_t with_##name(int fd, void *buf, size_t n)                                        \
    {                                                                                              \
        struct iovec vec[2];                                                                       \
        halves(vec, buf, n);                                                                       \
        return expression;                                                                         \
    }
#define CALL_MESSAGE(name, expression)                                                             \
    static ssize_t with_##name(int fd, void *buf, size_t n)                                        \
    {                                                                                              \
        struct iovec vec[2];                                                                       \
        halves(vec, buf, n);                                                                       \
        struct mmsghdr many = {.msg_hdr = {.msg_iov = vec, .msg_iovlen = 2}};                      \
        struct msghdr *one = &many.msg_hdr;                                                        \
        (void)one;                                                                                 \
        return expression;                                                                         \
    }
#define CALL_STREAM(name, expression)                                                              \
    static ssize_t with_##name(int fd, void *buf, size_t n)                                        \
    {                                                                                              \
        FILE *stream = fdopen(dup(fd), "r");                                                       \
        ssize_t got = (ssize_t)(expression);                                                       \
        if (fclose(stream) != 0)                                                                   \
            return -1;                                                                             \
        return got;                                                                                \
    }

CALL(read, read(fd, buf, n))
CALL(__read, __read(fd, buf, n))
CALL(__read_chk, __read_chk(fd, buf, n, n))
CALL(pread, pread(fd, buf, n, 0))
CALL(__pread_chk, __pread_chk(fd, buf, n, 0, n))
CALL(pread64, pread64(fd, buf, n, 0))
CALL(__pread64, __pread64(fd, buf, n, 0))
CALL(__pread64_chk, __pread64_chk(fd, buf, n, 0, n))
CALL_VECTOR(readv, readv(fd, vec, 2))
CALL_VECTOR(preadv, preadv(fd, vec, 2, 0))
CALL_VECTOR(preadv64, preadv64(fd, vec, 2, 0))
CALL_VECTOR(preadv2, preadv2(fd, vec, 2, 0, 0))
CALL_VECTOR(preadv64v2, preadv64v2(fd, vec, 2, 0, 0))
CALL_STREAM(fread, fread(buf, 1, n, stream))
CALL_STREAM(fread_unlocked, fread_unlocked(buf, 1, n, stream))
CALL_STREAM(__fread_chk, __fread_chk(buf, n, 1, n, stream))
CALL_STREAM(__fread_unlocked_chk, __fread_unlocked_chk(buf, n, 1, n, stream))
CALL(recv, recv(fd, buf, n, MSG_WAITALL))
CALL(__recv_chk, __recv_chk(fd, buf, n, n, MSG_WAITALL))
CALL(recvfrom, recvfrom(fd, buf, n, MSG_WAITALL, NULL, NULL))
CALL(__recvfrom_chk, __recvfrom_chk(fd, buf, n, n, MSG_WAITALL, NULL, NULL))
CALL_MESSAGE(recvmsg, recvmsg(fd, one, MSG_WAITALL))
CALL_MESSAGE(recvmmsg, recvmmsg(fd, &many, 1, MSG_WAITALL, NULL) == 1 ? (ssize_t)many.msg_len : -1)

enum kind { ON_FILE, ON_STREAM, ON_SOCKET };
struct call {
    const char *name;
    ssize_t (*call)(int fd, void *buf, size_t n);
    enum kind kind; /* What it needs; a call of stdio tells errors otherwise. */
};
#define ROW(kind, name)                                                                            \
    {                                                                                              \
#name, with_##name, kind                                                                   \
    }
static const struct call readers[] = {
    ROW(ON_FILE, read),
    ROW(ON_FILE, __read),
    ROW(ON_FILE, __read_chk),
    ROW(ON_FILE, pread),
    ROW(ON_FILE, __pread_chk),
    ROW(ON_FILE, pread64),
    ROW(ON_FILE, __pread64),
    ROW(ON_FILE, __pread64_chk),
    ROW(ON_FILE, readv),
    ROW(ON_FILE, preadv),
    ROW(ON_FILE, preadv64),
    ROW(ON_FILE, preadv2),
    ROW(ON_FILE, preadv64v2),
    ROW(ON_STREAM, fread),
    ROW(ON_STREAM, fread_unlocked),
    ROW(ON_STREAM, __fread_chk),
    ROW(ON_STREAM, __fread_unlocked_chk),
    ROW(ON_SOCKET, read),
    ROW(ON_SOCKET, readv),
    ROW(ON_SOCKET, recv),
    ROW(ON_SOCKET, __recv_chk),
    ROW(ON_SOCKET, recvfrom),
    ROW(ON_SOCKET, __recvfrom_chk),
    ROW(ON_SOCKET, recvmsg),
    ROW(ON_SOCKET, recvmmsg),
};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static char pattern[BYTES];

static int temporary(void)
{
    char path[] = "/tmp/zc-fault-io-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

/* fd[0] for the call under test, fd[1] to see or give what it transfers; the same file, or the two
 * ends of a connection. */
static void open_pair(enum kind kind, int fd[2])
{
    int room = 1 << 20;
    if (kind != ON_SOCKET) {
        fd[0] = temporary();
        fd[1] = dup(fd[0]);
        return;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

static void close_pair(const int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

static void give(const int fd[2], enum kind kind)
{
    assert_int_equal(write(fd[1], pattern, BYTES), BYTES);
    if (kind != ON_SOCKET)
        lseek(fd[1], 0, SEEK_SET);
}

static void check_reader(const struct call *row)
{
    int fd[2];
    open_pair(row->kind, fd);
    give(fd, row->kind);
    fake_protect(PROT_READ);
    errno = 55;
    ssize_t got = row->call(fd[0], region + OFFSET, BYTES);
    if (got != (ssize_t)BYTES || faults || opened != 4)
        fail_msg("%s: %zd, errno %d, %d faults, %d opened", row->name, got, errno, faults, opened);
    assert_memory_equal(region + OFFSET, pattern, BYTES);
    assert_int_equal(region[OFFSET - 1], 1);
    assert_int_equal(region[OFFSET + BYTES], 4);
    assert_int_equal(errno, 55);
    close_pair(fd);
}

static void reading_into_protected_pages_succeeds(void **test)
{
    (void)test;
    for (size_t i = 0; i < COUNT(readers); i++)
        check_reader(&readers[i]);
}

/* What the kernel says of a bad buffer stays what it says. */
static void check_bad(const struct call *row)
{
    int fd[2];
    open_pair(row->kind, fd);
    give(fd, row->kind);
    errno = 0;
    if (row->kind != ON_STREAM) {
        assert_int_equal(row->call(fd[0], NULL, 0), 0);
        assert_int_equal(errno, 0);
        assert_int_equal(row->call(fd[0], foreign, 10), -1);
        assert_int_equal(errno, EFAULT);
        assert_int_equal(row->call(fd[0], (void *)~(uintptr_t)4095, 10), -1);
        assert_int_equal(errno, EFAULT);
        assert_int_equal(row->call(-1, region, 10), -1);
        assert_int_equal(errno, EBADF);
    }
    assert_int_equal(row->call(fd[0], region, 0), 0);
    close_pair(fd);
}

static void bad_buffers_fail_as_before(void **test)
{
    (void)test;
    fake_protect(PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < COUNT(readers); i++)
        if (strcmp(readers[i].name, "recvmmsg") != 0)
            check_bad(&readers[i]);
    assert_int_equal(faults, 0);
}

static void bad_arrays_and_messages_fail_as_before(void **test)
{
    (void)test;
    int fd[2];
    open_pair(ON_SOCKET, fd);
    give(fd, ON_SOCKET);
    const struct iovec *bad = (const struct iovec *)(void *)foreign;
#define REFUSED(call, error)                                                                       \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal(call, -1);                                                                \
        assert_int_equal(errno, error);                                                            \
    } while (0)
    REFUSED(readv(fd[0], bad, 2), EFAULT);
    REFUSED(readv(fd[0], bad, 5000), EINVAL);
    volatile int negative = -1;
    REFUSED(readv(fd[0], bad, negative), EINVAL);
    REFUSED(recvmsg(fd[0], (struct msghdr *)(void *)foreign, 0), EFAULT);
    struct msghdr message = {.msg_iov = (struct iovec *)(void *)foreign, .msg_iovlen = 1};
    REFUSED(recvmsg(fd[0], &message, 0), EFAULT);
    REFUSED(recvfrom(fd[0], region, 1, 0, (struct sockaddr *)(void *)region, (socklen_t *)bad),
            EFAULT);
    close_pair(fd);
    int file = temporary();
    REFUSED(pwritev(file, bad, 2, 0), EFAULT);
    close(file);
}

/* Headers, names and lengths may lie in protected pages too. */
static void messages_in_protected_pages_are_filled(void **test)
{
    (void)test;
    int fd[2];
    open_pair(ON_SOCKET, fd);
    fake_protect(PROT_READ | PROT_WRITE);
    struct mmsghdr *many = (struct mmsghdr *)(void *)region;
    struct msghdr *message = &many->msg_hdr;
    struct iovec *vec = (struct iovec *)(void *)(region + PAGE);
    memset(many, 0, sizeof(*many));
    message->msg_iov = vec;
    message->msg_iovlen = 2;
    halves(vec, region + 2 * PAGE + OFFSET, BYTES);
    for (size_t page = 0; page < PAGES; page++)
        state[page] = PROT_READ;
    mprotect(region, PAGES * PAGE, PROT_READ);
    give(fd, ON_SOCKET);
    assert_int_equal(recvmsg(fd[0], message, MSG_WAITALL), BYTES);
    assert_memory_equal(region + 2 * PAGE + OFFSET, pattern, BYTES);
    state[0] = PROT_READ;
    mprotect(region, PAGE, PROT_READ);
    assert_int_equal(sendmmsg(fd[0], many, 1, 0), 1);
    assert_int_equal(many->msg_len, BYTES);
    close_pair(fd);
}

static void names_in_protected_pages_are_filled(void **test)
{
    (void)test;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_storage own;
    socklen_t length = sizeof(own);
    own.ss_family = AF_UNIX;
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(sa_family_t)), 0); /* Autobind. */
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &length), 0);
    assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&own, length), 1);
    fake_protect(PROT_READ | PROT_WRITE);
    *(socklen_t *)(void *)region = sizeof(own);
    for (size_t page = 0; page < PAGES; page++)
        state[page] = PROT_READ;
    mprotect(region, PAGES * PAGE, PROT_READ);
    char byte;
    assert_int_equal(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)(void *)(region + PAGE),
                              (socklen_t *)(void *)region),
                     1);
    assert_int_equal(*(socklen_t *)(void *)region, length);
    assert_memory_equal(region + PAGE, &own, length);
    close(fd);
}

/* Protects again what open() has opened, as another thread's copy may, the given number of times;
 * at the last time that thread must be waited for. */
static int races;

static bool racing_open(uintptr_t low, uintptr_t high, bool refused)
{
    if (!races)
        return fake_open(low, high, refused);
    races -= races > 1 || refused;
    return true;
}

static const struct zc_fault_ops racing_ops = {fake_owns, fake_fault, NULL, racing_open};

static void read_in_a_race(void)
{
    int fd = temporary();
    if (zc_fault_start(&racing_ops) || write(fd, pattern, BYTES) != (ssize_t)BYTES)
        _exit(1);
    fake_protect(PROT_READ);
    races = 3;
    errno = 55;
    if (pread(fd, region, BYTES, 0) != (ssize_t)BYTES || errno != 55 || races ||
        memcmp(region, pattern, BYTES) != 0)
        _exit(2);
}

static void a_call_that_met_pages_protected_again_is_repeated(void **test)
{
    (void)test;
    assert_int_equal(in_child(read_in_a_race), 0);
}

static void *read_for_ever(void *fd)
{
    char *buf = region;
    (void)!read(*(int *)fd, buf, PAGE);
    return NULL;
}

static void a_waiting_read_can_be_cancelled(void **test)
{
    (void)test;
    int fd[2];
    pthread_t thread;
    void *result;
    assert_int_equal(pipe(fd), 0);
    fake_protect(PROT_READ);
    assert_int_equal(pthread_create(&thread, NULL, read_for_ever, fd), 0);
    while (__atomic_load_n(&state[0], __ATOMIC_ACQUIRE) == PROT_READ)
        usleep(100);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    close_pair(fd);
}

static int start(void **test)
{
    (void)test;
    fake_map();
    for (size_t i = 0; i < BYTES; i++)
        pattern[i] = (char)(i * 7 + i / 4096);
    return 0;
}

/* The first test runs before fault handling begins: nothing is asked then. */
static void nothing_is_asked_before_fault_handling_begins(void **test)
{
    (void)test;
    fake_protect(PROT_READ);
    int fd = temporary();
    assert_int_equal(write(fd, pattern, BYTES), BYTES);
    assert_int_equal(pread(fd, region, BYTES, 0), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(opened, 0);
    close(fd);
}

static void fault_handling_begins(void **test)
{
    (void)test;
    assert_null(zc_fault_start(&fake_ops));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_asked_before_fault_handling_begins),
        cmocka_unit_test(a_call_that_met_pages_protected_again_is_repeated),
        cmocka_unit_test(fault_handling_begins),
        cmocka_unit_test(reading_into_protected_pages_succeeds),
        cmocka_unit_test(bad_buffers_fail_as_before),
        cmocka_unit_test(bad_arrays_and_messages_fail_as_before),
        cmocka_unit_test(messages_in_protected_pages_are_filled),
        cmocka_unit_test(names_in_protected_pages_are_filled),
        cmocka_unit_test(a_waiting_read_can_be_cancelled),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, NULL);
}
