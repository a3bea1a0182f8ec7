/* SPDX-License-Identifier: MIT */
/* Python functions of call paths, read from interpreters that are made up: each version's layout,
 * names of every kind, and what is no interpreter at all. */
#include "ledger_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/message.h"
#include "ledger/python.h"

#define FRAMES 40

/* An object of the interpreter's; a text has its length and characters here. */
struct object {
    char field[512];
    ptrdiff_t length;
    uint32_t c[400];
};

/* Offsets by which the objects are filled, and the version that they belong to. */
struct fake {
    uint64_t version;
    unsigned cframe, current, code, previous, instruction, owner, file, function, bytecode, type;
};

/* As CPython's headers have them. */
static const struct fake python_3_9 = {0x030909f0, 0, 24, 32, 24, 104, 116, 104, 112, 0, 8};
static const struct fake python_3_10 = {0x030a0df0, 0, 24, 32, 24, 96, 108, 104, 112, 0, 8};
static const struct fake python_3_11 = {0x030b02f0, 56, 8, 32, 48, 56, 69, 112, 128, 184, 8};
static const struct fake python_3_12 = {0x030c01f0, 56, 0, 0, 8, 56, 70, 112, 128, 192, 8};
static const struct fake python_3_13 = {0x030d00f0, 0, 72, 0, 8, 56, 70, 112, 128, 200, 8};
/* Of a build without the GIL, where every object has a longer head. */
static const struct fake python_3_14 = {0x030e00f0, 0, 80, 0, 8, 56, 74, 128, 144, 232, 24};

static struct fake now;
static unsigned long version;
static uint64_t runtime[64];
static struct object thread, cframe, frame[FRAMES], code, other_code, file, function, text_type,
    code_type;
static const void *state_of_thread;
static int finalizing;
static const char *missing; /* A function that the interpreter does not export. */

static void put(struct object *o, unsigned offset, const void *value)
{
    memcpy(o->field + offset, &value, sizeof(value));
}

