/* SPDX-License-Identifier: MIT */
/* Which process of which job this one is. */
#include "base/job.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 10

/*
 * Launchers may be nested: a batch job starts mpirun, which starts a program that starts others.
 * Each leaves its variables to all that follow, so the one that comes last counts: this is the
 * order from the innermost to the outermost.  Frameworks share RANK, LOCAL_RANK and WORLD_SIZE; a
 * variable of the framework's own tells which of them has set these.
 */
static const struct launcher {
    const char *name, *sign, *rank, *local_rank, *world, *local_world;
} launchers[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"ray", "RAY_JOB_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"torch.distributed", "MASTER_ADDR", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"openmpi", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mvapich", NULL, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"pmix", NULL, "PMIX_RANK", NULL, NULL, NULL},
    {"mpich", NULL, "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"flux", NULL, "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", NULL},
    {"pals", NULL, "PALS_RANKID", "PALS_LOCAL_RANKID", NULL, NULL},
    {"slurm", NULL, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", NULL},
};

/* The id that users know is the batch system's, where there is one. */
static const char *const job_ids[] = {"SLURM_JOB_ID",        "PBS_JOBID",     "LSB_JOBID",
                                      "FLUX_JOB_ID",         "PALS_APID",     "RAY_JOB_ID",
                                      "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"};

#define JOB_UNKNOWN                                                                                \
    {                                                                                              \
        .rank = -1, .local_rank = -1, .world = -1, .local_world = -1                               \
    }
static struct zc_job job = JOB_UNKNOWN;

static int64_t number_of(const char *variable)
{
    const char *value = variable ? secure_getenv(variable) : NULL;
    size_t n = value ? strspn(value, "0123456789") : 0;
    return n > 0 && n <= DIGITS && value[n] == '\0' ? strtoll(value, NULL, 10) : -1;
}

/* The number of tasks on this host: SLURM_STEP_TASKS_PER_NODE has that of each host of the step, as
 * in "4(x2),3".  Only for a process that Slurm itself started as this rank: one that mpirun started
 * has the variables of the daemon that did it. */
static int64_t tasks_by_slurm(void)
{
    const char *list = secure_getenv("SLURM_STEP_TASKS_PER_NODE");
    int64_t host = number_of("SLURM_NODEID");
    if (!list || host < 0 || number_of("SLURM_PROCID") != job.rank)
        return -1;
    for (char *end; isdigit((unsigned char)*list); list = end + 1) {
        int64_t tasks = strtoll(list, &end, 10), hosts = 1;
        if (strncmp(end, "(x", 2) == 0) {
            hosts = strtoll(end + 2, &end, 10);
            end += *end == ')';
        }
        if (host < hosts)
            return tasks;
        host -= hosts;
        if (*end != ',')
            break;
    }
    return -1;
}

static void read_rank(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];
        if ((l->sign && !secure_getenv(l->sign)) || number_of(l->rank) < 0)
            continue;
        job.launcher = l->name;
        job.rank = number_of(l->rank);
        job.local_rank = number_of(l->local_rank);
        job.world = number_of(l->world);
        job.local_world = number_of(l->local_world);
        if (job.local_world < 0)
            job.local_world = tasks_by_slurm();
        if (job.local_world == 0)
            job.local_world = -1;
        return;
    }
}

/* torchrun calls a job "none" that nobody named. */
static void read_id(void)
{
    const char *value = NULL;
    for (size_t i = 0; i < sizeof(job_ids) / sizeof(job_ids[0]) && !value; i++) {
        value = secure_getenv(job_ids[i]);
        if (value && (!*value || strcmp(value, "none") == 0))
            value = NULL;
    }
    for (size_t i = 0; value && value[i] && i < ZC_JOB_ID - 1; i++) {
        unsigned char c = (unsigned char)value[i];
        job.id[i] = isalnum(c) || c == '-' || (c == '.' && i > 0) ? (char)c : '_';
    }
}

void zc_job_read(void)
{
    job = (struct zc_job)JOB_UNKNOWN;
    read_rank();
    read_id();
}

const struct zc_job *zc_job(void)
{
    return &job;
}
