/* SPDX-License-Identifier: MIT */
/* Reads the frames of CPython, from 3.9 to 3.14. */
#include "ledger/python.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/arena.h"
#include "base/message.h"
#include "base/text.h"
#include "ledger/unwind.h"

#define FRAMES_MAX 64  /* Of the interpreter, those that are no function's included. */
#define OFFSET_MAX 512 /* Larger offsets are not believed. */

#define FRAME_LINE "PyUnstable_InterpreterFrame_GetLine"

/* Offsets in CPython's structures.  They are the same in all releases of a minor version. */
struct layout {
    uint16_t cframe;         /* Of the thread state: what has the current frame, 0 for itself. */
    uint16_t current;        /* The current frame there. */
    uint16_t code, previous; /* Of a frame: its code object, the caller's frame, */
    uint16_t instruction, owner; /* the instruction, who has the frame's memory. */
    uint16_t file, function;     /* Of a code object: co_filename, co_qualname (co_name), */
    uint16_t bytecode;           /* its instructions. */
    uint16_t type;               /* Of every object. */
};

/* By minor version.  Before 3.11 frames are objects, without an owner: their byte in its place says
 * that they run.  From 3.13 on _PyRuntime begins with the offsets, made for profilers: struct
 * _Py_DebugOffsets, of 64-bit words; then these are the words that have the layout's fields.  They
 * are right for builds without the GIL, too. */
static const struct python {
    uint16_t version;
    bool words;       /* The layout's fields are numbers of words. */
    const char *line; /* Function that tells a frame's line; NULL: 3.11 has none. */
    struct layout layout;
} pythons[] = {
    {0x309, false, "PyFrame_GetLineNumber", {0, 24, 32, 24, 104, 116, 104, 112, 0, 8}},
    {0x30a, false, "PyFrame_GetLineNumber", {0, 24, 32, 24, 96, 108, 104, 112, 0, 8}},
    {0x30b, false, NULL, {56, 8, 32, 48, 56, 69, 112, 128, 184, 8}},
    {0x30c, false, FRAME_LINE, {56, 0, 0, 8, 56, 70, 112, 128, 192, 8}},
    {0x30d, true, FRAME_LINE, {0, 23, 30, 29, 31, 33, 35, 37, 43, 45}},
    {0x30e, true, FRAME_LINE, {0, 26, 33, 32, 34, 36, 40, 42, 48, 51}},
};

/* Frames of this owner or a greater one stand for calls from C: 3.12 to 3.14. */
#define OWNED_BY_C 3

uint32_t zc_python_state = ZC_PYTHON_OFF;

/* The interpreter: exported functions that need no GIL and only read, two types, its structures. */
static struct {
    uint64_t version;
    struct layout at;
    char *(*thread)(void);                           /* PyGILState_GetThisThreadState */
    int (*finalizing)(void);                         /* Py_IsFinalizing */
    int (*line)(const char *frame);                  /* See struct python. */
    int (*code_line)(const char *code, int offset);  /* PyCode_Addr2Line */
    ptrdiff_t (*length)(const char *text);           /* PyUnicode_GetLength */
    uint32_t (*read)(const char *text, ptrdiff_t i); /* PyUnicode_ReadChar */
    const char *code_type, *text_type;               /* PyCode_Type, PyUnicode_Type */
} api;

static bool find_functions(void *(*look_up)(void *handle, const char *name))
{
    const struct {
        const char *name, *other;
        void *to;
    } wanted[] = {
        {"PyGILState_GetThisThreadState", NULL, &api.thread},
        {"Py_IsFinalizing", "_Py_IsFinalizing", &api.finalizing},
        {"PyCode_Addr2Line", NULL, &api.code_line},
        {"PyUnicode_GetLength", NULL, &api.length},
        {"PyUnicode_ReadChar", NULL, &api.read},
        {"PyCode_Type", NULL, &api.code_type},
        {"PyUnicode_Type", NULL, &api.text_type},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *found = look_up(RTLD_DEFAULT, wanted[i].name);
        if (found == NULL && wanted[i].other != NULL)
            found = look_up(RTLD_DEFAULT, wanted[i].other);
        if (found == NULL)
            return false;
        memcpy(wanted[i].to, &found, sizeof(found));
    }
    return true;
}

