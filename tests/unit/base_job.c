/* SPDX-License-Identifier: MIT */
/* The job and the rank of a process, as launchers tell them by the environment. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/job.h"

static int clean_environment(void **state)
{
    (void)state;
    clearenv();
    zc_job_read();
    return 0;
}

/* Sets NAME=VALUE words. */
static const struct zc_job *under(const char *variables)
{
    static char words[1024];
    strcpy(words, variables);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    zc_job_read();
    return zc_job();
}

static void assert_job(const struct zc_job *j, const char *launcher, int rank, int local, int world,
                       const char *id)
{
    assert_string_equal(j->launcher, launcher);
    assert_int_equal(j->rank, rank);
    assert_int_equal(j->local_rank, local);
    assert_int_equal(j->world, world);
    assert_string_equal(j->id, id);
}

static void outside_a_job_nothing_is_known(void **state)
{
    const struct zc_job *j = zc_job();
    (void)state;
    assert_null(j->launcher);
    assert_true(j->rank == -1 && j->local_rank == -1 && j->world == -1 && j->local_world == -1);
    assert_string_equal(j->id, "");
    /* A program may use such names for something else. */
    assert_null(under("RANK=5 LOCAL_RANK=1 WORLD_SIZE=8")->launcher);
}

static void every_launcher_is_read_by_its_own_variables(void **state)
{
    static const struct {
        const char *variables, *launcher;
        int rank, local, world;
        const char *id;
    } cases[] = {
        {"SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=77", "slurm", 3, 1, 8,
         "77"},
        {"PALS_RANKID=2 PALS_LOCAL_RANKID=2 PALS_APID=4f-1", "pals", 2, 2, -1, "4f-1"},
        {"FLUX_TASK_RANK=1 FLUX_TASK_LOCAL_ID=0 FLUX_JOB_SIZE=4 FLUX_JOB_ID=9", "flux", 1, 0, 4,
         "9"},
        {"PMI_RANK=6 MPI_LOCALRANKID=2 PMI_SIZE=8", "mpich", 6, 2, 8, ""},
        {"PMIX_RANK=4 PMIX_NAMESPACE=prterun-node1-12@1", "pmix", 4, -1, -1, "prterun-node1-12_1"},
        {"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_SIZE=2", "mvapich", 1, 1,
         2, ""},
        {"OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=16", "openmpi",
         9, 1, 16, ""},
        {"MASTER_ADDR=n1 RANK=1 LOCAL_RANK=1 WORLD_SIZE=2", "torch.distributed", 1, 1, 2, ""},
        {"RAY_JOB_ID=01000000 RANK=1 LOCAL_RANK=0 WORLD_SIZE=2", "ray", 1, 0, 2, "01000000"},
        {"PMI_RANK=0 MPI_LOCALRANKID=0 PMI_SIZE=1", "mpich", 0, 0, 1, ""},
        {"PMIX_RANK=2147483647", "pmix", 2147483647, -1, -1, ""},
        {"TORCHELASTIC_RUN_ID=none RANK=3 LOCAL_RANK=3 WORLD_SIZE=4", "torchrun", 3, 3, 4, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        clearenv();
        assert_job(under(cases[i].variables), cases[i].launcher, cases[i].rank, cases[i].local,
                   cases[i].world, cases[i].id);
    }
}

static void the_innermost_launcher_counts_and_the_batch_system_names_the_job(void **state)
{
    (void)state;
    under("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_JOB_ID=77 PMIX_RANK=0 PMI_RANK=0");
    assert_job(under("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=1"), "openmpi", 3, 1, -1,
               "77");
    assert_job(under("TORCHELASTIC_RUN_ID=mine MASTER_ADDR=n1 RANK=5 LOCAL_RANK=2 WORLD_SIZE=8"),
               "torchrun", 5, 2, 8, "77");
}

/* Limits of a host are divided by it. */
static void launchers_tell_how_many_processes_of_the_job_are_on_the_host(void **state)
{
    static const struct {
        const char *variables;
        int local_world;
    } cases[] = {
        {"TORCHELASTIC_RUN_ID=x RANK=3 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", 4},
        {"RAY_JOB_ID=1 RANK=3 LOCAL_WORLD_SIZE=2", 2},
        {"MASTER_ADDR=n1 RANK=3 LOCAL_WORLD_SIZE=3", 3},
        {"OMPI_COMM_WORLD_RANK=9 OMPI_COMM_WORLD_LOCAL_SIZE=16", 16},
        {"MV2_COMM_WORLD_RANK=9 MV2_COMM_WORLD_LOCAL_SIZE=5", 5},
        {"PMI_RANK=6 MPI_LOCALNRANKS=7", 7},
        /* Without the variable it is unknown; 0 has no meaning. */
        {"PMI_RANK=6", -1},
        {"PMI_RANK=6 MPI_LOCALNRANKS=0", -1},
        {"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4", -1},
        {"LOCAL_WORLD_SIZE=4", -1},
        /* Slurm tells it of each host. */
        {"SLURM_PROCID=3 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4(x2),3", 4},
        {"SLURM_PROCID=5 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x2),3", 4},
        {"SLURM_PROCID=9 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),3", 3},
        {"SLURM_PROCID=9 SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE=4(x2),3,12", 12},
        {"SLURM_PROCID=9 SLURM_NODEID=3 SLURM_STEP_TASKS_PER_NODE=4(x2),3", -1},
        {"SLURM_PROCID=9 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4,", -1},
        {"SLURM_PROCID=9 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=x", -1},
        {"SLURM_PROCID=9 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x", -1},
        {"SLURM_PROCID=9 SLURM_STEP_TASKS_PER_NODE=4", -1},
        /* srun --mpi=pmix sets PMIX_RANK, too.  Where the ranks differ, Slurm has started a daemon,
         * and that the process. */
        {"PMIX_RANK=2 SLURM_PROCID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=6", 6},
        {"PMIX_RANK=2 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=1", -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        clearenv();
        int told = (int)under(cases[i].variables)->local_world;
        if (told != cases[i].local_world)
            fail_msg("%s: %d", cases[i].variables, told);
    }
}

/* Ranks and ids become parts of file names. */
static void what_is_no_rank_is_not_used_and_no_id_leaves_its_folder(void **state)
{
    static const char *const values[] = {"", "../etc", "1x", "-1", "12345678901"};
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        setenv("OMPI_COMM_WORLD_RANK", values[i], 1);
        zc_job_read();
        assert_null(zc_job()->launcher);
        assert_int_equal(zc_job()->rank, -1);
    }
    assert_string_equal(under("SLURM_JOB_ID=../../etc/%p")->id, "_._.._etc__p");
    char longer[2 * ZC_JOB_ID];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    setenv("SLURM_JOB_ID", longer, 1);
    zc_job_read();
    assert_int_equal(strlen(zc_job()->id), ZC_JOB_ID - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(outside_a_job_nothing_is_known, clean_environment),
        cmocka_unit_test_setup(every_launcher_is_read_by_its_own_variables, clean_environment),
        cmocka_unit_test_setup(the_innermost_launcher_counts_and_the_batch_system_names_the_job,
                               clean_environment),
        cmocka_unit_test_setup(launchers_tell_how_many_processes_of_the_job_are_on_the_host,
                               clean_environment),
        cmocka_unit_test_setup(what_is_no_rank_is_not_used_and_no_id_leaves_its_folder,
                               clean_environment),
    };

    return RUN_TESTS(tests);
}
