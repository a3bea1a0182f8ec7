/* SPDX-License-Identifier: MIT */
/* From the stack to a site: the walk, the modules of frames, and a cache of known paths. */
#include "ledger/site_path.h"

#include <string.h>

#include "base/module.h"
#include "base/path.h"
#include "ledger/python.h"
#include "ledger/unwind.h"

#define PATHS 512 /* Cached paths; a power of two. */

/*
 * A known path: its start, and the values of the stack words that the walk read.  The words are
 * above a live frame on the same stack.  They are safe to read with only that frame given: an
 * offset reaches 512 KiB, and larger paths are not cached.
 */
struct path {
    uint64_t frame;             /* Frame address of the wrapper; 0 in an unused path. */
    uint64_t pc;                /* Its return address. */
    uint64_t sum;               /* weigh() over the values of the words. */
    uint64_t python;            /* zc_python_key() */
    uint32_t thread;            /* Its number: another one may get the stack of one that ended. */
    uint16_t site;              /* Index of the site. */
    uint8_t words;              /* Number of words. */
    bool busy;                  /* A thread uses the path.  Atomic. */
    uint16_t at[ZC_WALK_WORDS]; /* Their positions, in words above `frame`. */
};

/* All threads' together: a thread's own would be taken from its stack, and from the little that the
 * loader has left for libraries where it loads another one first (LD_AUDIT). */
static struct path paths[PATHS];
static uint32_t threads; /* Numbers that were given out.  Atomic. */
static __thread uint32_t thread __attribute__((tls_model("initial-exec")));

/* Objects whose leading frames are left out, because they are between the program and libzc. */
static const char *const between[] = {"libzc.so",     "libcuda.so", "libcudart.so",
                                      "libstdc++.so", "libc++.so",  "libc.so"};

/* The frames collected by a walk. */
struct frames {
    struct zc_frame frame[ZC_SITE_FRAMES]; /* Frames of the path. */
    unsigned n;                            /* Their number. */
    unsigned before;                       /* How many of them lie before the interpreter's. */
    uint64_t pc;                           /* The first visited frame: the wrapper's caller. */
};

static bool is_between(const char *module)
{
    for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++)
        if (strncmp(module, between[i], strlen(between[i])) == 0)
            return true;
    return false;
}

static bool is_interpreter(const struct zc_object *object)
{
    uint64_t address = zc_python_address();
    return object != NULL && address >= object->start && address < object->end;
}

static bool add_frame(uint64_t pc, const struct zc_object *object, void *arg)
{
    struct frames *frames = arg;
    struct zc_frame *frame = &frames->frame[frames->n];
    if (frames->pc == 0)
        frames->pc = pc;
    memset(frame, 0, sizeof(*frame));
    if (object == NULL) {
        /* Code made at run time; its addresses differ from run to run. */
        frame->module[0] = '?';
    } else {
        bool named = object->name != NULL && object->name[0] != 0;
        const char *name = basename(named ? object->name : zc_log_program());
        memcpy(frame->module, name, strnlen(name, ZC_SITE_MODULE - 1));
        frame->offset = pc - object->load;
    }
    if (frames->n == 0 && is_between(frame->module))
        return true;
    frames->before += frames->before == frames->n && !is_interpreter(object);
    return ++frames->n < ZC_SITE_FRAMES;
}

/* Each word has its own odd weight, so that swapping two words changes the sum. */
static inline uint64_t weigh(uint64_t value, unsigned i)
{
    return value * (0x9e3779b97f4a7c15ull * (2 * i + 1));
}

/* The place of a path, which it may have or get; NULL while another thread uses that. */
static inline struct path *path_take(uint64_t frame, uint64_t pc, uint64_t python)
{
    uint64_t hash = ((frame >> 4) ^ pc ^ python) * 0x9e3779b97f4a7c15ull;
    struct path *path = &paths[hash >> 32 & (PATHS - 1)];
    return __atomic_exchange_n(&path->busy, true, __ATOMIC_ACQUIRE) ? NULL : path;
}

static inline void path_give(struct path *path)
{
    __atomic_store_n(&path->busy, false, __ATOMIC_RELEASE);
}

ZC_READS_FRAMES static bool path_holds(const struct path *path, uint64_t frame, uint64_t pc,
                                       uint64_t python)
{
    const volatile uint64_t *stack = (const volatile uint64_t *)(uintptr_t)frame;
    uint64_t sum = 0;
    if (path->frame != frame || path->pc != pc || path->python != python || path->thread != thread)
        return false;
    for (unsigned i = 0; i < path->words; i++)
        sum += weigh(stack[path->at[i]], i);
    return sum == path->sum;
}

static void path_keep(const struct zc_walk *walk, uint64_t pc, uint64_t python, uint32_t site)
{
    uint64_t sum = 0;
    if (walk->words > ZC_WALK_WORDS)
        return;
    for (unsigned i = 0; i < walk->words; i++)
        if ((walk->at[i] - walk->from) / sizeof(uint64_t) > UINT16_MAX)
            return;
    struct path *path = path_take(walk->from, pc, python);
    if (!path)
        return;
    if (!thread)
        thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < walk->words; i++) {
        path->at[i] = (uint16_t)((walk->at[i] - walk->from) / sizeof(uint64_t));
        sum += weigh(walk->value[i], i);
    }
    path->frame = walk->from;
    path->pc = pc;
    path->sum = sum;
    path->python = python;
    path->thread = thread;
    path->words = (uint8_t)walk->words;
    path->site = (uint16_t)site;
    path_give(path);
}

__attribute__((noinline)) static uint32_t walk_path(uint64_t frame, uint64_t pc, uint64_t python)
{
    struct zc_python_path *path = NULL;
    struct frames frames = {.n = 0};
    struct zc_walk walk;
    zc_unwind(&walk, frame, add_frame, &frames);
    if (frames.pc != pc)
        return 0;
    if (python != 0)
        path = zc_python_read();
    if (path != NULL)
        path->before = frames.before;
    uint32_t site = zc_site_intern(frames.frame, frames.n, path);
    path_keep(&walk, pc, python, site);
    return site;
}

uint32_t zc_site_here(void *frame, void *pc)
{
    uint64_t at = (uint64_t)(uintptr_t)frame, from = (uint64_t)(uintptr_t)pc;
    uint64_t python = zc_python_key();
    struct path *path = path_take(at, from, python);
    bool known = path && path_holds(path, at, from, python);
    uint32_t site = known ? path->site : 0;
    if (path)
        path_give(path);
    return known ? site : walk_path(at, from, python);
}

void zc_site_path_reset(void)
{
    memset(paths, 0, sizeof(paths));
}

const struct zc_module zc_module_site_path = {.child = zc_site_path_reset};