/* Takes the offsets from those that the interpreter tells. */
static bool told_layout(const uint64_t *runtime, const struct layout *words)
{
    const uint16_t *word = (const uint16_t *)words;
    uint16_t *offset = (uint16_t *)&api.at;
    if (runtime == NULL || memcmp(runtime, "xdebugpy", 8) != 0 || runtime[1] != api.version)
        return false;
    for (size_t i = 0; i < sizeof(api.at) / sizeof(*offset); i++) {
        offset[i] = word[i] ? (uint16_t)runtime[word[i]] : 0;
        if (word[i] && runtime[word[i]] > OFFSET_MAX)
            return false;
    }
    return true;
}

static bool find_layout(void *(*look_up)(void *handle, const char *name))
{
    for (size_t i = 0; i < sizeof(pythons) / sizeof(pythons[0]); i++) {
        const struct python *p = &pythons[i];
        if (api.version >> 16 != p->version)
            continue;
        void *line = p->line != NULL ? look_up(RTLD_DEFAULT, p->line) : NULL;
        memcpy(&api.line, &line, sizeof(line));
        api.at = p->layout;
        return (line != NULL || p->line == NULL) &&
               (!p->words || told_layout(look_up(RTLD_DEFAULT, "_PyRuntime"), &p->layout));
    }
    return false;
}

/* From Py_GetVersion(), which begins with "3.10.2": 0x030a02f0. */
static uint64_t version_of(const char *text)
{
    uint64_t hex = 0;
    for (int part = 0; part < 3; part++) {
        uint64_t number = 0;
        while (*text >= '0' && *text <= '9')
            number = number * 10 + (uint64_t)(*text++ - '0');
        hex = hex << 8 | (number & 0xff);
        text += *text == '.';
    }
    return hex << 8 | 0xf0;
}

static void find_version(void *(*look_up)(void *handle, const char *name))
{
    const unsigned long *hex = look_up(RTLD_DEFAULT, "Py_Version"); /* From 3.11 on. */
    void *found = look_up(RTLD_DEFAULT, "Py_GetVersion");
    const char *(*text)(void);
    memcpy(&text, &found, sizeof(found));
    api.version = hex != NULL ? *hex : text != NULL ? version_of(text()) : 0;
}

static void python_set_state(enum zc_python state)
{
    __atomic_store_n(&zc_python_state, state, __ATOMIC_RELEASE);
    if (state == ZC_PYTHON_UNKNOWN && zc_message_first("python"))
        zc_message(ZC_WARN, "python",
                   "libzc can't read the functions that this Python is in; it knows 3.9 to 3.14");
}

void zc_python_find(void *(*look_up)(void *handle, const char *name))
{
    enum zc_python state = ZC_PYTHON_NONE;
    if (zc_python() >= ZC_PYTHON_FOUND)
        return;
    find_version(look_up);
    if (api.version != 0)
        state =
            find_functions(look_up) && find_layout(look_up) ? ZC_PYTHON_FOUND : ZC_PYTHON_UNKNOWN;
    python_set_state(state);
}

uint64_t zc_python_version(void)
{
    return api.version;
}

uint64_t zc_python_address(void)
{
    return (uint64_t)(uintptr_t)api.thread;
}

/* The word at an address of the interpreter's.  Until the first frames have proved the layout, only
 * where it can be read. */
ZC_READS_FRAMES static uint64_t read_word(const char *address)
{
    if (zc_python() != ZC_PYTHON_READ &&
        ((uintptr_t)address % sizeof(uint64_t) != 0 || !zc_readable((uintptr_t)address)))
        return 0;
    return *(const volatile uint64_t *)(const void *)address;
}

static const char *pointer(const char *address)
{
    /* From 3.14 on the lowest bits of some pointers are marks. */
    return (const char *)(uintptr_t)(read_word(address) & ~(uint64_t)7); /* NOLINT */
}

static const char *current_frame(void)
{
    /* Once the interpreter ends it frees the states of threads that it has not joined. */
    if (api.finalizing())
        return NULL;
    const char *state = api.thread();
    if (state != NULL && api.at.cframe != 0)
        state = pointer(state + api.at.cframe);
    return state != NULL ? pointer(state + api.at.current) : NULL;
}

/* The code object of a frame; NULL if it is no function's. */
static const char *code_of(const char *frame)
{
    const char *code = pointer(frame + api.at.code);
    uint64_t owner = read_word(frame + api.at.owner / 8 * 8) >> api.at.owner % 8 * 8 & 0xff;
    if (code == NULL || owner >= OWNED_BY_C || pointer(code + api.at.type) != api.code_type)
        return NULL;
    return code;
}

