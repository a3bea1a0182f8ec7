/* SPDX-License-Identifier: MIT */
/* HMM, ATS and wrong machines (hmm.h). What is in the GPU's own table, registered ranges and
 * mappings, is never served by either: only what is in no block is looked for here. */
#define _GNU_SOURCE
#include "hmm.h"
#include "maps.h"
#include "memory.h"
#include "pages.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* UVM_INITIALIZE of the kernel's driver (uvm.h): the flag leaves HMM off for the process. */
#define UVM_INITIALIZE 0x30000001
#define UVM_DISABLE_HMM 1
struct uvm_initialize {
    uint64_t flags;
    uint32_t status;
};

static const char *const words[SIM_WRONGS] = {[SIM_PARTED] = "parted",
                                              [SIM_UPGRADE] = "upgrade",
                                              [SIM_SERVED] = "served",
                                              [SIM_FLAG] = "flag",
                                              [SIM_REFUSED] = "refused"};

static bool wrongs[SIM_WRONGS];
static bool hmm, ats, off; /* `off`: there was HMM, and the process left it off */

bool sim_wrong(enum sim_wrong what)
{
    return wrongs[what];
}

static void read_wrongs(const char *list)
{
    for (; list && *list; list += strcspn(list, ","), list += *list == ',')
        for (int i = 0; i < SIM_WRONGS; i++)
            if (strcspn(list, ",") == strlen(words[i]) &&
                !strncmp(list, words[i], strlen(words[i])))
                wrongs[i] = true;
}

/* By libc's ioctl(2), as the driver does it, so that what is preloaded can set the flag. */
static bool left_off(void)
{
    struct uvm_initialize arguments = {0};
    int fd = memfd_create("nvidia-uvm", MFD_CLOEXEC);
    (void)ioctl(fd, UVM_INITIALIZE, &arguments);
    if (fd >= 0)
        close(fd);
    return (arguments.flags & UVM_DISABLE_HMM) != 0 && !wrongs[SIM_FLAG];
}

static bool is_on(const char *name)
{
    const char *text = getenv(name);
    return text && strcmp(text, "0") != 0;
}

void sim_hmm_start(void)
{
    read_wrongs(getenv("SIM_WRONG"));
    ats = is_on("SIM_ATS");
    hmm = !ats && is_on("SIM_HMM");
    off = hmm && left_off();
    hmm = hmm && !off;
}

bool sim_hmm_attribute(int attribute, int *value)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = 1;
        return hmm || ats;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        *value = 0;
        return hmm || ats || (off && wrongs[SIM_REFUSED]);
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return ats;
    default:
        return false;
    }
}

bool sim_reaches_all(int device)
{
    int value = 0;
    return sim_device_attribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device) ==
               CUDA_SUCCESS &&
           value != 0;
}

/* Whether device memory is mapped in the granule of an address. */
static bool granule_is_mapped(CUdeviceptr va)
{
    CUdeviceptr at = va & ~(CUdeviceptr)(SIM_ATS_GRANULE - 1), end = at + SIM_ATS_GRANULE;
    struct sim_block *b;
    while (at < end && (b = sim_block_overlap(at, end - at)) != NULL) {
        if (b->kind != SIM_HOST && b->kind != SIM_REGISTERED && b->kind != SIM_MANAGED)
            return true;
        at = b->va + b->size;
    }
    return false;
}

/* The mapping that holds an address, as far as it goes; false for none. */
static bool mapping_of(const void *p, struct sim_mapping *out)
{
    struct sim_maps maps;
    bool found = false;
    if (!sim_maps_ask(&maps, 0, UINTPTR_MAX))
        return false;
    for (size_t i = 0; i < maps.count && !found; i++)
        if ((uintptr_t)p - maps.items[i].start < maps.items[i].end - maps.items[i].start) {
            *out = maps.items[i];
            found = true;
        }
    sim_maps_free(&maps);
    return found;
}

char *sim_system_view(CUdeviceptr va, int device)
{
    char *p = (char *)(uintptr_t)va;
    struct sim_mapping m;
    if (!sim_reaches_all(device) || (ats && granule_is_mapped(va)))
        return NULL;
    if (wrongs[SIM_UPGRADE] && mapping_of(p, &m) && m.rights == PROT_READ)
        sim_mprotect((void *)m.start, m.end - m.start, PROT_READ | PROT_WRITE);
    return sim_wrong_view(p);
}

/* A private mapping of the same place of the same file. */
char *sim_wrong_view(char *page)
{
    struct sim_mapping here;
    struct sim_maps maps;
    char *found = page;
    if (!wrongs[SIM_PARTED] || !mapping_of(page, &here) || !here.shared || here.file == 0 ||
        !sim_maps_ask(&maps, 0, UINTPTR_MAX))
        return page;
    uint64_t offset = here.offset + ((uintptr_t)page - here.start);
    for (size_t i = 0; i < maps.count; i++) {
        const struct sim_mapping *m = &maps.items[i];
        if (!m->shared && m->rights && sim_maps_same_file(m, &here) &&
            offset - m->offset < m->end - m->start)
            found = (char *)m->start + (offset - m->offset);
    }
    sim_maps_free(&maps);
    return found;
}

char *sim_wrong_mapping(CUdeviceptr va)
{
    struct sim_mapping m;
    char *p = (char *)(uintptr_t)va;
    return wrongs[SIM_SERVED] && mapping_of(p, &m) && m.rights ? p : NULL;
}
