/* SPDX-License-Identifier: MIT */
/* System calls and functions of stdio that fill a host block of a pair, of which the device keeps
 * what was copied. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "../../fortified.h"
#include "shared_scene.h"

#define N ((size_t)8192) /* Bytes of a transfer, half of them in each of two pages of the pair. */

/* Buffers of calls: two parts, a message of them, a stream on a copy of fd. */
struct means {
    struct iovec parts[2];
    struct mmsghdr many;
    FILE *stream;
};

static struct means means_of(int fd, void *buf, bool stream)
{
    struct means m = {.parts = {{(char *)buf, N / 2}, {(char *)buf + N / 2, N / 2}}};
    if (stream)
        m.stream = fdopen(dup(fd), "r");
    return m;
}

static struct msghdr *message_of(struct means *m)
{
    m->many.msg_hdr = (struct msghdr){.msg_iov = m->parts, .msg_iovlen = 2};
    return &m->many.msg_hdr;
}

/* A line of N - 1 bytes: with the zero behind it N bytes, of which the last is not the file's. */
static ssize_t line(const char *got)
{
    return got ? (ssize_t)strlen(got) + 1 : -1;
}

static ssize_t whole_line(void *buf, FILE *stream)
{
    size_t room = N;
    char *at = buf;
    ssize_t got = getline(&at, &room, stream);
    return at == buf ? got + 1 : -1;
}

/* Calls X(kind, name, the call) that return N when they have filled buf with N bytes from fd. */
#define CALLS(X)                                                                                   \
    X(ON_FILE, read, read(fd, buf, N))                                                             \
    X(ON_FILE, __read, __read(fd, buf, N))                                                         \
    X(ON_FILE, __read_chk, __read_chk(fd, buf, N, N))                                              \
    X(ON_FILE, pread, pread(fd, buf, N, 0))                                                        \
    X(ON_FILE, __pread_chk, __pread_chk(fd, buf, N, 0, N))                                         \
    X(ON_FILE, pread64, pread64(fd, buf, N, 0))                                                    \
    X(ON_FILE, __pread64, __pread64(fd, buf, N, 0))                                                \
    X(ON_FILE, __pread64_chk, __pread64_chk(fd, buf, N, 0, N))                                     \
    X(ON_FILE, readv, readv(fd, m.parts, 2))                                                       \
    X(ON_FILE, preadv, preadv(fd, m.parts, 2, 0))                                                  \
    X(ON_FILE, preadv64, preadv64(fd, m.parts, 2, 0))                                              \
    X(ON_FILE, preadv2, preadv2(fd, m.parts, 2, 0, 0))                                             \
    X(ON_FILE, preadv64v2, preadv64v2(fd, m.parts, 2, 0, 0))                                       \
    X(ON_STREAM, fread, fread(buf, 1, N, m.stream))                                                \
    X(ON_STREAM, fread_unlocked, fread_unlocked(buf, 1, N, m.stream))                              \
    X(ON_STREAM, __fread_chk, __fread_chk(buf, N, 1, N, m.stream))                                 \
    X(ON_STREAM, __fread_unlocked_chk, __fread_unlocked_chk(buf, N, 1, N, m.stream))               \
    X(ON_STREAM, fgets, line(fgets(buf, N, m.stream)))                                             \
    X(ON_STREAM, fgets_unlocked, line(fgets_unlocked(buf, N, m.stream)))                           \
    X(ON_STREAM, __fgets_chk, line(__fgets_chk(buf, N, N, m.stream)))                              \
    X(ON_STREAM, __fgets_unlocked_chk, line(__fgets_unlocked_chk(buf, N, N, m.stream)))            \
    X(ON_STREAM, getline, whole_line(buf, m.stream))                                               \
    X(ON_SOCKET, read, read(fd, buf, N))                                                           \
    X(ON_SOCKET, readv, readv(fd, m.parts, 2))                                                     \
    X(ON_SOCKET, recv, recv(fd, buf, N, 0))                                                        \
    X(ON_SOCKET, __recv_chk, __recv_chk(fd, buf, N, N, 0))                                         \
    X(ON_SOCKET, recvfrom, recvfrom(fd, buf, N, 0, NULL, NULL))                                    \
    X(ON_SOCKET, __recvfrom_chk, __recvfrom_chk(fd, buf, N, N, 0, NULL, NULL))                     \
    X(ON_SOCKET, recvmsg, recvmsg(fd, message_of(&m), 0))                                          \
    X(ON_SOCKET, recvmmsg,                                                                         \
      (message_of(&m), recvmmsg(fd, &m.many, 1, 0, NULL) == 1) ? (ssize_t)m.many.msg_len : -1)

