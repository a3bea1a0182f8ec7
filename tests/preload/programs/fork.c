/* SPDX-License-Identifier: MIT */
/* Forks in the ways that programs fork, with CUDA in the parent, the child, or both. A parent
 * copies PARENT bytes, a child CHILD bytes, so that their counts can be told apart. */
#include <alloca.h>
#include <pthread.h>
#include <stdbool.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define PARENT ((size_t)3000)
#define CHILD ((size_t)500)
#define FORKS 200
#define THREADS 8
#define HOST ((size_t)100000) /* Bytes of a large host block. */

static const char *self; /* Path of this program. */

/* One block, one copy up, one down. */
static void use_gpu(size_t bytes)
{
    char host[PARENT];
    CUdeviceptr p;
    start_gpu(0);
    CHECK(cuMemAlloc(&p, bytes));
    memset(host, 7, bytes);
    CHECK(cuMemcpyHtoD(p, host, bytes));
    memset(host, 0, bytes);
    CHECK(cuMemcpyDtoH(host, p, bytes));
    EXPECT(all_are(host, 7, bytes));
    CHECK(cuMemFree(p));
}

/* Ends as well as the child did. */
static void expect_child(pid_t child)
{
    int status = 0;
    EXPECT(child > 0);
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void before_init(void)
{
    pid_t child = fork();
    if (child == 0) {
        use_gpu(CHILD);
        exit(0);
    }
    expect_child(child);
    use_gpu(PARENT);
}

/* A child that no handler of pthread_atfork(3) sees, as _Fork(2) makes them, and that exits. */
static void by_clone(void)
{
    use_gpu(PARENT);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        exit(0);
    expect_child(child);
    use_gpu(PARENT);
}

/* In a child whose parent has used CUDA: the driver's own codes, for blocks of the parent
 * too. */
static void ask_in_child(CUdeviceptr p)
{
    CUdeviceptr q;
    char host[16] = "";
    size_t size;
    unsigned type;
    SHOW(cuInit(0));
    SHOW(cuMemAlloc(&q, 1000));
    SHOW(cuMemcpyHtoD(p, host, sizeof(host)));
    SHOW(cuMemcpyHtoDAsync(p, host, sizeof(host), NULL));
    SHOW(cuMemsetD8(p, 0, 16));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    SHOW(cuMemGetAddressRange(&q, &size, p));
    SHOW(cuMemGetInfo(&size, &size));
    SHOW(cuMemFreeAsync(p, NULL));
    SHOW(cuMemFree(p));
    fflush(stdout);
}

static void after_init(void)
{
    CUdeviceptr p;
    char host[16];
    use_gpu(PARENT);
    CHECK(cuMemAlloc(&p, 4096));
    CHECK(cuMemsetD8(p, 5, 4096));
    pid_t child = fork();
    if (child == 0) {
        ask_in_child(p);
        exit(0);
    }
    expect_child(child);
    CHECK(cuMemcpyDtoH(host, p, sizeof(host)));
    EXPECT(all_are(host, 5, sizeof(host)));
    CHECK(cuMemFree(p));
}

static void *fork_in_thread(void *unused)
{
    before_init();
    return unused;
}

static void from_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_in_thread, NULL));
    CHECK(pthread_join(thread, NULL));
}

static void use(void)
{
    use_gpu(CHILD);
}

static void with_exec(void)
{
    use_gpu(PARENT);
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "use", (char *)NULL);
        _exit(127);
    }
    expect_child(child);
}

static void with_vfork(void)
{
    use_gpu(PARENT);
    pid_t child = vfork();
    if (child == 0) {
        execl(self, self, "use", (char *)NULL);
        _exit(127);
    }
    expect_child(child);
}

/* Becomes a daemon first and uses CUDA then, as services do. */
static void as_daemon(void)
{
    int done[2];
    char byte = 0;
    EXPECT(pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(daemon(1, 1) == 0);
        use_gpu(CHILD);
        EXPECT(write(done[1], "y", 1) == 1);
        exit(0);
    }
    expect_child(child);
    close(done[1]);
    EXPECT(read(done[0], &byte, 1) == 1 && byte == 'y');
    EXPECT(read(done[0], &byte, 1) == 0); /* The daemon has ended. */
}

static atomic_bool stop;
static CUcontext context;