static const void *get(const char *at)
{
    const void *value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static const void *this_thread(void)
{
    return state_of_thread;
}

static int is_finalizing(void)
{
    return finalizing;
}

static const char *version_text(void)
{
    return now.version == python_3_9.version    ? "3.9.9 (main, Jan  1 2026) [GCC 12.2.0]"
           : now.version == python_3_10.version ? "3.10.13+ (main)"
                                                : "2.7.18";
}

/* The line is the instruction's offset. */
static int code_line(const char *of, int offset)
{
    assert_true(of == code.field || of == other_code.field);
    return offset;
}

static int frame_line(const char *of)
{
    return (int)((const char *)get(of + now.instruction) -
                 ((const char *)get(of + now.code) + now.bytecode));
}

static ptrdiff_t length(const void *text)
{
    return ((const struct object *)text)->length;
}

static uint32_t read_char(const void *text, ptrdiff_t i)
{
    assert_true(i >= 0 && i < length(text));
    return ((const struct object *)text)->c[i];
}

static void *look_up(void *handle, const char *name)
{
    const struct {
        const char *name;
        void *found;
    } exported[] = {
        {now.version < 0x030b0000 ? "" : "Py_Version", &version},
        {"Py_GetVersion", (void *)version_text},
        {"_PyRuntime", runtime},
        {"PyGILState_GetThisThreadState", (void *)this_thread},
        {now.version < 0x030d0000 ? "_Py_IsFinalizing" : "Py_IsFinalizing", (void *)is_finalizing},
        {now.version < 0x030b0000   ? "PyFrame_GetLineNumber"
         : now.version < 0x030c0000 ? ""
                                    : "PyUnstable_InterpreterFrame_GetLine",
         (void *)frame_line},
        {"PyCode_Addr2Line", (void *)code_line},
        {"PyUnicode_GetLength", (void *)length},
        {"PyUnicode_ReadChar", (void *)read_char},
        {"PyCode_Type", &code_type},
        {"PyUnicode_Type", &text_type},
    };

    (void)handle;
    for (size_t i = 0; i < sizeof(exported) / sizeof(exported[0]); i++)
        if (strcmp(name, exported[i].name) == 0 && (!missing || strcmp(name, missing) != 0))
            return exported[i].found;
    return NULL;
}

static void set_text(struct object *text, const char *ascii)
{
    put(text, now.type, &text_type);
    text->length = (ptrdiff_t)strlen(ascii);
    for (ptrdiff_t i = 0; i < text->length; i++)
        text->c[i] = (unsigned char)ascii[i];
}

static void set_frame(unsigned i, struct object *of, unsigned line, struct object *previous)
{
    put(&frame[i], now.code, of);
    put(&frame[i], now.instruction, of->field + now.bytecode + line);
    put(&frame[i], now.previous, previous);
    frame[i].field[now.owner] = 0;
}

static void set_code(struct object *of, const struct object *name)
{
    put(of, now.type, &code_type);
    put(of, now.file, &file);
    put(of, now.function, name);
}

/* Words of struct _Py_DebugOffsets, whose parts before the thread state differ. */
static void tell_offsets(void)
{
    unsigned first = now.version >> 16 == 0x30d ? 19 : 22;
    unsigned code_part = first + (now.version >> 16 == 0x30d ? 15 : 17);
    unsigned object_part = code_part + (now.version >> 16 == 0x30d ? 10 : 11);

    memcpy(runtime, "xdebugpy", 8);
    runtime[1] = now.version;
    runtime[first + 4] = now.current;
    runtime[first + 10] = now.previous;
    runtime[first + 11] = now.code;
    runtime[first + 12] = now.instruction;
    runtime[first + 14] = now.owner;
    runtime[code_part + 1] = now.file;
    runtime[code_part + 3] = now.function;
    runtime[code_part + 9] = now.bytecode;
    runtime[object_part + 1] = now.type;
}

static unsigned told;

static bool tell(enum zc_severity severity, const char *code_of_message, const char *text)
{
    (void)severity, (void)text;
    told += strcmp(code_of_message, "python") == 0;
    return true;
}

/* An interpreter whose thread is in load() of line 20, called from main() of line 10. */
static void build(const struct fake *fake)
{
    static struct object main_name;

    now = *fake;
    version = (unsigned long)now.version;
    missing = NULL;
    finalizing = 0;
    memset(runtime, 0, sizeof(runtime));
    memset(frame, 0, sizeof(frame));
    memset(&thread, 0, sizeof(thread));
    tell_offsets();
    set_text(&file, "/srv/train.py");
    set_text(&function, "Loader.load");
    set_text(&main_name, "main");
    set_code(&code, &function);
    set_code(&other_code, &main_name);
    put(now.cframe ? &cframe : &thread, now.current, &frame[0]);
    if (now.cframe)
        put(&thread, now.cframe, &cframe);
    set_frame(0, &code, 20, &frame[1]);
    set_frame(1, &other_code, 10, NULL);
    state_of_thread = &thread;
    zc_message_set_sink(tell);
    zc_message_reset();
    zc_message_set_sink(tell);
    told = 0;
    zc_python_state = ZC_PYTHON_OFF;
    zc_python_find(look_up);
}

static void expect_two(const char *name)
{
    struct zc_python_path *path;

    assert_int_not_equal(zc_python_key(), 0);
    assert_int_equal(zc_python(), ZC_PYTHON_READ);
    path = zc_python_read();
    assert_non_null(path);
    assert_int_equal(path->n, 2);
    assert_int_equal(path->frame[0].line, 20);
    assert_string_equal(path->frame[0].function, name);
    assert_string_equal(path->frame[0].file, "/srv/train.py");
    assert_int_equal(path->frame[1].line, 10);
    assert_string_equal(path->frame[1].function, "main");
    zc_arena_put(path, sizeof(*path));
}

static void test_versions(void **state)
{
    const struct fake *const known[] = {&python_3_9,  &python_3_10, &python_3_11,
                                        &python_3_12, &python_3_13, &python_3_14};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        build(known[i]);
        assert_int_equal(zc_python_version(), known[i]->version);
        expect_two("Loader.load");
    }
}