enum kind { ON_FILE, ON_STREAM, ON_SOCKET };

#define CALL(kind, name, call)                                                                     \
    static ssize_t kind##_##name(int fd, void *buf)                                                \
    {                                                                                              \
        struct means m = means_of(fd, buf, kind == ON_STREAM);                                     \
        ssize_t got = (ssize_t)(call);                                                             \
        if (m.stream)                                                                              \
            fclose(m.stream);                                                                      \
        return got;                                                                                \
    }
CALLS(CALL)

#define ROW(kind, name, call) {#name, kind, kind##_##name},
static const struct {
    const char *name;
    enum kind kind;
    ssize_t (*call)(int fd, void *buf);
} calls[] = {CALLS(ROW)};

/* A descriptor that N bytes of 7 can be read from, the last of them the end of a line for stdio. */
static int source(enum kind kind)
{
    static char bytes[N];
    int fd[2];
    memset(bytes, 7, N);
    if (kind == ON_SOCKET) {
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd));
        EXPECT(send(fd[1], bytes, N, 0) == (ssize_t)N);
        close(fd[1]);
        return fd[0];
    }
    fd[0] = memfd_create("file", 0);
    EXPECT(pwrite(fd[0], bytes, N, 0) == (ssize_t)N);
    return fd[0];
}

/* A pair for each call, because one whose pages part again and again stops sharing. */
static void reads(void)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        bool text = strstr(calls[i].name, "get");
        int fd = source(calls[i].kind);
        if (text)
            EXPECT(pwrite(fd, "\n", 1, N - 2) == 1);
        struct pair p = filled_pair(SIZE, (unsigned)i);
        unsigned char *at = p.h + UNIT - N / 2;
        ssize_t got = calls[i].call(fd, at);
        size_t same = text ? N - 2 : N;
        printf("%s: %zd, %d bytes as sent, others kept %d, the device's %d\n", calls[i].name, got,
               all_are(at, 7, same),
               shows(p.h, UNIT - N / 2, (unsigned)i) &&
                   shows_part(p.h, UNIT + N / 2, SIZE - UNIT - N / 2, (unsigned)i),
               copy_sees(p.d, 0, SIZE, (unsigned)i));
        close(fd);
        give_back(p);
    }
}

/* Other memory that the kernel fills: the sender's name and its length, in two pages. */
static void names(void)
{
    struct pair p = new_pair(SIZE);
    char byte = 0;
    int fd[2];
    struct sockaddr_un *name = (struct sockaddr_un *)(void *)(p.h + UNIT);
    socklen_t *length = (socklen_t *)(void *)p.h;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd));
    EXPECT(send(fd[1], "a", 1, 0) == 1);
    paint(p.h, SIZE, 1);
    *length = sizeof(*name);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    printf("recvfrom %zd", recvfrom(fd[0], &byte, 1, 0, (struct sockaddr *)name, length));
    printf(" %c, length %u\n", byte, *length);
    give_back(p);
}

/* Sends a byte and a descriptor. */
static void send_descriptor(int fd, int sent)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {"b", 1};
    struct msghdr out = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&out);
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &sent, sizeof(int));
    EXPECT(sendmsg(fd, &out, 0) == 1);
}

/* Lengths and flags in a header, and control data in another page. */
static void headers(void)
{
    struct pair p = new_pair(SIZE);
    struct mmsghdr *many = (struct mmsghdr *)(void *)(p.h + 2 * UNIT);
    char byte = 0;
    struct iovec part = {&byte, 1};
    int fd[2], passed = -1;
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd));
    send_descriptor(fd[1], fd[1]);
    paint(p.h, SIZE, 1);
    memset(many, 0, sizeof(*many));
    many->msg_hdr = (struct msghdr){.msg_iov = &part,
                                    .msg_iovlen = 1,
                                    .msg_control = p.h + 4096,
                                    .msg_controllen = CMSG_SPACE(sizeof(int))};
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    printf("recvmmsg %d", recvmmsg(fd[0], many, 1, 0, NULL));
    printf(" %c, length %u, flags %d", byte, many->msg_len, many->msg_hdr.msg_flags);
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&many->msg_hdr)), sizeof(int));
    printf(", a descriptor %d\n", send(passed, "c", 1, 0) == 1);
    EXPECT(shows(p.h, 4096, 1) && shows_part(p.h, 8192, UNIT - 8192, 1));
    give_back(p);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"reads", reads}, {"names", names}, {"headers", headers}};
    return RUN_SCENES(all, argc, argv);
}
