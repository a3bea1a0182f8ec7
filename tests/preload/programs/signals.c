/* SPDX-License-Identifier: MIT */
/* Signals and system calls of a program that shares nothing: it must tell the same under libzc. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static sigjmp_buf way_out;
static char *hidden; /* A page that nobody may touch. */

static void leave(int sig, siginfo_t *info, void *context)
{
    (void)context;
    printf("signal %d code %d at %td\n", sig, info->si_code, (char *)info->si_addr - hidden);
    siglongjmp(way_out, 1);
}

static void masks(void)
{
    sigset_t all, old, now;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pthread_sigmask(SIG_SETMASK, &old, &now);
    printf("blocked %d %d, before %d\n", sigismember(&now, SIGSEGV), sigismember(&now, SIGUSR1),
           sigismember(&old, SIGSEGV));
}

static void actions(void)
{
    struct sigaction act, old;
    memset(&act, 0, sizeof(act));
    act.sa_sigaction = leave;
    act.sa_flags = SA_SIGINFO;
    sigaddset(&act.sa_mask, SIGUSR1);
    printf("sigaction %d\n", sigaction(SIGSEGV, &act, NULL));
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(way_out, 1) == 0)
            *(volatile char *)(hidden + i) = 1;
    printf("again %d", sigaction(SIGSEGV, NULL, &old));
    printf(" same %d flags %d mask %d\n", old.sa_sigaction == leave,
           old.sa_flags == (SA_SIGINFO | (old.sa_flags & 0x04000000)),
           sigismember(&old.sa_mask, SIGUSR1));
    printf("signal %d", signal(SIGSEGV, SIG_IGN) != SIG_ERR);
    printf(" ignored %d\n", raise(SIGSEGV));
    printf("bad %d", sigaction(1000, NULL, &old));
    printf(" errno %d\n", errno);
}

static void calls(void)
{
    int ends[2];
    char text[32] = "";
    struct iovec vec[2] = {{text, 2}, {text + 2, 3}};
    struct msghdr message = {.msg_iov = vec, .msg_iovlen = 2};
    FILE *file = tmpfile();
    if (!file || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        exit(3);
    printf("write %zd", write(ends[0], "abcdefghij", 10));
    printf(" readv %zd %s", readv(ends[1], vec, 2), text);
    printf(" recvmsg %zd %s\n", recvmsg(ends[1], &message, 0), text);
    printf("fwrite %zu", fwrite("0123456789", 2, 5, file));
    rewind(file);
    printf(" fread %zu %s\n", fread(text, 3, 3, file), text);
    printf("bad %zd", read(ends[1], hidden, 0));
    printf(" %zd", send(ends[0], "x", 1, 0));
    printf(" %zd", recv(ends[1], hidden, 1, 0));
    printf(" errno %d\n", errno);
}

int main(int argc, char **argv)
{
    hidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    masks();
    actions();
    calls();
    if (argc > 1 && strcmp(argv[1], "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)hidden = 1;
    }
    return 0;
}
