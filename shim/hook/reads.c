/* SPDX-License-Identifier: MIT */
/* Memory of the program that the driver reads by itself: structures that lead to more memory.  Bad
 * pointers are left to the driver. */
#include "hook/reads.h"

#include <string.h>

#include "fault/fault.h"

/* Most bytes of a kernel's arguments together (CUDA C++ Programming Guide, "Kernel parameters":
 * 32,764 since 12.1), and the size assumed for one of unknown size. */
#define PARAMS_MOST 8191u
#define ARGUMENT_MOST 4096u

#define TEXT_STEP 256u /* Bytes of a text that are searched at a time. */

/* Sections of a cubin. */
#define SECTIONS_MOST 65535u

static bool peek(void *to, const void *from, size_t n)
{
    return from && zc_fault_peek(to, from, n);
}

/* Reads to the end of each memory page, so that no page behind the text is touched. */
void zc_reads_text(const char *text)
{
    char bytes[TEXT_STEP];
    size_t n = 0, step;
    bool ended = !text || !zc_hostheap_owns((uintptr_t)text);
    while (!ended) {
        step = TEXT_STEP - (uintptr_t)(text + n) % TEXT_STEP;
        zc_shared_lend(text + n, 1);
        ended = !peek(bytes, text + n, step) || memchr(bytes, 0, step);
        n += step;
    }
}

/* The size of an argument; false after the last one. */
static bool argument(CUfunction f, size_t i, size_t *n_out)
{
#if CUDA_VERSION >= 12040
    size_t offset;
    return (zc_real.cuFuncGetParamInfo &&
            zc_real.cuFuncGetParamInfo(f, i, &offset, n_out) == CUDA_SUCCESS) ||
           (zc_real.cuKernelGetParamInfo &&
            zc_real.cuKernelGetParamInfo((CUkernel)f, i, &offset, n_out) == CUDA_SUCCESS);
#else
    (void)f, (void)i, (void)n_out;
    return false;
#endif
}

/* Drivers before 12.4 do not say how many arguments there are: consecutive ones in the host heap
 * count. */
static void guess_arguments(void *const *params)
{
    void *value;
    for (size_t i = 0; i < PARAMS_MOST && peek(&value, &params[i], sizeof(value)); i++) {
        if (!zc_hostheap_owns((uintptr_t)value))
            return;
        zc_reads_one(&params[i]);
        zc_shared_lend(value, ARGUMENT_MOST);
    }
}

static void read_arguments(CUfunction f, void *const *params)
{
    void *value;
    size_t i = 0, n;
    for (; argument(f, i, &n); i++) {
        zc_reads_one(&params[i]);
        if (peek(&value, &params[i], sizeof(value)))
            zc_shared_lend(value, n);
    }
    if (!i)
        guess_arguments(params);
}

