/* CUPTI's counters of unified memory (CUPTI documentation, "CUPTI Activity API"). */
#include "driver/cupti.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "base/module.h"
#include "base/arena.h"
#include "base/message.h"
#include "driver/real.h"
#include "log/migration.h"

/*
 * The part of cupti_activity.h that is needed, which not every toolkit's headers have.  Both
 * structs begin so in CUPTI 12 and 13.
 */
enum { CUPTI_OK = 0, KIND_UNIFIED_MEMORY = 25, SCOPE_ALL_DEVICES = 2, FLUSH_FORCED = 1 };
enum { COUNT_HTOD = 1, COUNT_DTOH = 2, COUNT_CPU_FAULT = 3, COUNT_GPU_FAULT = 4 };

/* CUpti_ActivityUnifiedMemoryCounterConfig */
struct config {
    uint32_t scope;  /* Single device or all. */
    uint32_t kind;   /* COUNT_*. */
    uint32_t device; /* Of scopes with one. */
    uint32_t enable; /* 1: counted. */
};

/* The beginning of CUpti_ActivityUnifiedMemoryCounter. */
struct record {
    uint32_t kind;    /* KIND_*. */
    uint32_t counter; /* COUNT_*. */
    uint64_t value;   /* Bytes; of a CPU fault the instruction; of GPU faults their groups. */
};

typedef void (*request_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                            size_t valid);

#define CUPTI_CALLS(X)                                                                             \
    X(cuptiActivityRegisterCallbacks, (request_fn, complete_fn))                                   \
    X(cuptiActivityConfigureUnifiedMemoryCounter, (struct config *, uint32_t))                     \
    X(cuptiActivityEnable, (uint32_t kind))                                                        \
    X(cuptiActivityFlushAll, (uint32_t flags))                                                     \
    X(cuptiActivityGetNextRecord, (uint8_t *, size_t, struct record **))

static struct {
#define CUPTI_POINTER(name, params) int(*name) params;
    CUPTI_CALLS(CUPTI_POINTER)
} cupti;

static bool counting;

#define BUFFER_BYTES ((size_t)1 << 20)

/* Without memory CUPTI drops records (cuptiActivityRegisterCallbacks). */
static void give_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = zc_arena_get(BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *max_records = 0;
}

static void add(const struct record *r)
{
    switch (r->counter) {
    case COUNT_HTOD:
        zc_migration_add(ZC_MIGRATION_HTOD, r->value);
        break;
    case COUNT_DTOH:
        zc_migration_add(ZC_MIGRATION_DTOH, r->value);
        break;
    case COUNT_CPU_FAULT: /* One record a fault. */
        zc_migration_add(ZC_MIGRATION_CPU_FAULTS, 1);
        break;
    case COUNT_GPU_FAULT:
        zc_migration_add(ZC_MIGRATION_GPU_FAULTS, r->value);
        break;
    default:
        break;
    }
}

static void take_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    struct record *r = NULL;
    (void)context, (void)stream, (void)size;
    while (valid && cupti.cuptiActivityGetNextRecord(buffer, valid, &r) == CUPTI_OK)
        if (r->kind == KIND_UNIFIED_MEMORY)
            add(r);
    zc_arena_put(buffer, BUFFER_BYTES);
}

static void fail(const char *why)
{
    zc_migration_fail(why);
    zc_message(ZC_WARN, "um_counters", "migrations of managed memory are not measured: %s", why);
}

/* A second copy of CUPTI in a process does not work, so one that is there already is used. */
static void *open_library(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12",
                                        "/usr/local/cuda/lib64/libcupti.so",
                                        "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"};
    void *library = NULL;
    for (unsigned i = 0; !library && i < 2; i++)
        library = zc_real_dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    for (unsigned i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
        library = zc_real_dlopen(names[i], RTLD_NOW);
    return library;
}

static bool find_calls(void *library)
{
    bool all = true;
#define CUPTI_FIND(name, params)                                                                   \
    cupti.name = (__typeof__(cupti.name))zc_real_dlsym(library, #name);                            \
    all = all && cupti.name;
    CUPTI_CALLS(CUPTI_FIND)
    return all;
}

void zc_cupti_start(void)
{
    struct config config[] = {{SCOPE_ALL_DEVICES, COUNT_HTOD, 0, 1},
                              {SCOPE_ALL_DEVICES, COUNT_DTOH, 0, 1},
                              {SCOPE_ALL_DEVICES, COUNT_CPU_FAULT, 0, 1},
                              {SCOPE_ALL_DEVICES, COUNT_GPU_FAULT, 0, 1}};
    void *library = open_library();
    if (!library) {
        fail("libcupti.so can't be loaded");
        return;
    }
    if (!find_calls(library)) {
        fail("libcupti.so lacks a function");
        return;
    }
    if (cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_OK) {
        fail("CUPTI is in use by another");
        return;
    }
    if (cupti.cuptiActivityConfigureUnifiedMemoryCounter(
            config, sizeof(config) / sizeof(config[0])) != CUPTI_OK) {
        fail("CUPTI has no counters for this GPU or user");
        return;
    }
    if (cupti.cuptiActivityEnable(KIND_UNIFIED_MEMORY) != CUPTI_OK) {
        fail("CUPTI refuses to count");
        return;
    }
    counting = true;
    zc_migration_begin();
}

void zc_cupti_finish(void)
{
    if (counting)
        cupti.cuptiActivityFlushAll(FLUSH_FORCED);
}

static void in_child(void)
{
    if (counting)
        zc_migration_fail("CUPTI does not count in a forked child");
    counting = false;
    zc_migration_reset();
}

const struct zc_module zc_module_cupti = {.child = in_child};
