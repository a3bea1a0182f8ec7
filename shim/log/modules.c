/* SPDX-License-Identifier: MIT */
/* The files of the modules in frames, for readers that turn offsets into functions. */
#include "log/lines.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/path.h"

#include <link.h>
#include <string.h>

#define MODULES 256 /* A power of two. */
#define BUILD_ID 20 /* Bytes of the longest build id that linkers write, a SHA-1. */

/* Hashes of the names that have a line; 0 in a free entry.  Atomic. */
static ZC_OWN uint32_t written[MODULES];

/* The search for one module, and its result. */
struct search {
    const char *name;     /* File name as in a frame, at most ZC_SITE_MODULE - 1 bytes. */
    const char *program;  /* The executable's name; the loader has an empty one for it. */
    unsigned found;       /* Loaded objects of that name. */
    char path[PATH_MAX];  /* Path of the last one, from the loader. */
    uint8_t id[BUILD_ID]; /* Its build id. */
    unsigned id_bytes;    /* 0 if it has none. */
    struct zc_line line;
};

/* True for the first caller with this name.  Names with equal hashes are taken for the same, which
 * hides the path of one module. */
static bool first_time(const char *name)
{
    uint32_t hash = (uint32_t)zc_hash(name, strlen(name)) | 1;
    for (uint32_t i = 0; i < MODULES; i++) {
        uint32_t *entry = &written[(hash + i) % MODULES];
        uint32_t was = 0;
        if (__atomic_compare_exchange_n(entry, &was, hash, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return true;
        if (was == hash)
            return false;
    }
    return false;
}

/* Finds the build id among the notes of a segment (elf(5), "Notes"). */
static void read_notes(struct search *search, const uint8_t *note, size_t bytes, size_t align)
{
    align = align == 8 ? 8 : 4;
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *head = (const void *)note;
        size_t name = sizeof(*head);
        size_t data = (name + head->n_namesz + align - 1) & ~(align - 1);
        size_t next = (data + head->n_descsz + align - 1) & ~(align - 1);

        if (data + head->n_descsz > bytes)
            return;
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
            memcmp(note + name, "GNU", 4) == 0 && head->n_descsz <= BUILD_ID) {
            memcpy(search->id, note + data, head->n_descsz);
            search->id_bytes = head->n_descsz;
        }
        if (next >= bytes)
            return;
        note += next;
        bytes -= next;
    }
}

static int match_module(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct search *search = arg;
    const char *name = info->dlpi_name[0] ? basename(info->dlpi_name) : search->program;
    (void)bytes;
    if (strncmp(name, search->name, ZC_SITE_MODULE - 1) != 0)
        return 0;
    search->found++;
    search->path[0] = 0;
    strncat(search->path, info->dlpi_name, sizeof(search->path) - 1);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_NOTE)
            read_notes(search, (const uint8_t *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr),
                       segment->p_memsz, segment->p_align);
    }
    return 0;
}

/* The loader has an empty name for the executable.  Other names are as they were requested, maybe
 * relative to the folder that was current then. */
static const char *known_path(struct search *search)
{
    if (search->found != 1)
        return NULL;
    if (search->path[0] == 0 && !zc_log_program_path(search->path))
        return NULL;
    return search->path;
}

static void module_write(struct search *search)
{
    char id[2 * BUILD_ID + 1];
    struct zc_text text = zc_text_on(id, sizeof(id));
    struct zc_line *line = &search->line;
    for (unsigned i = 0; search->found == 1 && i < search->id_bytes; i++)
        zc_text_hex(&text, search->id[i], 2);
    if (!zc_log_begin(line, ZC_LOG_SUMMARY, "module"))
        return;
    zc_line_str(line, "module", search->name);
    zc_line_str(line, "build_id", text.len > 0 ? zc_text_cstr(&text) : NULL);
    zc_line_str(line, "path", known_path(search));
    zc_log_write(line);
}

/* Not inlined: a thread's stack may have 16 KiB, of which a path and a line would take half. */
static void write_module(const char *name)
{
    struct search *search = zc_arena_get(sizeof(*search));
    if (search == NULL)
        return;
    search->name = name;
    search->program = zc_log_program();
    dl_iterate_phdr(match_module, search);
    module_write(search);
    zc_arena_put(search, sizeof(*search));
}

void zc_log_modules(const struct zc_site *site)
{
    for (uint32_t i = 0; i < site->nframes && i < ZC_SITE_FRAMES; i++) {
        const char *name = site->frame[i].module;
        if (name[0] != '?' && name[0] != 0 && first_time(name))
            write_module(name);
    }
}
