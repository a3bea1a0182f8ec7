/* SPDX-License-Identifier: MIT */
/* Prints whether the process runs with AT_SECURE, and where the simulated driver holds a block. */
#include <sys/auxv.h>

#include "program.h"

int main(void)
{
    CUdeviceptr p;
    start_gpu(0);
    CHECK(cuMemAlloc(&p, 4096));
    printf("secure %d device %zu host %zu\n", getauxval(AT_SECURE) != 0, sim_leaks(SIM_LEAK_DEVICE),
           sim_leaks(SIM_LEAK_HOST));
    return 0;
}
