/* SPDX-License-Identifier: MIT */
/* Programs that do something else to their host blocks while these are one with device blocks:
 * files that are read by another thread, forks, changed mappings, calls that fail, exits. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "shared_scene.h"

static unsigned char *aligned_block(size_t n)
{
    void *p;
    EXPECT(posix_memalign(&p, UNIT, n) == 0);
    return p;
}

static struct pair aligned_pair(size_t n, size_t copied, unsigned seed)
{
    struct pair p = {aligned_block(n), device_block(n)};
    paint(p.h, n, seed);
    CHECK(cuMemcpyHtoD(p.d, p.h, copied));
    return p;
}

static bool empties(unsigned char *h)
{
    EXPECT(madvise(h, UNIT, MADV_DONTNEED) == 0);
    return all_are(h, 0, UNIT);
}

/* After a fork both processes get zeroes where they ask for that, whatever the page was. */
static void emptied(void)
{
    struct pair p = aligned_pair(SIZE, UNIT, 1);
    unsigned char *alone = aligned_block(SIZE);
    int status;
    paint(alone, SIZE, 2);
    pid_t child = fork();
    if (!child) {
        bool good = empties(p.h) && empties(p.h + UNIT) && empties(alone);
        _exit(good && shows_part(p.h, 2 * UNIT, UNIT, 1) ? 0 : 1);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(empties(p.h) && empties(p.h + UNIT) && empties(alone));
    EXPECT(shows_part(p.h, 2 * UNIT, UNIT, 1) && shows_part(alone, UNIT, 2 * UNIT, 2));
    EXPECT(sees(p.d, 0, UNIT, 1));
    give_back(p);
    free(alone);
}

/* A mapping over a block that fails leaves its content. */
static void unmappable(void)
{
    struct pair p = aligned_pair(SIZE, UNIT, 1);
    unsigned char *alone = aligned_block(SIZE);
    void *gone = mmap(NULL, UNIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    paint(alone, SIZE, 1);
    munmap(gone, UNIT);
    for (size_t at = 0; at < SIZE; at += UNIT) {
        EXPECT(mmap(p.h + at, UNIT, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED);
        EXPECT(mremap(gone, UNIT, UNIT, MREMAP_MAYMOVE | MREMAP_FIXED, alone + at) == MAP_FAILED);
    }
    EXPECT(shows(p.h, SIZE, 1) && shows(alone, UNIT, 1) && sees(p.d, 0, UNIT, 1));
    give_back(p);
    free(alone);
}

/* A copy that fails has written nothing. */
static void failed(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr other;
    CHECK(cuMemAllocAsync(&other, SIZE, NULL));
    sim_fail("cuMemcpyDtoH_v2", CUDA_ERROR_UNKNOWN, 1);
    EXPECT(cuMemcpyDtoH(p.h, other, SIZE) == CUDA_ERROR_UNKNOWN);
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    CHECK(cuMemFree(other));
    give_back(p);
}

#define CHUNK ((size_t)192 << 10)
#define CHUNKS ((size_t)64)

struct loader {
    unsigned char *h;
    FILE *file;
    bool whole;         /* Every chunk came in one call. */
    _Atomic size_t got; /* Chunks. */
};

static void *load_by_stream(void *arg)
{
    struct loader *l = arg;
    for (size_t i = 0; i < CHUNKS; i++) {
        l->whole &= fread(l->h + i * CHUNK, 1, CHUNK, l->file) == CHUNK;
        l->got++;
    }
    return NULL;
}

static void *load_by_call(void *arg)
{
    struct loader *l = arg;
    int fd = fileno(l->file);
    for (size_t i = 0; i < CHUNKS; i++) {
        unsigned char *to = l->h + i * CHUNK;
        ssize_t got = i % 2 ? pread(fd, to, CHUNK, (off_t)(i * CHUNK)) : read(fd, to, CHUNK);
        l->whole &= got == (ssize_t)CHUNK && (i % 2 == 0 || lseek(fd, CHUNK, SEEK_CUR) >= 0);
        l->got++;
    }
    return NULL;
}

/* A thread reads a file chunk by chunk, and another copies behind it; pages hold several chunks. */
static void pipeline(void *(*load)(void *))
{
    size_t n = CHUNKS * CHUNK;
    static unsigned char data[CHUNKS * CHUNK];
    FILE *file = tmpfile();
    paint(data, n, 4);
    EXPECT(file && fwrite(data, 1, n, file) == n);
    for (int round = 0; round < 8; round++) {
        pthread_t thread;
        struct pair p = new_pair(n);
        struct loader l = {.h = p.h, .file = file, .whole = true};
        rewind(file);
        EXPECT(pthread_create(&thread, NULL, load, &l) == 0);
        for (size_t i = 0; i < CHUNKS; i++) {
            while (l.got <= i)
                usleep(10);
            CHECK(cuMemcpyHtoD(p.d + i * CHUNK, p.h + i * CHUNK, CHUNK));
        }
        EXPECT(pthread_join(thread, NULL) == 0 && l.whole && copy_sees(p.d, 0, n, 4));
        give_back(p);
    }
    fclose(file);
}

static void streamed(void)
{
    pipeline(load_by_stream);
}

static void called(void)
{
    pipeline(load_by_call);
}

/* The first copy into a block does not wait for a kernel that waits for the program. */
static void held(void)
{
    static struct gate gate;
    struct pair q = filled_pair(SIZE, 2), p = new_pair(SIZE);
    CUstream stream;
    paint(p.h, SIZE, 1);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate_close_by_kernel(&gate, stream);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(copy_sees(p.d, 0, SIZE, 1) && copy_sees(q.d, 0, SIZE, 2));
    gate_open(&gate);
    CHECK(cuStreamDestroy(stream));
    give_back(p);
    give_back(q);
}

#define MANY 20

/* A kernel that has threads enough to read all of a block of UNIT bytes, and sees its pattern. */
static void see_all(CUdeviceptr d, unsigned seed, CUstream stream)
{
    static int seen;
    size_t from = 0, n = UNIT;
    int *result = &seen;
    void *args[] = {&d, &from, &n, &seed, &result};
    CHECK(cuLaunchKernel(kernel_of(SHOWS), UNIT / 256, 1, 1, 256, 1, 1, 0, stream, args, NULL));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(seen == 1);
}

static CUcontext home;
static CUstream captured_stream;
static atomic_int capturing, ended;

static void *capture(void *arg)
{
    CUgraph graph;
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamBeginCapture(captured_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    atomic_store(&capturing, 1);
    while (!atomic_load(&ended))
        usleep(1000);
    CHECK(cuStreamEndCapture(captured_stream, &graph));
    CHECK(cuGraphDestroy(graph));
    return arg;
}

static pthread_t capturer;

static void begin_capture(void)
{
    EXPECT(!pthread_create(&capturer, NULL, capture, NULL));
    for (int i = 0; i < 100 && !atomic_load(&capturing); i++)
        usleep(1000);
}

/* Another thread begins a capture while such a kernel is launched. */
static void captured(void)
{
    struct pair p = filled_pair(UNIT, 1);
    CUstream stream;
    CHECK(cuCtxGetCurrent(&home));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&captured_stream, CU_STREAM_DEFAULT));
    CHECK(cuFuncGetParamInfo(kernel_of(SHOWS), 0, &(size_t){0}, &(size_t){0}));
    sim_before("cuFuncGetParamInfo", begin_capture);
    see_all(p.d, 1, stream);
    sim_before("cuFuncGetParamInfo", NULL);
    if (!atomic_load(&capturing))
        begin_capture();
    atomic_store(&ended, 1);
    EXPECT(!pthread_join(capturer, NULL));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuStreamDestroy(captured_stream));
    give_back(p);
}

/* A kernel waits for the program while others begin that have threads enough to read a block. */
static void held_long(void)
{
    static struct gate gate;
    CUstream streams[2];
    struct pair pairs[MANY];
    for (unsigned i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
    for (unsigned i = 0; i < MANY; i++)
        pairs[i] = filled_pair(UNIT, i);
    gate_close_by_kernel(&gate, streams[0]);
    for (unsigned i = 0; i < MANY; i++) {
        sim_reset_counts();
        see_all(pairs[i].d, i, streams[1]);
    }
    EXPECT(sim_calls("cuStreamQuery") < 10);
    gate_open(&gate);
    for (unsigned i = 0; i < MANY; i++)
        give_back(pairs[i]);
    for (unsigned i = 0; i < 2; i++)
        CHECK(cuStreamDestroy(streams[i]));
}

static void *free_all(void *arg)
{
    struct pair *p = arg;
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < MANY; i++)
        CHECK(cuMemFree(p[i].d));
    CHECK(cuDevicePrimaryCtxRelease(0));
    return NULL;
}

static void CUDA_CB nothing(void *unused)
{
    (void)unused;
}

/* One thread frees device blocks while another's call gives all of them memory of their own. */
static void freed(void)
{
    struct pair p[MANY];
    pthread_t thread;
    for (unsigned i = 0; i < MANY; i++)
        p[i] = filled_pair(UNIT, i);
    EXPECT(pthread_create(&thread, NULL, free_all, p) == 0);
    usleep(300);
    CHECK(cuLaunchHostFunc(NULL, nothing, NULL));
    EXPECT(pthread_join(thread, NULL) == 0);
    for (unsigned i = 0; i < MANY; i++) {
        EXPECT(shows(p[i].h, UNIT, i));
        paint(p[i].h, UNIT, i + 1);
        free(p[i].h);
    }
}

static struct pair last;

/* After libzc's own exit handler. */
static void set_last(void)
{
    static unsigned char seen[SIZE];
    CHECK(cuMemsetD8(last.d, 7, UNIT));
    CHECK(cuMemcpyDtoH(seen, last.d, SIZE));
    EXPECT(all_are(seen, 7, UNIT) && shows_part(seen, UNIT, 2 * UNIT, 1));
    EXPECT(shows(last.h, SIZE, 1));
    CHECK(cuMemFree(last.d));
}

static void exiting(void)
{
    last = filled_pair(SIZE, 1);
}

#define WORDS (4096 / sizeof(int))

/* Each word of a block is written once, round by round one of each page. */
struct writer {
    int *h;
    atomic_int rounds;
};

static void *write_once(void *arg)
{
    struct writer *w = arg;
    for (size_t word = 0; word < WORDS; word++) {
        for (size_t at = word; at < UNIT / sizeof(int); at += WORDS)
            *(volatile int *)&w->h[at] = 1;
        atomic_store(&w->rounds, (int)word + 1);
    }
    return NULL;
}

/* The program locks its memory when there are pairs, and a thread writes what is copied first. */
static void locked(void)
{
    pthread_t thread;
    int lost = 0;
    give_back(filled_pair(UNIT, 1));
    for (int i = 0; i < 8; i++) {
        struct pair p = new_pair(UNIT);
        struct writer w = {.h = (int *)p.h};
        memset(p.h, 0, UNIT);
        if (mlockall(i % 2 ? MCL_CURRENT : MCL_CURRENT | MCL_FUTURE) != 0)
            TELL("the host locks no memory\n");
        EXPECT(!pthread_create(&thread, NULL, write_once, &w));
        while (atomic_load(&w.rounds) < 2)
            usleep(10);
        CHECK(cuMemcpyHtoD(p.d, p.h, UNIT));
        EXPECT(!pthread_join(thread, NULL));
        for (size_t at = 0; at < UNIT / sizeof(int); at++)
            lost += !w.h[at];
        munlockall();
        give_back(p);
    }
    printf("lost writes %d\n", lost);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"called", called},     {"captured", captured},    {"emptied", emptied},
        {"exiting", exiting},   {"failed", failed},        {"freed", freed},
        {"held", held},         {"held_long", held_long},  {"locked", locked},
        {"streamed", streamed}, {"unmappable", unmappable}};
    bool exits = argc > 1 && !strcmp(argv[1], "exiting");
    if (exits)
        atexit(set_last);
    kernels_read = true;
    start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    if (!exits)
        end_gpu(0);
    return status;
}
