/* SPDX-License-Identifier: MIT */
/* Handles of physical memory: create, share, release. The bytes lie in one sparse file, or in a
 * file of their own where the handle may be shared with other processes. */
#define _GNU_SOURCE
#include "range.h"
#include "vmm.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_SIZE ((uint64_t)1 << 40) /* of the common file, sparse */

static struct sim_handle *handles;
static struct sim_ranges file_free;
static int common_fd = -1;

const CUmemAllocationProp *sim_handle_props(const struct sim_handle *handle)
{
    return &handle->props;
}

size_t sim_handles_count(void)
{
    size_t n = 0;
    for (struct sim_handle *h = handles; h; h = h->hh.next)
        n += h->refs > 0;
    return n;
}

struct sim_handle *sim_handle_of(CUmemGenericAllocationHandle value)
{
    struct sim_handle *h;
    HASH_FIND(hh, handles, &value, sizeof value, h);
    return h && h->refs ? h : NULL;
}

struct sim_handle *sim_handle_by_file(int fd)
{
    struct stat wanted, s;
    if (fstat(fd, &wanted) != 0)
        return NULL;
    for (struct sim_handle *h = handles; h; h = h->hh.next)
        if (h->own_fd && fstat(h->fd, &s) == 0 && s.st_ino == wanted.st_ino &&
            s.st_dev == wanted.st_dev)
            return h;
    return NULL;
}

/* Puts the handle's bytes into a file of its own, or into the common one. */
static bool file_take(struct sim_handle *h)
{
    if (h->props.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        h->fd = memfd_create("simulated-gpu-shared", MFD_CLOEXEC);
        h->own_fd = true;
        return h->fd >= 0 && ftruncate(h->fd, (off_t)h->size) == 0;
    }
    if (common_fd < 0) {
        common_fd = memfd_create("simulated-gpu", MFD_CLOEXEC);
        if (common_fd < 0 || ftruncate(common_fd, (off_t)FILE_SIZE) != 0)
            return false;
        sim_ranges_give(&file_free, 0, FILE_SIZE);
    }
    h->fd = common_fd;
    return sim_ranges_take(&file_free, h->size, SIM_PAGE, &h->offset);
}

/* Fresh memory holds garbage, as that of cuMemAlloc does.  To write it takes half the time of page
 * faults. */
static void file_fill(const struct sim_handle *h)
{
    static char garbage[256 << 10];
    if (!garbage[0])
        memset(garbage, 0xA5, sizeof garbage);
    for (size_t at = 0; at < h->size; at += sizeof garbage)
        if (pwrite(h->fd, garbage, sizeof garbage, (off_t)(h->offset + at)) < 0)
            return;
}

static void file_give(struct sim_handle *h)
{
    if (h->own_fd) {
        close(h->fd);
        return;
    }
    fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)h->offset, (off_t)h->size);
    sim_ranges_give(&file_free, h->offset, h->size);
}

CUresult sim_handle_new(const CUmemAllocationProp *props, size_t size, int fd,
                        struct sim_handle **out)
{
    int device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props->location.id : -1;
    if (device >= 0 && fd < 0 && !sim_device_take(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_handle *h = calloc(1, sizeof *h);
    *h = (struct sim_handle){.props = *props, .size = size, .device = device, .refs = 1};
    h->value = (CUmemGenericAllocationHandle)(uintptr_t)h;
    h->fd = fd;
    h->own_fd = fd >= 0;
    if (fd < 0 && !file_take(h)) {
        if (device >= 0)
            sim_device_give(device, size);
        free(h);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (fd < 0)
        file_fill(h);
    HASH_ADD(hh, handles, value, sizeof h->value, h);
    *out = h;
    return CUDA_SUCCESS;
}

void sim_handle_settle(struct sim_handle *handle)
{
    if (handle->refs || handle->mappings)
        return;
    HASH_DEL(handles, handle);
    if (handle->device >= 0)
        sim_device_give(handle->device, handle->size);
    file_give(handle);
    free(handle);
}

CUresult sim_mapping_protect(struct sim_block *b, int user, unsigned char access)
{
    static const int rights[] = {PROT_NONE, PROT_READ, PROT_NONE, PROT_READ | PROT_WRITE};
    const struct sim_handle *h = b->handle;
    if (b->access[user] == access)
        return CUDA_SUCCESS;
    void *at = user == SIM_CPU ? (void *)(uintptr_t)b->va : (void *)sim_alias(b->va, user);
    void *p;
    if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        p = mmap(at, b->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                 -1, 0);
    else
        p = mmap(at, b->size, rights[access], MAP_SHARED | MAP_FIXED, h->fd, (off_t)h->offset);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->access[user] = access;
    return CUDA_SUCCESS;
}
