/* SPDX-License-Identifier: MIT */
/*
 * The referee of the byte counts: a library that the CUDA driver loads into a program and that adds
 * up from CUPTI's activity records what the driver copied and set, whatever libzc says.
 *
 * The driver loads the library named by CUDA_INJECTION64_PATH in cuInit and calls its
 * InitializeInjection ("CUPTI: Injection" in the CUPTI manual), so that the program stays as it is.
 *
 * ZC_REFEREE_OUT    path of the result, to which `.PID` is appended: one JSON object with the keys
 *                   `error` (null, or why nothing can be trusted), `dropped` (records that CUPTI
 *                   lost) and `flows`, shaped as `moved_by_kind` in the summary of libzc's log
 * ZC_REFEREE_CUPTI  libcupti.so.13 to load where the process has none (libcupti.so.13 by default)
 */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define BUFFER_ALIGN 8 /* CUPTI's ACTIVITY_RECORD_ALIGNMENT. */

/* Names by CUpti_ActivityMemcpyKind; the last one stands for sets, which CUPTI keeps apart. */
static const char *const dir_name[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                       "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP", "Memset"};
#define DIRS (sizeof(dir_name) / sizeof(dir_name[0]))
#define DIR_MEMSET (DIRS - 1)

/* Names by CUpti_ActivityMemoryKind. */
static const char *const kind_name[] = {"Unknown", "Pageable", "Pinned",       "Device",
                                        "Array",   "Managed",  "DeviceStatic", "ManagedStatic"};
#define KINDS (sizeof(kind_name) / sizeof(kind_name[0]))

/* The newest record layouts of the toolkit; CUPTI appends fields, so older ones are prefixes. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityMemcpy6 memcpy_record;
#define COPIES(record) ((record)->copyCount > 1 ? (record)->copyCount : 1)
#else
typedef CUpti_ActivityMemcpy5 memcpy_record;
#define COPIES(record) ((uint64_t)1)
#endif

/* CUPTI's functions, looked up at run time because the library is rarely on the loader's path. */
#define CUPTI_CALLS(X)                                                                             \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord) X(cuptiActivityGetNumDroppedRecords) X(cuptiGetResultString)
static struct {
#define CUPTI_FIELD(name) __typeof__(name) *name; /* The function of that name. */
    CUPTI_CALLS(CUPTI_FIELD)
#undef CUPTI_FIELD
} cupti;

static struct {
    pthread_mutex_t lock; /* Guards the rest; CUPTI completes buffers on a thread of its own. */
    uint64_t calls[DIRS][KINDS][KINDS]; /* Copies or sets, by direction, source and destination. */
    uint64_t bytes[DIRS][KINDS][KINDS]; /* Bytes of them. */
    uint64_t dropped;                   /* Records that CUPTI had no room for. */
    char error[256];                    /* Why the counts cannot be trusted; empty if they can. */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pid_t owner; /* The process that CUPTI was started in; a forked child has no CUDA. */

static void fail(const char *what, const char *why)
{
    if (seen.error[0] == 0)
        snprintf(seen.error, sizeof(seen.error), "%s: %s", what, why);
}

/* Notes a CUPTI call that failed; true where it worked. */
static int worked(const char *what, CUptiResult result)
{
    const char *text = "unknown error";

    if (result == CUPTI_SUCCESS)
        return 1;
    cupti.cuptiGetResultString(result, &text);
    fail(what, text);
    return 0;
}

static void add(size_t dir, size_t src, size_t dst, uint64_t calls, uint64_t bytes)
{
    if (dir >= DIRS || src >= KINDS || dst >= KINDS) {
        fail("record", "a kind that this referee does not know");
        return;
    }
    seen.calls[dir][src][dst] += calls;
    seen.bytes[dir][src][dst] += bytes;
}

static void add_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const memcpy_record *r = (const void *)record;
        add(r->copyKind, r->srcKind, r->dstKind, COPIES(r), r->bytes);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
        const CUpti_ActivityMemcpyPtoP4 *r = (const void *)record;
        add(r->copyKind, r->srcKind, r->dstKind, 1, r->bytes);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *r = (const void *)record;
        /* CUPTI 13.0 gives the sets of a graph the memory kind of whatever set came before them. */
        unsigned kind = r->graphId ? CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN : r->memoryKind;
        add(DIR_MEMSET, kind, kind, 1, r->bytes);
    }
}

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES);
    *size = *buffer != NULL ? BUFFER_BYTES : 0;
    *max_records = 0; /* As many as fit. */
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
                                      size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    CUptiResult result = CUPTI_ERROR_MAX_LIMIT_REACHED;
    size_t dropped = 0;

    (void)size;
    pthread_mutex_lock(&seen.lock);
    while (valid > 0 &&
           (result = cupti.cuptiActivityGetNextRecord(buffer, valid, &record)) == CUPTI_SUCCESS)
        add_record(record);
    if (result != CUPTI_ERROR_MAX_LIMIT_REACHED)
        worked("cuptiActivityGetNextRecord", result);
    if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
        seen.dropped += dropped;
    pthread_mutex_unlock(&seen.lock);
    free(buffer);
}

