/* SPDX-License-Identifier: MIT */
/* ranges stand-in|nvtx [forked]: copies of different sizes inside ranges of NVTX.  `nvtx` is the
 * real one, of a CUDA toolkit; `stand-in` does what its headers say of a library that is injected.
 * `forked`: only in a child, by names that its parent registered. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <wchar.h>

#include "program.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#endif

#define KIB ((size_t)1 << 10)

/* nvtxEventAttributes_t */
struct event {
    uint16_t version, size;
    uint32_t unused[5];
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

/* NVTX's functions, by the numbers of its tables CORE and CORE2. */
typedef void (*function)(void);
static struct core {
    function none[8];
    int (*push_event)(const struct event *event);
    int (*push)(const char *name);
    int (*push_wide)(const wchar_t *name);
    int (*pop)(void);
} core;
static struct core2 {
    function none[4];
    int (*push)(void *domain, const struct event *event);
    int (*pop)(void *domain);
    function others[4];
    void *(*text)(void *domain, const char *text);
    function text_wide;
    void *(*create)(const char *name);
} core2;

static function *places[2][16];

static int table(int module, function ***out, unsigned *count)
{
    for (unsigned i = 0; i < sizeof(core) / sizeof(function); i++)
        places[0][i] = (function *)&core + i;
    for (unsigned i = 0; i < sizeof(core2) / sizeof(function); i++)
        places[1][i] = (function *)&core2 + i;
    if (module != 1 && module != 5)
        return 0;
    *out = places[module == 5];
    *count = (module == 5 ? sizeof(core2) : sizeof(core)) / sizeof(function);
    return 1;
}

static const void *export_table(uint32_t number)
{
    static const struct {
        size_t size;
        int (*table)(int module, function ***out, unsigned *count);
    } callbacks = {sizeof(callbacks), table};
    return number == 1 ? &callbacks : NULL;
}

static void stand_in(void)
{
    const char *name = getenv("NVTX_INJECTION64_PATH");
    EXPECT(name);
    void *library = dlopen(name, RTLD_LAZY);
    EXPECT(library);
    int (*inject)(const void *(*)(uint32_t)) =
        (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
    EXPECT(inject && inject(export_table) == 1);
}

static void real(void)
{
#ifdef HAS_NVTX
    core.push_event = (int (*)(const struct event *))nvtxRangePushEx;
    core.push = nvtxRangePushA;
    core.push_wide = nvtxRangePushW;
    core.pop = nvtxRangePop;
    core2.push = (int (*)(void *, const struct event *))nvtxDomainRangePushEx;
    core2.pop = (int (*)(void *))nvtxDomainRangePop;
    core2.text = (void *(*)(void *, const char *))nvtxDomainRegisterStringA;
    core2.create = (void *(*)(const char *))nvtxDomainCreateA;
#else
    exit(77);
#endif
}

static struct event event(int type, const void *message)
{
    return (struct event){.version = 3, .size = 48, .message_type = type, .message = message};
}

static char host[2048 * KIB];
static CUdeviceptr block;

static void copy(size_t kib)
{
    CHECK(cuMemcpyHtoD(block, host, kib * KIB));
}

static void *elsewhere(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    copy(256);
    return NULL;
}

/* Ranges of two domains that cross. */
static void domains(void)
{
    void *app = core2.create("app"), *size = core2.create("größe");
    struct event inner = event(3, core2.text(app, "inner"));
    struct event hoard = event(3, core2.text(size, "\U0001F5C4"));
    EXPECT(core.push("load") == 0);
    copy(2);
    EXPECT(core2.push(app, &inner) == 0);
    copy(4);
    EXPECT(core.pop() == 0);
    copy(8);
    EXPECT(core2.push(size, &hoard) == 0);
    copy(16);
    EXPECT(core2.pop(size) == 0 && core2.pop(app) == 0);
    copy(1);
    EXPECT(core.pop() < 0 && core2.pop(app) < 0);
}

static void names(void)
{
    struct event text = event(1, "text"), wide = event(2, L"wide"), none = event(0, NULL);
    char brief[] = "brief", lengthy[300];
    EXPECT(core.push(brief) == 0);
    memset(brief, 'x', sizeof(brief) - 1); /* The name was copied. */
    copy(32);
    EXPECT(core.push_event(&text) == 1);
    copy(64);
    EXPECT(core.push_event(&wide) == 2);
    copy(128);
    EXPECT(core.push_event(&none) == 3);
    copy(512);
    EXPECT(core.pop() == 3 && core.pop() == 2 && core.pop() == 1 && core.pop() == 0);
    memset(lengthy, 'l', sizeof(lengthy) - 1);
    lengthy[sizeof(lengthy) - 1] = '\0';
    EXPECT(core.push("a \"b\"") == 0);
    copy(1024);
    EXPECT(core.push(lengthy) == 1);
    copy(2048);
    core.pop();
    core.pop();
    EXPECT(core.push_wide(L"wide") == 0);
    copy(6);
    core.pop();
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof(name), "aten::copy_, seq = %d, op_id = %d", i, i);
        core.push(name);
        copy(3);
        core.pop();
    }
}

/* Allocates, and has a copy whose outcome is known when its range has ended. */
static void blocks(void)
{
    CUdeviceptr old, new;
    core.push("grow");
    CHECK(cuMemAlloc(&old, 4096 * KIB));
    CHECK(cuMemcpyHtoD(old, host, 5 * KIB));
    CHECK(cuMemAlloc(&new, 8192 * KIB));
    CHECK(cuMemcpyDtoD(new, old, 4096 * KIB));
    core.pop();
    core.push("later");
    CHECK(cuMemFree(old));
    CHECK(cuMemFree(new));
    core.pop();
}

/* Of a parent that uses no CUDA, as a pool of processes has it. */
static void forked(void)
{
    int status;
    void *app = core2.create("app");
    struct event inner = event(3, core2.text(app, "inner"));
    void *volatile placed = malloc(sizeof(host)); /* libzc has read its policy. */
    free(placed);
    pid_t child = fork();
    if (child == 0) {
        void *other = core2.create("other");
        CUcontext context = start_gpu(0);
        CHECK(cuMemAlloc(&block, sizeof(host)));
        EXPECT(core2.push(app, &inner) == 0 && core2.pop(other) < 0);
        copy(2);
        EXPECT(core2.pop(app) == 0);
        CHECK(cuMemFree(block));
        (void)context;
        end_gpu(0);
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    EXPECT(argc >= 2);
    strcmp(argv[1], "nvtx") == 0 ? real() : stand_in();
    if (argc == 3) {
        forked();
        return 0;
    }
    core.push("begun before CUDA");
    CUcontext context = start_gpu(0);
    CHECK(cuMemAlloc(&block, sizeof(host)));
    CHECK(pthread_create(&thread, NULL, elsewhere, context));
    CHECK(pthread_join(thread, NULL));
    pid_t child = fork();
    if (child == 0) { /* Its list of ranges is empty. */
        EXPECT(core.pop() < 0 && core.push("of the child") == 0 && core.pop() == 0);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(core.pop() == 0);
    domains();
    names();
    blocks();
    CHECK(cuMemFree(block));
    end_gpu(0);
    return 0;
}
