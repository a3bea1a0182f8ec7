/* SPDX-License-Identifier: MIT */
/*
 * Finds objects that come before libzc in the loader's search order. dlsym(3) can't tell: in a
 * program that is not position-independent it finds the program's own entry for malloc, which jumps
 * to the next definition (ELF gABI, "Symbol Table": an undefined symbol with a value).  So this
 * reads the symbol tables of the few objects before libzc.
 */
#include "hook/front.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

/* The parts of an object's dynamic section that a symbol look-up needs. */
struct table {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu;     /* DT_GNU_HASH, or NULL. */
    const ElfW(Word) * sysv; /* DT_HASH, or NULL. */
};

/* The loader replaces the section's offsets by addresses if it can write there. */
static const void *pointer(const struct link_map *map, const ElfW(Dyn) * entry)
{
    uintptr_t at = (uintptr_t)entry->d_un.d_ptr;
    return (const void *)(at < (uintptr_t)map->l_addr ? at + (uintptr_t)map->l_addr : at);
}

static struct table read_table(const struct link_map *map)
{
    struct table t = {NULL, NULL, NULL, NULL};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            t.symbols = pointer(map, d);
        else if (d->d_tag == DT_STRTAB)
            t.names = pointer(map, d);
        else if (d->d_tag == DT_GNU_HASH)
            t.gnu = pointer(map, d);
        else if (d->d_tag == DT_HASH)
            t.sysv = pointer(map, d);
    }
    return t;
}

static bool is_definition(const struct table *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *s = &t->symbols[index];
    return s->st_shndx != SHN_UNDEF && strcmp(t->names + s->st_name, name) == 0;
}

/* The layout of DT_GNU_HASH: number of buckets, index of the first symbol, words of the bloom
 * filter, its shift; the filter; the buckets; a hash for each symbol, odd at the end of a chain. */
static bool gnu_defines(const struct table *t, const char *name)
{
    const uint32_t *g = t->gnu, *buckets, *chain;
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    buckets = g + 4 + g[2] * (sizeof(ElfW(Addr)) / sizeof(*g));
    chain = buckets + g[0];
    uint32_t i = g[0] ? buckets[hash % g[0]] : 0;
    if (i < g[1])
        return false;
    for (;; i++) {
        uint32_t link = chain[i - g[1]];
        if ((link | 1) == (hash | 1) && is_definition(t, i, name))
            return true;
        if (link & 1)
            return false;
    }
}

static bool defines(const struct table *t, const char *name)
{
    if (!t->symbols || !t->names)
        return false;
    if (t->gnu)
        return gnu_defines(t, name);
    for (uint32_t i = 1; t->sysv && i < t->sysv[1]; i++)
        if (is_definition(t, i, name))
            return true;
    return false;
}

bool zc_front_is_taken(void)
{
    static const char *const names[] = {"malloc", "realloc", "reallocarray", "free",
                                        "malloc_usable_size"};
    static const char here;
    struct link_map *map = NULL;
    Dl_info info;
    if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return true;
    /* The loader lists objects in its search order. */
    while ((map = map->l_prev)) {
        struct table t = read_table(map);
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (defines(&t, names[i]))
                return true;
    }
    return false;
}
