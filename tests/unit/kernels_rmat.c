/* SPDX-License-Identifier: MIT */
/* The graphs of kernels/: the same on any number of threads, and lists that lie in their array. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long online;
#define sysconf(name) ((void)(name), online)
#include "kernels/rmat.h"

static struct rmat of_size(size_t scale, size_t degree, size_t seed)
{
    struct rmat g = {.scale = scale, .vertices = (size_t)1 << scale, .seed = seed};

    g.edges = g.vertices * degree;
    return g;
}

/* A graph made by so many threads: its offsets and, behind them, its columns. */
static unsigned *made(long threads, struct rmat g)
{
    unsigned *graph = malloc(rmat_offset_bytes(&g) + rmat_column_bytes(&g));

    assert_non_null(graph);
    online = threads;
    rmat_fill(&g, graph, graph + g.vertices + 1);
    return graph;
}

static void a_graph_is_the_same_on_any_number_of_threads(void **state)
{
    const struct rmat g = of_size(15, 16, 1);
    size_t bytes = rmat_offset_bytes(&g) + rmat_column_bytes(&g);
    unsigned *one = made(1, g);

    (void)state;
    for (long threads = 0; threads < 20; threads += 3) {
        unsigned *many = made(threads, g);
        assert_memory_equal(many, one, bytes);
        free(many);
    }
    free(one);
}

static void another_seed_gives_other_neighbours_and_lists_of_the_same_lengths(void **state)
{
    const struct rmat g = of_size(12, 8, 1), h = of_size(12, 8, 2);
    unsigned *a = made(2, g), *b = made(2, h);

    (void)state;
    assert_memory_equal(a, b, rmat_offset_bytes(&g));
    assert_memory_not_equal(a + g.vertices + 1, b + g.vertices + 1, rmat_column_bytes(&g));
    free(a);
    free(b);
}

/* Fails unless the lists follow each other and end with the array. */
static void assert_lists(const struct rmat *g, const unsigned *offsets)
{
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[g->vertices], g->edges);
    for (size_t v = 0; v < g->vertices; v++) {
        if (offsets[v] > offsets[v + 1])
            fail_msg("the list of vertex %zu begins at %u and ends at %u of %zu", v, offsets[v],
                     offsets[v + 1], g->edges);
    }
}

static void lists_follow_each_other_and_name_vertices(void **state)
{
    (void)state;
    for (size_t scale = 1; scale < 17; scale++) {
        const struct rmat g = of_size(scale, 1 + scale % 5, scale);
        unsigned *graph = made(2, g);
        assert_lists(&g, graph);
        for (size_t e = 0; e < g.edges; e++)
            assert_true(graph[g.vertices + 1 + e] < g.vertices);
        free(graph);
    }
}

/* 2.4 thousand million edges, whose shares add up to three more. */
static void lists_of_the_largest_graphs_lie_in_their_array(void **state)
{
    const struct rmat g = of_size(28, 9, 1);
    unsigned *offsets = malloc(rmat_offset_bytes(&g));

    (void)state;
    if (!offsets)
        skip();
    rmat_fill_offsets(&g, offsets);
    assert_lists(&g, offsets);
    free(offsets);
}

/* Half of a graph's edges and more lead to a few of its vertices, as the method means it. */
static void the_quarters_of_the_matrix_have_their_shares(void **state)
{
    const struct rmat g = of_size(14, 16, 1);
    unsigned *graph = made(2, g), *columns = graph + g.vertices + 1;
    size_t quarter[2][2] = {{0}};

    (void)state;
    for (size_t v = 0; v < g.vertices; v++) {
        for (unsigned e = graph[v]; e < graph[v + 1]; e++)
            quarter[v >> 13][columns[e] >> 13]++;
    }
    assert_in_range(quarter[0][0] * 1000 / g.edges, 560, 580);
    assert_in_range(quarter[0][1] * 1000 / g.edges, 180, 200);
    assert_in_range(quarter[1][0] * 1000 / g.edges, 180, 200);
    assert_in_range(quarter[1][1] * 1000 / g.edges, 40, 60);
    free(graph);
}

/* How often each item was worked on. */
static void count_items(void *job, size_t begin, size_t end)
{
    unsigned char *times = job;

    for (size_t i = begin; i < end; i++)
        times[i]++;
}

static void every_item_is_worked_on_once(void **state)
{
    static unsigned char times[3 * PARALLEL_PART + 2];

    (void)state;
    for (size_t count = 0; count < sizeof(times); count += PARALLEL_PART / 2 + 1) {
        for (online = -1; online < 80; online += 27) {
            memset(times, 0, sizeof(times));
            parallel(count, count_items, times);
            for (size_t i = 0; i < sizeof(times); i++)
                assert_int_equal(times[i], i < count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_the_same_on_any_number_of_threads),
        cmocka_unit_test(another_seed_gives_other_neighbours_and_lists_of_the_same_lengths),
        cmocka_unit_test(lists_follow_each_other_and_name_vertices),
        cmocka_unit_test(lists_of_the_largest_graphs_lie_in_their_array),
        cmocka_unit_test(the_quarters_of_the_matrix_have_their_shares),
        cmocka_unit_test(every_item_is_worked_on_once),
    };
    return RUN_TESTS(tests);
}
