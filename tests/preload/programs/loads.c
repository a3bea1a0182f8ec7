/* SPDX-License-Identifier: MIT */
/* loads FLAG... : opens libm with RTLD_DEEPBIND (d) or in a namespace of its own (m), uses CUDA
 * (c), in the order given. */
#include <dlfcn.h>

#include "program.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        switch (argv[i][0]) {
        case 'd':
            EXPECT(dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND));
            break;
        case 'm':
            EXPECT(dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW));
            break;
        case 'c':
            start_gpu(0);
            break;
        default:
            return 2;
        }
    return 0;
}