static void *allocate(void *unused)
{
    char host[1000] = "";
    CHECK(cuCtxSetCurrent(context));
    while (!atomic_load(&stop)) {
        CUdeviceptr p;
        CHECK(cuMemAlloc(&p, sizeof(host)));
        CHECK(cuMemcpyHtoD(p, host, sizeof(host)));
        CHECK(cuMemFree(p));
        free(malloc(100));
    }
    return unused;
}

/* Forks beside threads that are anywhere in the library. */
static void fork_beside(void *(*thread)(void *), void (*in_child)(void))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, NULL));
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            in_child();
            i % 2 ? exit(0) : _exit(0);
        }
        expect_child(child);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL));
}

static void expect_no_driver(void)
{
    CUdeviceptr p;
    EXPECT(cuMemAlloc(&p, 100) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuMemFree(4096) == CUDA_ERROR_NOT_INITIALIZED);
}

static void storm(void)
{
    context = start_gpu(0);
    fork_beside(allocate, expect_no_driver);
}

/* From another depth of the stack each time, so that the caller is looked up each time. */
static void allocate_on_host(unsigned depth)
{
    char *volatile room = alloca(16 * (depth % 512) + 1);
    char *volatile p = malloc(HOST);
    EXPECT(p != NULL);
    *room = p[HOST - 1] = 3;
    free(p);
}

static void *keep_allocating(void *unused)
{
    for (unsigned i = 0; !atomic_load(&stop); i++)
        allocate_on_host(i);
    return unused;
}

static void allocate_and_use(void)
{
    allocate_on_host(0);
    use_gpu(CHILD);
}

/* The log of a process has blocks from its first CUDA call on. */
static void use_and_allocate(void)
{
    use_gpu(CHILD);
    allocate_on_host(0);
}

/* The child has the rules of a file that is gone. */
static void after_first(void)
{
    allocate_on_host(0);
    EXPECT(unlink(getenv("ZC_POLICY")) == 0);
    pid_t child = fork();
    if (child == 0) {
        use_and_allocate();
        exit(0);
    }
    expect_child(child);
    use_and_allocate();
}

static __thread bool stays_in_close;
static atomic_bool in_close;

/* libzc's, too: it closes the policy's file before it knows the rules. */
int close(int fd)
{
    if (stays_in_close) {
        stays_in_close = false;
        atomic_store(&in_close, true);
        while (!atomic_load(&stop))
            sched_yield();
    }
    return (int)syscall(SYS_close, fd);
}

static void *allocate_slowly(void *unused)
{
    stays_in_close = true;
    allocate_on_host(0);
    return unused;
}

static void *start_slowly(void *unused)
{
    stays_in_close = true;
    use_gpu(PARENT);
    return unused;
}

static void fork_beside_reader(void *(*reader)(void *), void (*in_child)(void))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reader, NULL));
    while (!atomic_load(&in_close))
        sched_yield();
    pid_t child = fork();
    if (child == 0) {
        allocate_on_host(0);
        in_child();
        exit(0);
    }
    expect_child(child);
    atomic_store(&stop, true);
    CHECK(pthread_join(thread, NULL));
    use_gpu(PARENT);
}

static void while_reading(void)
{
    fork_beside_reader(allocate_slowly, use_and_allocate);
}

static void while_starting(void)
{
    fork_beside_reader(start_slowly, expect_no_driver);
}

static void *allocate_once(void *unused)
{
    allocate_on_host(0);
    return unused;
}

/* As the handler of a library does that takes a lock under which its threads allocate, or ends
 * them. */
static void wait_for_a_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_once, NULL));
    CHECK(pthread_join(thread, NULL));
}

static void with_handler(void)
{
    CHECK(pthread_atfork(wait_for_a_thread, wait_for_a_thread, NULL));
    allocate_on_host(0);
    pid_t child = fork();
    if (child == 0) {
        allocate_and_use();
        exit(0);
    }
    expect_child(child);
}

/* Nobody has called CUDA yet. */
static void host_storm(void)
{
    fork_beside(keep_allocating, allocate_and_use);
    use_gpu(PARENT);
}

#define STAGED ((size_t)4 << 20)

static char *staged; /* A host block that was copied twice. */

static CUdeviceptr copy_staged(void)
{
    CUdeviceptr d;
    start_gpu(0);
    CHECK(cuMemAlloc(&d, STAGED));
    staged = malloc(STAGED);
    memset(staged, 3, STAGED);
    CHECK(cuMemcpyHtoD(d, staged, STAGED));
    CHECK(cuMemcpyHtoD(d, staged, STAGED));
    return d;
}