static void read_extra(void *const *extra)
{
    void *pair[2], *buffer = NULL;
    size_t n = 0;
    for (;; extra += 2) {
        zc_reads_one(extra);
        if (!peek(pair, extra, sizeof(pair[0])) || pair[0] == CU_LAUNCH_PARAM_END)
            break;
        zc_reads_array(extra, 2);
        if (!peek(pair, extra, sizeof(pair)))
            break;
        if (pair[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = pair[1];
        } else if (pair[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            zc_shared_lend(pair[1], sizeof(n));
            peek(&n, pair[1], sizeof(n));
        } else {
            break;
        }
    }
    zc_shared_lend(buffer, n);
}

void zc_reads_kernel(CUfunction f, void *const *params, void *const *extra)
{
    if (params)
        read_arguments(f, params);
    if (extra)
        read_extra(extra);
}

void zc_reads_config(const CUlaunchConfig *config)
{
    CUlaunchConfig copy;
    zc_reads_one(config);
    if (peek(&copy, config, sizeof(copy)))
        zc_reads_array(copy.attrs, copy.numAttrs);
}

void zc_reads_launches(const CUDA_LAUNCH_PARAMS *list, unsigned count)
{
    CUDA_LAUNCH_PARAMS one;
    zc_reads_array(list, count);
    for (unsigned i = 0; i < count && peek(&one, &list[i], sizeof(one)); i++)
        zc_reads_kernel(one.function, one.kernelParams, NULL);
}

/* The end of the last section of a cubin (ELF-64 Object File Format). */
static size_t cubin_size(const char *image)
{
    struct {
        unsigned char ident[16];
        uint16_t type, machine;
        uint32_t version;
        uint64_t entry, segments, sections;
        uint32_t flags;
        uint16_t size, segment_size, segment_count, section_size, section_count, names;
    } head;
    struct {
        uint32_t name, type;
        uint64_t flags, address, offset, size;
    } section;
    if (!peek(&head, image, sizeof(head)))
        return 0;
    uint64_t end = zc_sum(head.sections, zc_product(head.section_count, head.section_size));
    uint64_t segments = zc_sum(head.segments, zc_product(head.segment_count, head.segment_size));
    end = segments > end ? segments : end;
    zc_shared_lend(image, end);
    for (unsigned i = 0; i < head.section_count; i++) {
        const char *at = image + head.sections + (size_t)i * head.section_size;
        if (!peek(&section, at, sizeof(section)))
            break;
        uint64_t last = section.type == 8 ? 0 : zc_sum(section.offset, section.size);
        end = last > end ? last : end;
    }
    return end;
}

/* Each form begins with its own magic number (fatbinary.h, fatBinaryCtl.h of the CUDA toolkit). */
void zc_reads_image(const void *image)
{
    struct {
        uint32_t magic, version;
        const void *data;
    } wrapper;
    struct {
        uint32_t magic;
        uint16_t version, head;
        uint64_t size;
    } fat;
    zc_shared_lend(image, sizeof(wrapper) + sizeof(void *));
    if (peek(&wrapper, image, sizeof(wrapper)) && wrapper.magic == 0x466243b1)
        image = wrapper.data;
    uint32_t magic;
    zc_shared_lend(image, sizeof(magic));
    if (!peek(&magic, image, sizeof(magic)))
        return;
    if (magic == 0xba55ed50) {
        if (peek(&fat, image, sizeof(fat)))
            zc_shared_lend(image, zc_sum(fat.head, fat.size));
    } else if (!memcmp(&magic, "\177ELF", sizeof(magic))) {
        zc_shared_lend(image, cubin_size(image));
    } else {
        zc_reads_text(image);
    }
}

void zc_reads_jit(unsigned count, const CUjit_option *options, void *const *values)
{
    CUjit_option option;
    void *value, *info = NULL, *error = NULL;
    size_t info_size = 0, error_size = 0;
    zc_reads_array(options, count);
    zc_reads_array(values, count);
    for (unsigned i = 0; i < count && peek(&option, &options[i], sizeof(option)) &&
                         peek(&value, &values[i], sizeof(value));
         i++)
        switch (option) {
        case CU_JIT_INFO_LOG_BUFFER:
            info = value;
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            info_size = (unsigned)(uintptr_t)value;
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            error = value;
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            error_size = (unsigned)(uintptr_t)value;
            break;
        default:
            break;
        }
    zc_shared_lend(info, info_size);
    zc_shared_lend(error, error_size);
}

void zc_reads_kernel_node(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 copy;
    zc_reads_one(params);
    if (peek(&copy, params, sizeof(copy)))
        zc_reads_kernel(copy.func ? copy.func : (CUfunction)copy.kern, copy.kernelParams,
                        copy.extra);
}

void zc_reads_kernel_node_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v1 copy;
    zc_reads_one(params);
    if (peek(&copy, params, sizeof(copy)))
        zc_reads_kernel(copy.func, copy.kernelParams, copy.extra);
}

#if CUDA_VERSION >= 12030
void zc_reads_node(const CUgraphNodeParams *params)
{
    CUgraphNodeParams copy;
    zc_reads_one(params);
    if (!peek(&copy, params, sizeof(copy)))
        return;
    if (copy.type == CU_GRAPH_NODE_TYPE_KERNEL)
        zc_reads_kernel(copy.kernel.func ? copy.kernel.func : (CUfunction)copy.kernel.kern,
                        copy.kernel.kernelParams, copy.kernel.extra);
    else if (copy.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        zc_reads_array(copy.memOp.paramArray, copy.memOp.count);
}
#endif
