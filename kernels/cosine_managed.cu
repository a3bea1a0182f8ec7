/* SPDX-License-Identifier: MIT */
/*
 * cosine_managed [targets [queries [dimensions [batches [how]]]]]: cosine with its arrays in
 * managed memory.  `how` says what CUDA is told of the targets: nothing, prefetch, or one of the
 * kinds of advice read_mostly, preferred (location: the GPU) and accessed_by (the GPU).
 */
#include "cosine.h"
#include "managed.cuh"

/* The kinds of advice by name. */
static const struct advice {
    const char *name;
    enum cudaMemoryAdvise value;
} kinds[] = {
    {"read_mostly", cudaMemAdviseSetReadMostly},
    {"preferred", cudaMemAdviseSetPreferredLocation},
    {"accessed_by", cudaMemAdviseSetAccessedBy},
};

static const struct advice *advice_of(const char *how)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(how, kinds[i].name) == 0)
            return &kinds[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct report report = {};

    at_most_arguments(argc, argv, 5, "[targets [queries [dimensions [batches [how]]]]]");
    struct cosine_sizes s = cosine_arguments(argc, argv, &report);
    const char *how = argc > 5 ? argv[5] : "nothing";
    const struct advice *advice = advice_of(how);
    int prefetch = strcmp(how, "prefetch") == 0;
    if (advice == NULL && !prefetch && strcmp(how, "nothing") != 0) {
        fprintf(stderr,
                "%s: how is nothing, prefetch, read_mostly, preferred or accessed_by, "
                "not '%s'\n",
                argv[0], how);
        return EXIT_USAGE;
    }
    CHECK(cudaFree(0)); /* starts CUDA outside of the timed phases */

    phase_begin(&report);
    float *targets = (float *)managed_alloc(s.target_bytes);
    float *queries = (float *)managed_alloc(s.query_bytes);
    unsigned long long *best = (unsigned long long *)managed_alloc(s.best_bytes);
    if (advice != NULL)
        CHECK(cudaMemAdvise(targets, s.target_bytes, advice->value, location_of(SIDE_GPU)));
    phase_end(&report, "alloc");

    fill_vectors(targets, s.targets * s.dimensions, 1);
    fill_vectors(queries, s.queries * s.dimensions, 2);
    phase_end(&report, "fill");

    if (prefetch) {
        prefetch_to(SIDE_GPU, targets, s.target_bytes);
        CHECK(cudaDeviceSynchronize());
    }
    phase_end(&report, "copy");

    cosine_ask(&s, queries, targets, best);
    phase_end(&report, "kernel");

    int verified = cosine_verify(&s, queries, targets, best);
    uint64_t checksum = fnv1a(FNV_START, best, s.best_bytes);

    phase_begin(&report);
    CHECK(cudaFree(targets));
    CHECK(cudaFree(queries));
    CHECK(cudaFree(best));
    phase_end(&report, "free");
    return report_print(&report, "cosine_managed", checksum, verified);
}