/* Frames that stand for calls from C have code of their own in 3.12, and none later. */
static void test_calls_from_c(void **state)
{
    (void)state;
    build(&python_3_12);
    set_frame(2, &code, 1, &frame[0]);
    frame[2].field[now.owner] = 3;
    put(&cframe, now.current, &frame[2]);
    expect_two("Loader.load");

    build(&python_3_14);
    set_frame(2, &text_type, 1, &frame[0]);
    put(&thread, now.current, &frame[2]);
    expect_two("Loader.load");

    build(&python_3_14); /* The lowest bits of the pointer are marks. */
    put(&frame[0], now.code, code.field + 1);
    assert_int_not_equal(zc_python_key(), 0);
}

static void test_key(void **state)
{
    uint64_t first;

    (void)state;
    build(&python_3_11);
    first = zc_python_key();
    assert_int_equal(zc_python_key(), first);
    set_frame(0, &code, 21, &frame[1]);
    assert_int_not_equal(zc_python_key(), first);
    set_frame(0, &code, 20, &frame[1]);
    assert_int_equal(zc_python_key(), first);
    set_frame(1, &other_code, 11, NULL);
    assert_int_not_equal(zc_python_key(), first);
    set_frame(1, &other_code, 10, NULL);
    put(&code, now.function, &file); /* Other code at the same address. */
    assert_int_not_equal(zc_python_key(), first);
    put(&code, now.function, &function);
    set_code(&other_code, &function); /* Until 3.10 the instruction is a number within the code. */
    first = zc_python_key();
    put(&frame[0], now.code, &other_code);
    assert_int_not_equal(zc_python_key(), first);
}

/* Memory of a path that nobody keeps is that of the next one. */
static void test_one_function(void **state)
{
    struct zc_python_path *path;

    (void)state;
    build(&python_3_11);
    set_frame(0, &code, 1, NULL);
    assert_int_not_equal(zc_python_key(), 0);
    path = zc_python_read();
    assert_int_equal(path->n, 1);
    assert_int_equal(path->frame[0].line, 1);
    zc_arena_put(path, sizeof(*path));
    put(&cframe, now.current, NULL);
    assert_null(zc_python_read());
    put(&cframe, now.current, &frame[0]);
    assert_ptr_equal(zc_python_read(), path);
    zc_arena_put(path, sizeof(*path));
    zc_python_find(look_up); /* Once is enough. */
    assert_int_equal(zc_python(), ZC_PYTHON_READ);
}

static void test_deep(void **state)
{
    struct zc_python_path *path;
    uint64_t first;

    (void)state;
    build(&python_3_11);
    for (unsigned i = 0; i < FRAMES; i++)
        set_frame(i, &code, i, i + 1 < FRAMES ? &frame[i + 1] : NULL);
    first = zc_python_key();
    path = zc_python_read();
    assert_int_equal(path->n, ZC_PYTHON_FRAMES);
    assert_int_equal(path->frame[ZC_PYTHON_FRAMES - 1].line, ZC_PYTHON_FRAMES - 1);
    zc_arena_put(path, sizeof(*path));
    set_frame(FRAMES - 1, &code, 1000, NULL);
    assert_int_equal(zc_python_key(), first);
    set_frame(FRAMES - 1, &code, 1000, &frame[0]); /* Such a circle ends as well. */
    assert_int_equal(zc_python_key(), first);
    for (unsigned i = 0; i < FRAMES; i++) {
        set_frame(i, &code, i, &frame[(i + 1) % FRAMES]);
        frame[i].field[now.owner] = 3;
    }
    assert_int_equal(zc_python_key(), 0);
    assert_null(zc_python_read());
}

static void expect_name(const char *expected)
{
    struct zc_python_path *path;

    assert_int_not_equal(zc_python_key(), 0);
    path = zc_python_read();
    assert_string_equal(path->frame[0].function, expected);
    zc_arena_put(path, sizeof(*path));
}

