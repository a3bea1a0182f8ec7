/* SPDX-License-Identifier: MIT */
/*
 * gather [rows [row_bytes [percent [seed]]]], as kernels/gather.cu, for `zc demo`: by the driver
 * API, with a kernel that the driver translates, so that it takes neither nvcc nor CUDA's runtime.
 */
#include <cuda.h>

#include "kernels/gather.h"

#define THREADS 128u
#define CHECK(call) check_cuda((call), #call)

/* Block b copies row picks[b] of the table to row b of out; each thread every 128th word. */
static const char kernel[] = ".version 6.0\n"
                             ".target sm_50\n"
                             ".address_size 64\n"
                             ".visible .entry gather(.param .u64 table, .param .u64 picks,\n"
                             "                       .param .u64 out, .param .u32 words)\n"
                             "{\n"
                             ".reg .pred %p;\n"
                             ".reg .b32 %block, %row, %word, %words, %value;\n"
                             ".reg .b64 %from, %to, %at, %step;\n"
                             "ld.param.u32 %words, [words];\n"
                             "mov.u32 %block, %ctaid.x;\n"
                             "mov.u32 %word, %tid.x;\n"
                             "ld.param.u64 %at, [picks];\n"
                             "mul.wide.u32 %step, %block, 4;\n"
                             "add.s64 %at, %at, %step;\n"
                             "ld.global.u32 %row, [%at];\n"
                             "ld.param.u64 %from, [table];\n"
                             "mul.wide.u32 %step, %row, %words;\n"
                             "shl.b64 %step, %step, 2;\n"
                             "add.s64 %from, %from, %step;\n"
                             "ld.param.u64 %to, [out];\n"
                             "mul.wide.u32 %step, %block, %words;\n"
                             "shl.b64 %step, %step, 2;\n"
                             "add.s64 %to, %to, %step;\n"
                             "next:\n"
                             "setp.ge.u32 %p, %word, %words;\n"
                             "@%p bra done;\n"
                             "mul.wide.u32 %step, %word, 4;\n"
                             "add.s64 %at, %from, %step;\n"
                             "ld.global.u32 %value, [%at];\n"
                             "add.s64 %at, %to, %step;\n"
                             "st.global.u32 [%at], %value;\n"
                             "add.u32 %word, %word, 128;\n"
                             "bra next;\n"
                             "done:\n"
                             "ret;\n"
                             "}\n";

static void check_cuda(CUresult error, const char *call)
{
    const char *name = NULL;

    if (error == CUDA_SUCCESS)
        return;
    cuGetErrorName(error, &name);
    fprintf(stderr, "%s: %s (%d)\n", call, name != NULL ? name : "unknown error", (int)error);
    exit(EXIT_CUDA);
}

static CUfunction start(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, kernel));
    CHECK(cuModuleGetFunction(&function, module, "gather"));
    return function;
}

static void launch(CUfunction function, CUdeviceptr table, CUdeviceptr picks, CUdeviceptr out,
                   const struct gather_sizes *s)
{
    unsigned words = (unsigned)s->words;
    void *arguments[] = {&table, &picks, &out, &words};

    CHECK(cuLaunchKernel(function, (unsigned)s->count, 1, 1, THREADS, 1, 1, 0, NULL, arguments,
                         NULL));
    CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    struct report report = {.length = 0};
    struct gather_sizes s = gather_arguments(argc, argv, &report);
    CUdeviceptr device_table, device_picks, device_out;
    CUfunction function = start();
    unsigned *table = host_alloc(s.table_bytes);
    unsigned *picks = host_alloc(s.count * sizeof *picks);
    unsigned *out = host_alloc(s.out_bytes);

    CHECK(cuMemAlloc(&device_table, s.table_bytes));
    CHECK(cuMemAlloc(&device_picks, s.count * sizeof *picks));
    CHECK(cuMemAlloc(&device_out, s.out_bytes));
    fill_table(table, &s);
    pick_rows(picks, &s);

    phase_begin(&report);
    CHECK(cuMemcpyHtoD(device_table, table, s.table_bytes));
    CHECK(cuMemcpyHtoD(device_picks, picks, s.count * sizeof *picks));
    phase_end(&report, "copy");
    launch(function, device_table, device_picks, device_out, &s);
    phase_end(&report, "kernel");
    CHECK(cuMemcpyDtoH(out, device_out, s.out_bytes));
    phase_end(&report, "result");

    int verified = verify_rows(out, picks, &s);
    uint64_t checksum = fnv1a(FNV_START, out, s.out_bytes);
    CHECK(cuMemFree(device_table));
    CHECK(cuMemFree(device_picks));
    CHECK(cuMemFree(device_out));
    free(table);
    free(picks);
    free(out);
    return report_print(&report, "gather", checksum, verified);
}