static uint64_t mix_key(uint64_t key, uint64_t value)
{
    key = (key ^ value) * 0x9e3779b97f4a7c15ull;
    return key ^ key >> 32;
}

/* A name is mixed in as well, because another function's code may come to lie where this one's
 * was. */
static uint64_t key_of_frames(void)
{
    const char *frame = current_frame();
    uint64_t key = 0;
    unsigned n = 0;
    for (unsigned i = 0; frame != NULL && i < FRAMES_MAX && n < ZC_PYTHON_FRAMES; i++) {
        const char *code = code_of(frame);
        if (code != NULL) {
            key = mix_key(mix_key(key, read_word(frame + api.at.instruction)),
                          read_word(code + api.at.function));
            key = mix_key(key, (uintptr_t)code);
            n++;
        }
        frame = pointer(frame + api.at.previous);
    }
    return n > 0 ? key | 1 : 0;
}

static bool is_text(const char *object)
{
    return object != NULL && pointer(object + api.at.type) == api.text_type;
}

/* Copies the characters of a str from `from` on, as far as there is room; false if some are left.
 * A surrogate that stands for a byte which is no character (PEP 383) becomes that byte. */
static bool copy_from(char *out, size_t cap, const char *text, ptrdiff_t from)
{
    struct zc_text t = zc_text_on(out, cap);
    ptrdiff_t length = api.length(text);
    for (; from < length && !t.truncated; from++) {
        uint32_t c = api.read(text, from);
        if (c >= 0xdc80 && c <= 0xdcff)
            zc_text_raw(&t, &(char){(char)c}, 1);
        else
            zc_text_utf8(&t, c);
    }
    zc_text_cstr(&t);
    return !t.truncated;
}

static void copy_name(char *out, size_t cap, const char *text, bool end)
{
    ptrdiff_t from = is_text(text) && end ? api.length(text) - (ptrdiff_t)cap + 1 : 0;
    if (!is_text(text)) {
        strcpy(out, "?");
        return;
    }
    while (!copy_from(out, cap, text, from > 0 ? from : 0) && end)
        from = from > 0 ? from + 1 : 1;
}

static uint32_t line_of(const char *frame, const char *code)
{
    uint64_t offset = read_word(frame + api.at.instruction) - (uintptr_t)(code + api.at.bytecode);
    int line = api.line != NULL ? api.line(frame) : api.code_line(code, (int)offset);
    return line > 0 ? (uint32_t)line : 0;
}

struct zc_python_path *zc_python_read(void)
{
    struct zc_python_path *path = zc_arena_get(sizeof(*path));
    const char *frame = path != NULL ? current_frame() : NULL;
    for (unsigned i = 0; frame != NULL && i < FRAMES_MAX && path->n < ZC_PYTHON_FRAMES; i++) {
        const char *code = code_of(frame);
        if (code != NULL) {
            struct zc_python_frame *f = &path->frame[path->n++];
            f->line = line_of(frame, code);
            copy_name(f->function, sizeof(f->function), pointer(code + api.at.function), false);
            copy_name(f->file, sizeof(f->file), pointer(code + api.at.file), true);
        }
        frame = pointer(frame + api.at.previous);
    }
    if (path == NULL || path->n > 0)
        return path;
    zc_arena_put(path, sizeof(*path));
    return NULL;
}

/* The innermost function of the first thread that is in one proves the layout: its code is a code
 * object, and the names there are texts. */
static void prove_layout(void)
{
    const char *frame = current_frame(), *code = NULL;
    if (frame == NULL)
        return;
    for (unsigned i = 0; frame != NULL && code == NULL && i < FRAMES_MAX; i++) {
        code = code_of(frame);
        frame = pointer(frame + api.at.previous);
    }
    bool names = code != NULL && is_text(pointer(code + api.at.function)) &&
                 is_text(pointer(code + api.at.file));
    python_set_state(names ? ZC_PYTHON_READ : ZC_PYTHON_UNKNOWN);
}

uint64_t zc_python_walk(void)
{
    if (zc_python() == ZC_PYTHON_FOUND)
        prove_layout();
    return zc_python() == ZC_PYTHON_READ ? key_of_frames() : 0;
}