static void test_names(void **state)
{
    static char long_name[300];
    struct zc_python_path *path;

    (void)state;
    build(&python_3_11);
    function.length = 6;
    memcpy(function.c, (const uint32_t[]){'g', 0xf6, 0x20ac, 0x1f600, 0xdce4, 0xdcff}, 6 * 4);
    expect_name("g\xc3\xb6\xe2\x82\xac\xf0\x9f\x98\x80\xe4\xff");
    function.length = 4; /* The characters around those that stand for a byte. */
    memcpy(function.c, (const uint32_t[]){0xdc7f, 0xdc80, 0xdcff, 0xdd00}, 4 * 4);
    expect_name("\xed\xb1\xbf\x80\xff\xed\xb4\x80");

    /* The first 59 bytes of a function's name, and whole characters alone. */
    memset(long_name, 'f', 299);
    set_text(&function, long_name);
    long_name[59] = 0;
    expect_name(long_name);
    function.c[58] = 0xf6;
    long_name[58] = 0;
    expect_name(long_name);

    /* The last bytes of a path. */
    memset(long_name, 'd', 200);
    strcpy(long_name + 200, "/file.py");
    set_text(&file, long_name);
    path = zc_python_read();
    assert_int_equal(strlen(path->frame[0].file), sizeof(path->frame[0].file) - 1);
    assert_string_equal(path->frame[0].file + sizeof(path->frame[0].file) - 10, "d/file.py");
    zc_arena_put(path, sizeof(*path));
    memset(long_name, 'e', 300);
    long_name[sizeof(path->frame[0].file)] = 0; /* One more than there is room for. */
    set_text(&file, long_name);
    path = zc_python_read();
    assert_string_equal(path->frame[0].file, long_name + 1);
    zc_arena_put(path, sizeof(*path));
    memset(long_name, 'd', 200);
    strcpy(long_name + 200, "/file.py");
    set_text(&file, long_name);
    file.c[100] = 0x20ac; /* Three bytes, of a path that would have had room for one. */
    path = zc_python_read();
    assert_int_equal(strlen(path->frame[0].file), sizeof(path->frame[0].file) - 1);
    assert_string_equal(path->frame[0].file + sizeof(path->frame[0].file) - 10, "d/file.py");
    zc_arena_put(path, sizeof(*path));

    put(&code, now.function, &code); /* No text. */
    expect_name("?");
}

static void test_no_functions(void **state)
{
    (void)state;
    build(&python_3_12);
    state_of_thread = NULL; /* A thread that Python does not know. */
    assert_int_equal(zc_python_key(), 0);
    state_of_thread = &thread;
    put(&cframe, now.current, NULL);
    assert_int_equal(zc_python_key(), 0);
    assert_int_equal(zc_python(), ZC_PYTHON_FOUND);
    put(&cframe, now.current, &frame[0]);
    expect_two("Loader.load");
    finalizing = 1;
    assert_int_equal(zc_python_key(), 0);
    assert_null(zc_python_read());
}

static void expect_unknown(void)
{
    assert_int_equal(zc_python_key(), 0);
    assert_int_equal(zc_python(), ZC_PYTHON_UNKNOWN);
    assert_int_equal(told, 1);
}

static void test_unknown(void **state)
{
    const struct fake newer = {.version = 0x030f00f0, .type = 8};
    char *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    build(&newer);
    expect_unknown();
    build(&python_3_13);
    zc_python_state = ZC_PYTHON_OFF;
    runtime[23] = 4096; /* Not believed. */
    zc_python_find(look_up);
    expect_unknown();
    for (unsigned i = 0; i < 2; i++) { /* Another structure, or of another version. */
        build(&python_3_13);
        zc_python_state = ZC_PYTHON_OFF;
        runtime[i]++;
        zc_python_find(look_up);
        expect_unknown();
    }
    build(&python_3_13);
    zc_python_state = ZC_PYTHON_OFF;
    missing = "PyUnicode_ReadChar";
    zc_python_find(look_up);
    expect_unknown();
    zc_python_state = ZC_PYTHON_OFF;
    missing = "Py_Version"; /* Then Py_GetVersion() tells an old one. */
    zc_python_find(look_up);
    expect_unknown();

    build(&python_3_11); /* Other offsets than in the table, as in a build for debugging. */
    put(&code, now.type, NULL);
    put(&other_code, now.type, NULL);
    expect_unknown();
    build(&python_3_11);
    put(&code, now.file, &code);
    expect_unknown();
    build(&python_3_11);
    put(&cframe, now.current, gone);
    expect_unknown();
    build(&python_3_11);
    put(&thread, now.cframe, gone + 4);
    assert_int_equal(zc_python_key(), 0);
    munmap(gone, 4096);
}