static void fork_staged(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(!all_are(staged, 3, STAGED));
    expect_child(child);
}

static void beside_staged(void)
{
    CUdeviceptr d = copy_staged();
    /* On a busy machine the device's thread may not have come to rest in time. */
    for (int i = 0; i < 1000 && !sim_calls("cuMemHostUnregister"); i++)
        fork_staged();
    memset(staged, 0, STAGED);
    CHECK(cuMemcpyDtoH(staged, d, STAGED));
    EXPECT(all_are(staged, 3, STAGED));
}

static void fork_for_signal(int number)
{
    (void)number;
    fork_staged();
}

/* As crash handlers do, wherever the signal came. */
static void handler_beside_staged(void)
{
    copy_staged();
    signal(SIGUSR1, fork_for_signal);
    EXPECT(raise(SIGUSR1) == 0);
}

static void CUDA_CB fork_for_stream(void *unused)
{
    (void)unused;
    fork_staged();
}

static void stream_beside_staged(void)
{
    copy_staged();
    CHECK(cuLaunchHostFunc(NULL, fork_for_stream, NULL));
    CHECK(cuCtxSynchronize());
}

static void CUDA_CB wait_for_word(void *word)
{
    while (!__atomic_load_n((int *)word, __ATOMIC_ACQUIRE))
        usleep(1000);
}

/* The device has work until the program has forked. */
static void busy_beside_staged(void)
{
    int word = 0;
    copy_staged();
    CHECK(cuLaunchHostFunc(NULL, wait_for_word, &word));
    fork_staged();
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxSynchronize());
}

/* Another device has work until the program has forked; its registrations were the first's. */
static void elsewhere_beside_staged(void)
{
    CUcontext other;
    int word = 0;
    copy_staged();
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxPushCurrent(other));
    CHECK(cuLaunchHostFunc(NULL, wait_for_word, &word));
    CHECK(cuCtxPopCurrent(&other));
    fork_staged();
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    CHECK(cuCtxPushCurrent(other));
    CHECK(cuCtxSynchronize());
}

/* A graph that copies the block was made before, and is launched after it. */
static void graph_beside_staged(void)
{
    CUdeviceptr d = copy_staged();
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyHtoDAsync(d, staged, STAGED, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 20; i++)
        fork_staged();
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* A child keeps writing a pinned block that its parent has freed, while the parent has another. */
static void freed_in_parent(void)
{
    char *block, *next, step = 0;
    int from_child[2], to_child[2];
    start_gpu(0);
    EXPECT(pipe(from_child) == 0 && pipe(to_child) == 0);
    CHECK(cuMemHostAlloc((void **)&block, STAGED, 0));
    pid_t child = fork();
    if (child == 0) {
        EXPECT(read(to_child[0], &step, 1) == 1);
        memset(block, 7, STAGED);
        EXPECT(write(from_child[1], &step, 1) == 1);
        _exit(0);
    }
    CHECK(cuMemFreeHost(block));
    CHECK(cuMemHostAlloc((void **)&next, STAGED, 0));
    memset(next, 3, STAGED);
    EXPECT(write(to_child[1], &step, 1) == 1 && read(from_child[0], &step, 1) == 1);
    EXPECT(all_are(next, 3, STAGED));
    waitpid(child, NULL, 0);
    CHECK(cuMemFreeHost(next));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"before_init", before_init},
                                          {"after_init", after_init},
                                          {"from_thread", from_thread},
                                          {"by_clone", by_clone},
                                          {"with_exec", with_exec},
                                          {"with_vfork", with_vfork},
                                          {"as_daemon", as_daemon},
                                          {"storm", storm},
                                          {"host_storm", host_storm},
                                          {"with_handler", with_handler},
                                          {"beside_staged", beside_staged},
                                          {"handler_beside_staged", handler_beside_staged},
                                          {"stream_beside_staged", stream_beside_staged},
                                          {"busy_beside_staged", busy_beside_staged},
                                          {"elsewhere_beside_staged", elsewhere_beside_staged},
                                          {"graph_beside_staged", graph_beside_staged},
                                          {"freed_in_parent", freed_in_parent},
                                          {"after_first", after_first},
                                          {"while_reading", while_reading},
                                          {"while_starting", while_starting},
                                          {"use", use}};
    self = argv[0];
    return RUN_SCENARIO(all, argc, argv);
}
