/* SPDX-License-Identifier: MIT */
/* Files of modules: which of the loaded ones a frame means, and the build id in its notes. */
#include "log_said_test.h"

#include <elf.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>

#include "base/own.h"
#include "base/path.h"
#include "ledger/site.h"

/* Loaded objects, each with two segments: the first one may have notes. */
static struct {
    const char *name;
    unsigned char *notes;
    size_t bytes, align;
} loaded[4];
static unsigned objects, walks;
static bool no_path;

static int fake_iterate(int (*each)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    walks++;
    for (unsigned i = 0; i < objects; i++) {
        const ElfW(Addr) load = 0x1000;
        const ElfW(Phdr) segments[] = {
            {.p_type = loaded[i].notes ? PT_NOTE : PT_LOAD,
             .p_vaddr = (uintptr_t)loaded[i].notes - load,
             .p_memsz = loaded[i].bytes,
             .p_align = loaded[i].align},
            {.p_type = PT_DYNAMIC},
        };
        struct dl_phdr_info info = {
            .dlpi_addr = load, .dlpi_name = loaded[i].name, .dlpi_phdr = segments, .dlpi_phnum = 2};
        assert_int_equal(each(&info, sizeof(info), arg), 0);
    }
    return 0;
}

static bool fake_path(char path[PATH_MAX])
{
    strcpy(path, no_path ? "" : "/bin/prog");
    return !no_path;
}

#define dl_iterate_phdr fake_iterate
#define zc_log_program() "prog"
#define zc_log_program_path fake_path
#include "../../shim/log/modules.c"

/* Notes of a segment: each with a name of four bytes at most, padded to `align`. */
static size_t add_note(unsigned char *notes, size_t at, unsigned type, const char *name,
                       unsigned bytes, size_t align)
{
    ElfW(Nhdr) head = {.n_namesz = (unsigned)strlen(name) + 1, .n_descsz = bytes, .n_type = type};
    size_t data = (at + sizeof(head) + head.n_namesz + align - 1) / align * align;
    memcpy(notes + at, &head, sizeof(head));
    strcpy((char *)notes + at + sizeof(head), name);
    for (unsigned i = 0; i < bytes; i++)
        notes[data + i] = (unsigned char)(0xa0 + i);
    return (data + bytes + align - 1) / align * align;
}

static int anew(void **state)
{
    (void)state;
    zc_own_forget();
    memset(written, 0, sizeof(written));
    memset(loaded, 0, sizeof(loaded));
    said[0] = '\0';
    objects = walks = 0;
    off = no_path = false;
    return 0;
}

static void module(const char *name)
{
    struct zc_site site = {.nframes = 1};
    memset(written, 0, sizeof(written));
    strcpy(site.frame[0].module, name);
    zc_log_modules(&site);
}

static void a_module_is_the_loaded_file_of_that_name(void **state)
{
    (void)state;
    loaded[0].name = "/lib/liba.so";
    loaded[1].name = "";
    loaded[2].name = "b.so";
    loaded[3].name = "/lib/libb.so";
    objects = 4;
    module("liba.so");
    says("{\"type\":\"module\",\"module\":\"liba.so\",\"build_id\":null,\"path\":\"/lib/"
         "liba.so\"}\n");
    module("b.so");
    says("{\"type\":\"module\",\"module\":\"b.so\",\"build_id\":null,\"path\":\"b.so\"}\n");
    module("prog"); /* The loader has an empty name for it. */
    says("{\"type\":\"module\",\"module\":\"prog\",\"build_id\":null,\"path\":\"/bin/prog\"}\n");
    no_path = true;
    module("prog");
    says("{\"type\":\"module\",\"module\":\"prog\",\"build_id\":null,\"path\":null}\n");
    module("libc.so");
    says("{\"type\":\"module\",\"module\":\"libc.so\",\"build_id\":null,\"path\":null}\n");
    loaded[3].name = "/other/liba.so"; /* Nobody knows which of both. */
    module("liba.so");
    says("{\"type\":\"module\",\"module\":\"liba.so\",\"build_id\":null,\"path\":null}\n");
    module("?");
    module("");
    says("");
    off = true;
    module("b.so");
    says("");
}

static void a_long_name_is_told_by_as_much_as_a_frame_has(void **state)
{
    char path[] = "/lib/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-cut.so", name[ZC_SITE_MODULE] = "";
    char want[200] = "{\"type\":\"module\",\"module\":\"";
    (void)state;
    loaded[0].name = path;
    objects = 1;
    memset(name, 'n', ZC_SITE_MODULE - 1);
    module(name);
    strcat(strcat(want, name), "\",\"build_id\":null,\"path\":\"");
    says(strcat(strcat(want, path), "\"}\n"));
    path[5 + ZC_SITE_MODULE - 2] = 'x'; /* Another one. */
    module(name);
    assert_non_null(strstr(said, "\"path\":null"));
}

