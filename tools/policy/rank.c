/* SPDX-License-Identifier: MIT */
/* zc-policy rank: which rank of a job the environment tells, as the library takes it for rules. */
#include <inttypes.h>
#include <stdio.h>

#include "base/job.h"
#include "tools/policy/policy_tool.h"

int tool_rank(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fputs("zc: rank takes no argument\n", stderr);
        return TOOL_USAGE;
    }
    zc_job_read();
    if (zc_job()->rank < 0)
        return TOOL_FAULTY;
    printf("%" PRId64 "\n", zc_job()->rank);
    return TOOL_OK;
}
