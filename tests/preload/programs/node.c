/* SPDX-License-Identifier: MIT */
/* node PROCESSES BLOCKS BYTES [heap]: so many processes ask at the same time for device blocks of
 * so many bytes, or with `heap` for blocks of malloc, the first ones before they use CUDA, and copy
 * them.  When all have them, every second process is killed, and the others ask for as many again.
 * Then they end. */
#include <signal.h>
#include <sys/wait.h>

#include "program.h"

#define PROCESSES_MAX 64
#define BLOCKS_MAX 64

static unsigned blocks;
static size_t bytes;
static bool heap;
static CUdeviceptr target;

static void *host[BLOCKS_MAX];

static void ask_heap(void)
{
    for (unsigned i = 0; heap && i < blocks; i++)
        host[i] = memset(malloc(bytes), 1, bytes);
}

static void ask_or_copy(void)
{
    CUdeviceptr p;
    for (unsigned i = 0; i < blocks; i++)
        if (heap)
            CHECK(cuMemcpyHtoD(target, host[i], bytes));
        else
            CHECK(cuMemAlloc(&p, bytes));
}

/* Asks, tells that by a byte, and goes on when the parent sends one. */
static void work(int from, int to)
{
    char step;
    ask_heap();
    start_gpu(0);
    if (heap)
        CHECK(cuMemAlloc(&target, bytes));
    for (bool later = false; read(from, &step, 1) == 1; later = true) {
        if (later)
            ask_heap();
        ask_or_copy();
        EXPECT(write(to, &step, 1) == 1);
    }
    exit(0);
}

int main(int argc, char **argv)
{
    int order[PROCESSES_MAX][2], done[2];
    pid_t pid[PROCESSES_MAX];
    unsigned n = argc > 3 ? (unsigned)atoi(argv[1]) : 0;
    char step = 0;
    EXPECT(n && n <= PROCESSES_MAX && pipe(done) == 0);
    blocks = (unsigned)atoi(argv[2]);
    bytes = (size_t)atol(argv[3]);
    EXPECT(blocks <= BLOCKS_MAX);
    heap = argc > 4;
    for (unsigned i = 0; i < n; i++) {
        EXPECT(pipe(order[i]) == 0 && (pid[i] = fork()) >= 0);
        if (pid[i] == 0) {
            for (unsigned k = 0; k <= i; k++)
                close(order[k][1]);
            work(order[i][0], done[1]);
        }
    }
    close(done[1]);
    for (unsigned i = 0; i < n; i++)
        EXPECT(write(order[i][1], &step, 1) == 1);
    for (unsigned i = 0; i < n; i++)
        EXPECT(read(done[0], &step, 1) == 1);
    for (unsigned i = 1; i < n; i += 2)
        EXPECT(kill(pid[i], SIGKILL) == 0 && waitpid(pid[i], NULL, 0) == pid[i]);
    for (unsigned i = 0; i < n; i += 2)
        EXPECT(write(order[i][1], &step, 1) == 1);
    for (unsigned i = 0; i < n; i += 2)
        EXPECT(read(done[0], &step, 1) == 1);
    for (unsigned i = 0; i < n; i += 2) {
        int status;
        close(order[i][1]);
        EXPECT(waitpid(pid[i], &status, 0) == pid[i] && status == 0);
    }
    return 0;
}
