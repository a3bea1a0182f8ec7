/* SPDX-License-Identifier: MIT */
/* Finds the loaded object that contains an address. */
#include "ledger/object.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base/errno.h"

struct search {
    uint64_t address;      /* Address to look for. */
    struct zc_object *out; /* Receives the object. */
};

static int match_object(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct search *search = arg;
    struct zc_object object = {
        .start = UINT64_MAX, .load = info->dlpi_addr, .name = info->dlpi_name};
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type == PT_GNU_EH_FRAME)
            object.hdr = (const uint8_t *)(uintptr_t)start;
        if (segment->p_type != PT_LOAD)
            continue;
        if (start < object.start)
            object.start = start;
        if (start + segment->p_memsz > object.end)
            object.end = start + segment->p_memsz;
    }
    if (search->address < object.start || search->address >= object.end)
        return 0;
    *search->out = object;
    return 1;
}

bool zc_object_walk(uint64_t address, struct zc_object *out)
{
    struct search search = {address, out};
    ZC_KEEPS_ERRNO;
    return dl_iterate_phdr(match_object, &search) == 1;
}

#if __GLIBC_PREREQ(2, 35)
/* Looked up, not linked, so that a library that was built here also loads where glibc is older. */
static int (*find)(void *address, struct dl_find_object *out);
#endif

void zc_object_init(void)
{
#if __GLIBC_PREREQ(2, 35)
    void *sym = dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35");
    __atomic_store_n(&find, (int (*)(void *, struct dl_find_object *))sym, __ATOMIC_RELEASE);
#endif
}

bool zc_object_find(uint64_t address, struct zc_object *out)
{
#if __GLIBC_PREREQ(2, 35)
    int (*by)(void *, struct dl_find_object *) = __atomic_load_n(&find, __ATOMIC_ACQUIRE);
    struct dl_find_object found;
    if (by && by((void *)(uintptr_t)address, &found) != 0)
        return false;
    if (by) {
        out->start = (uint64_t)(uintptr_t)found.dlfo_map_start;
        out->end = (uint64_t)(uintptr_t)found.dlfo_map_end;
        out->load = found.dlfo_link_map->l_addr;
        out->name = found.dlfo_link_map->l_name;
        out->hdr = found.dlfo_eh_frame;
        return true;
    }
#endif
    return zc_object_walk(address, out);
}

bool zc_object_is_driver(const struct zc_object *object)
{
    const char *slash = object->name ? strrchr(object->name, '/') : NULL;
    return slash && strncmp(slash + 1, "libcuda.so", 10) == 0;
}