static void write_flows(FILE *out)
{
    const char *comma = "";

    for (size_t dir = 0; dir < DIRS; dir++)
        for (size_t src = 0; src < KINDS; src++)
            for (size_t dst = 0; dst < KINDS; dst++) {
                if (seen.calls[dir][src][dst] == 0)
                    continue;
                fprintf(out,
                        "%s{\"dir\":\"%s\",\"src_kind\":\"%s\",\"dst_kind\":\"%s\","
                        "\"calls\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                        comma, dir_name[dir], kind_name[src], kind_name[dst],
                        seen.calls[dir][src][dst], seen.bytes[dir][src][dst]);
                comma = ",";
            }
}

/* Buffers that are not full are given up only by a forced flush, so the program's own work must be
 * over: an exit handler, which runs before those of the driver, registered earlier. */
static void report(void)
{
    const char *base = getenv("ZC_REFEREE_OUT");
    char path[PATH_MAX];
    FILE *out;

    if (base == NULL || getpid() != owner)
        return;
    if (cupti.cuptiActivityFlushAll != NULL)
        worked("cuptiActivityFlushAll",
               cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    snprintf(path, sizeof(path), "%s.%ld", base, (long)owner);
    out = fopen(path, "w");
    if (out == NULL)
        return;
    pthread_mutex_lock(&seen.lock);
    /* CUPTI's texts hold no character that JSON would need escaped. */
    fprintf(out, seen.error[0] != 0 ? "{\"error\":\"%s\"" : "{\"error\":null", seen.error);
    fprintf(out, ",\"dropped\":%" PRIu64 ",\"flows\":[", seen.dropped);
    write_flows(out);
    fputs("]}\n", out);
    pthread_mutex_unlock(&seen.lock);
    fclose(out);
}

/* A second copy of CUPTI in a process does not work, so one that is there already is used. */
static int load(void)
{
    const char *path = getenv("ZC_REFEREE_CUPTI");
    void *library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);

    if (library == NULL && path != NULL)
        library = dlopen(path, RTLD_NOW);
    if (library == NULL)
        library = dlopen("libcupti.so.13", RTLD_NOW);
    if (library == NULL) {
        fail("libcupti.so.13", "cannot be loaded");
        return 0;
    }
#define CUPTI_LOOKUP(name)                                                                         \
    cupti.name = (__typeof__(name) *)dlsym(library, #name);                                        \
    if (cupti.name == NULL) {                                                                      \
        fail(#name, "not in libcupti");                                                            \
        return 0;                                                                                  \
    }
    CUPTI_CALLS(CUPTI_LOOKUP)
#undef CUPTI_LOOKUP
    return 1;
}

int InitializeInjection(void);

/* Called by the driver inside cuInit, before any context exists; 1 says that it worked. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static const CUpti_ActivityKind kinds[] = {
        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
    if (owner != 0)
        return 1;
    owner = getpid();
    atexit(report);
    if (!load())
        return 1;
    worked("cuptiActivityRegisterCallbacks",
           cupti.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        worked("cuptiActivityEnable", cupti.cuptiActivityEnable(kinds[i]));
    return 1;
}