/* Sites of one native path. */
static void test_sites(void **state)
{
    struct zc_frame frames[] = {{.module = "lib", .offset = 1}, {.module = "python", .offset = 2}};
    uint32_t native, first, second;
    struct zc_python_path *path;

    (void)state;
    build(&python_3_11);
    assert_int_not_equal(zc_python_key(), 0);
    native = zc_site_intern(frames, 2, NULL);
    path = zc_python_read();
    path->before = 1;
    first = zc_site_intern(frames, 2, path);
    assert_ptr_equal(zc_site_python(first), path);
    assert_int_not_equal(first, native);
    assert_int_equal(zc_site_native(first), zc_site_id(native));
    assert_int_equal(zc_site_native(native), zc_site_id(native));
    assert_int_equal(zc_site_intern(frames, 2, zc_python_read()), first);

    /* Another line is another site. */
    set_frame(1, &other_code, 11, NULL);
    path = zc_python_read();
    path->before = 1;
    second = zc_site_intern(frames, 2, path);
    assert_int_not_equal(zc_site_id(second), zc_site_id(first));
    assert_int_equal(zc_site_native(second), zc_site_id(native));

    /* In the innermost function as well. */
    set_frame(0, &code, 21, &frame[1]);
    path = zc_python_read();
    path->before = 1;
    assert_int_not_equal(zc_site_id(zc_site_intern(frames, 2, path)), zc_site_id(second));
    set_frame(0, &code, 20, &frame[1]);

    /* Another place in the interpreter is not, but rules tell it apart. */
    frames[1].offset = 3;
    path = zc_python_read();
    path->before = 1;
    assert_int_not_equal(zc_site_intern(frames, 2, path), second);
    assert_int_equal(zc_site_id(zc_site_count() - 1), zc_site_id(second));
    assert_int_not_equal(zc_site_native(zc_site_count() - 1), zc_site_id(native));
    zc_own_forget();
    assert_null(zc_site_python(first));
}

/* Of a path of one function; `behind` is left over where a second one would be. */
static uint32_t site_of(const char *name, const char *in, const char *behind)
{
    const struct zc_frame native = {.module = "python", .offset = 2};
    struct zc_python_path *path = zc_python_read();

    path->n = 1;
    strcpy(path->frame[0].function, name);
    strcpy(path->frame[0].file, in);
    strcpy(path->frame[1].function, behind);
    return zc_site_intern(&native, 1, path);
}

static void test_names_of_sites(void **state)
{
    struct zc_python_path *path;
    uint32_t site;

    (void)state;
    build(&python_3_11);
    assert_int_not_equal(zc_python_key(), 0);
    site = site_of("load", "a.py", "");
    assert_int_not_equal(site_of("loaf", "a.py", ""), site);
    assert_int_not_equal(site_of("load", "a.px", ""), site);
    assert_int_not_equal(site_of("loada", ".py", ""), site);
    assert_int_equal(site_of("load", "a.py", "main"), site);
    path = zc_python_read(); /* A site that there was has not taken the last one. */
    zc_arena_put(path, sizeof(*path));
    site_of("load", "a.py", "");
    assert_ptr_equal(zc_python_read(), path);
    zc_arena_put(path, sizeof(*path));
}

#define TEST(name, function)                                                                       \
    {                                                                                              \
        name, function, ledger_setup, NULL, NULL                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("functions, files and lines of each known version", test_versions),
        TEST("calls from C are no functions", test_calls_from_c),
        TEST("the key changes with each function and line", test_key),
        TEST("a stack of one function", test_one_function),
        TEST("the innermost functions of a deep stack are kept", test_deep),
        TEST("names of any length and script", test_names),
        TEST("threads in no function, and an interpreter that ends", test_no_functions),
        TEST("what is no interpreter that is known is not read", test_unknown),
        TEST("sites differ by lines, and keep the id that rules match", test_sites),
        TEST("sites differ by names and files", test_names_of_sites),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