static void each_name_is_told_once_with_its_files(void **state)
{
    struct zc_site site = {.nframes = 3};
    (void)state;
    strcpy(site.frame[0].module, "a");
    strcpy(site.frame[1].module, "b");
    strcpy(site.frame[2].module, "a");
    zc_log_modules(&site);
    says("{\"type\":\"module\",\"module\":\"a\",\"build_id\":null,\"path\":null}\n"
         "{\"type\":\"module\",\"module\":\"b\",\"build_id\":null,\"path\":null}\n");
    zc_log_modules(&site);
    says("");
    assert_int_equal(walks, 2);
    for (unsigned i = 0; site.nframes == 3; i++) { /* Its place is another name's. */
        snprintf(site.frame[2].module, ZC_SITE_MODULE, "m%u", i);
        if (((zc_hash(site.frame[2].module, strlen(site.frame[2].module)) | 1) ^
             (zc_hash("a", 1) | 1)) %
                MODULES ==
            0)
            site.nframes = 4;
    }
    strcpy(site.frame[3].module, "b");
    zc_log_modules(&site);
    assert_int_equal(walks, 3);
    zc_log_modules(&site);
    assert_int_equal(walks, 3);
}

static void the_build_id_is_found_among_the_notes(void **state)
{
    static const struct {
        const char *names[3];
        unsigned types[3], bytes[3];
        const char *id;
    } rows[] = {
        {{"GNU"}, {NT_GNU_BUILD_ID}, {4}, "\"a0a1a2a3\""},
        {{"GNU"}, {NT_GNU_BUILD_ID}, {1}, "\"a0\""},
        {{"GNU"}, {NT_GNU_BUILD_ID}, {20}, "\"a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3\""},
        {{"GNU"}, {NT_GNU_BUILD_ID}, {21}, "null"},
        {{"GNU", "GNU"}, {NT_GNU_ABI_TAG, NT_GNU_BUILD_ID}, {16, 2}, "\"a0a1\""},
        {{"GNU", "GNU"}, {NT_GNU_ABI_TAG, NT_GNU_BUILD_ID}, {5, 2}, "\"a0a1\""},
        {{"Go", "stapsdt", "GNU"}, {4, 3, NT_GNU_BUILD_ID}, {3, 9, 3}, "\"a0a1a2\""},
        {{"GNU", "Go"}, {NT_GNU_BUILD_ID, 4}, {3, 9}, "\"a0a1a2\""},
        {{"Gnu"}, {NT_GNU_BUILD_ID}, {4}, "null"},
        {{"GNUx"}, {NT_GNU_BUILD_ID}, {4}, "null"},
        {{"GNU"}, {NT_GNU_ABI_TAG}, {4}, "null"},
    };
    static unsigned char notes[400] __attribute__((aligned(8)));
    (void)state;
    loaded[0].name = "/lib/a.so";
    loaded[0].notes = notes;
    objects = 1;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        char want[200] = "{\"type\":\"module\",\"module\":\"a.so\",\"build_id\":";
        size_t n = 0, align = i % 2 ? 8 : 4;
        memset(notes, 0, sizeof(notes));
        for (unsigned j = 0; j < 3 && rows[i / 2].names[j]; j++)
            n = add_note(notes, n, rows[i / 2].types[j], rows[i / 2].names[j], rows[i / 2].bytes[j],
                         align);
        loaded[0].bytes = n;
        loaded[0].align = i % 2 ? 8 : i % 4; /* Linkers write 4, 0 or 1. */
        module("a.so");
        says(strcat(strcat(want, rows[i / 2].id), ",\"path\":\"/lib/a.so\"}\n"));
    }
}

static void notes_that_end_within_one_have_no_id(void **state)
{
    static unsigned char notes[64] __attribute__((aligned(8)));
    size_t n = add_note(notes, 0, NT_GNU_BUILD_ID, "GNU", 4, 4);
    (void)state;
    loaded[0].name = "/lib/a.so";
    loaded[0].notes = notes;
    loaded[0].align = 4;
    objects = 1;
    for (loaded[0].bytes = 0; loaded[0].bytes < n; loaded[0].bytes++) {
        module("a.so");
        says("{\"type\":\"module\",\"module\":\"a.so\",\"build_id\":null,\"path\":\"/lib/"
             "a.so\"}\n");
    }
    loaded[0].bytes = add_note(notes, 0, NT_GNU_ABI_TAG, "GNU", 4, 4);
    for (n = add_note(notes, loaded[0].bytes, NT_GNU_BUILD_ID, "GNU", 4, 4); loaded[0].bytes < n;
         loaded[0].bytes++) {
        module("a.so");
        assert_non_null(strstr(said, "\"build_id\":null"));
        said[0] = '\0';
    }
    loaded[1] = loaded[0]; /* An id of the first one is not taken for the second one's. */
    loaded[1].notes = NULL;
    loaded[1].name = "/lib/b.so";
    objects = 2;
    module("b.so");
    says("{\"type\":\"module\",\"module\":\"b.so\",\"build_id\":null,\"path\":\"/lib/b.so\"}\n");
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_module_is_the_loaded_file_of_that_name),
        T(a_long_name_is_told_by_as_much_as_a_frame_has),
        T(each_name_is_told_once_with_its_files),
        T(the_build_id_is_found_among_the_notes),
        T(notes_that_end_within_one_have_no_id),
    };
    return RUN_TESTS(tests);
}
