/* SPDX-License-Identifier: MIT */
/* The kernel of gather.c as the simulated GPU of the demo runs it. */
#include "tests/sim/sim.h"

#include <stdint.h>
#include <string.h>

static int gather(void *const *args, const struct sim_launch *launch)
{
    CUdeviceptr table, picks, out;
    unsigned words;

    memcpy(&table, args[0], sizeof table);
    memcpy(&picks, args[1], sizeof picks);
    memcpy(&out, args[2], sizeof out);
    memcpy(&words, args[3], sizeof words);
    const char *from = sim_gpu_pointer(table);
    const uint32_t *rows = sim_gpu_pointer(picks);
    char *to = sim_gpu_pointer_write(out);
    if (from == NULL || rows == NULL || to == NULL)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    size_t row = (size_t)words * sizeof(uint32_t);
    for (unsigned b = 0; b < launch->gridDim[0]; b++)
        memcpy(to + b * row, from + rows[b] * row, row);
    return CUDA_SUCCESS;
}

__attribute__((constructor)) static void make_known(void)
{
    static const size_t sizes[] = {sizeof(CUdeviceptr), sizeof(CUdeviceptr), sizeof(CUdeviceptr),
                                   sizeof(unsigned)};

    sim_kernel_register("gather", gather, 4, sizes);
}
