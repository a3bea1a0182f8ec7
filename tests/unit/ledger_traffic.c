/* SPDX-License-Identifier: MIT */
/* Traffic: each transfer is counted once in the totals and once for each of its blocks. */
#include "ledger_test.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "arena_mapped.h"

#define THREADS 40 /* More than there are slots. */
#define RECORDS 20000

static const unsigned flow_up =
    (ZC_DIR_HTOD * ZC_KIND_COUNT + ZC_KIND_PAGEABLE) * ZC_KIND_COUNT + ZC_KIND_DEVICE;
static struct zc_totals totals;

static struct zc_transfer upload(struct zc_block *dst, uint64_t bytes)
{
    return (struct zc_transfer){.asked = flow_up,
                                .real = zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE),
                                .outcome = ZC_MOVED,
                                .bytes = bytes,
                                .copies = 1,
                                .ticks = 5,
                                .dst = dst};
}

static void record(struct zc_block *dst, struct zc_block *src, enum zc_dir dir,
                   enum zc_outcome outcome, uint64_t bytes)
{
    struct zc_transfer t = {.asked = zc_flow(dir, ZC_KIND_DEVICE, ZC_KIND_DEVICE),
                            .real = zc_flow(dir, ZC_KIND_DEVICE, ZC_KIND_DEVICE),
                            .outcome = outcome,
                            .bytes = bytes,
                            .copies = 1,
                            .dst = dst,
                            .src = src};

    zc_traffic_record(&t);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(zc_kind_name(ZC_KIND_MANAGED), "Managed");
    assert_string_equal(zc_dir_name(ZC_DIR_HTOD), "HtoD");
    assert_string_equal(zc_dir_name(ZC_DIR_PREFETCH), "Prefetch");
    assert_string_equal(zc_dir_name(ZC_DIR_COUNT), "?");
    assert_string_equal(zc_kind_name(ZC_KIND_COUNT), "?");
}

static void test_directions(void **state)
{
    (void)state;
    assert_int_equal(zc_dir_of(ZC_KIND_PAGEABLE, ZC_KIND_DEVICE), ZC_DIR_HTOD);
    assert_int_equal(zc_dir_of(ZC_KIND_MANAGED, ZC_KIND_PINNED), ZC_DIR_DTOH);
    assert_int_equal(zc_dir_of(ZC_KIND_PINNED, ZC_KIND_PAGEABLE), ZC_DIR_HTOH);
    assert_int_equal(zc_dir_of(ZC_KIND_DEVICE, ZC_KIND_MANAGED), ZC_DIR_DTOD);
    assert_int_equal(zc_dir_of(ZC_KIND_PINNED, ZC_KIND_ARRAY), ZC_DIR_HTOA);
    assert_int_equal(zc_dir_of(ZC_KIND_ARRAY, ZC_KIND_PAGEABLE), ZC_DIR_ATOH);
    assert_int_equal(zc_dir_of(ZC_KIND_ARRAY, ZC_KIND_ARRAY), ZC_DIR_ATOA);
}

static void test_totals(void **state)
{
    struct zc_transfer t = upload(NULL, 100);

    (void)state;
    zc_traffic_record(&t);
    t.copies = 7;
    zc_traffic_record(&t);
    t.outcome = ZC_ELIDED;
    zc_traffic_record(&t);
    zc_traffic_totals(&totals);
    assert_int_equal(totals.asked[t.asked][ZC_MOVED].calls, 2);
    assert_int_equal(totals.asked[t.asked][ZC_MOVED].bytes, 200);
    assert_int_equal(totals.asked[t.asked][ZC_ELIDED].bytes, 100);
    assert_int_equal(totals.asked[t.asked][ZC_CPU].calls, 0);
    assert_int_equal(totals.moved[t.real].calls, 1 + 7);
    assert_int_equal(totals.moved[t.asked].calls, 0);
    assert_int_equal(totals.ticks[t.asked], 15);
}

/* The sums are those of the struct, and nothing behind it changes. */
static void test_totals_alone(void **state)
{
    static struct {
        struct zc_totals totals;
        uint64_t behind;
    } out;

    (void)state;
    out.behind = 4711;
    memset(&zc_counters()->slot[1], 1, sizeof(uint64_t)); /* Behind the first of the slots. */
    *(uint64_t *)&zc_counters()->slot[0] = 23;
    zc_traffic_totals(&out.totals);
    assert_int_equal(*(uint64_t *)&out.totals, 23);
    assert_int_equal(out.behind, 4711);
}

static void test_sources(void **state)
{
    struct zc_transfer t = upload(NULL, 1 << 20);

    (void)state;
    t.src_source = ZC_SOURCE_COUNT - 1;
    zc_traffic_record(&t);
    t.src_source = ZC_SOURCE_NONE;
    t.dst_source = 1;
    t.bytes = 3 << 20;
    zc_traffic_record(&t);
    for (unsigned i = 0; i < ZC_SOURCE_COUNT - 1; i++) {
        const struct zc_source_counts *source = &zc_counters()->source[i];

        assert_int_equal(source->from.asked.bytes, i == ZC_SOURCE_COUNT - 2 ? 1 << 20 : 0);
        assert_int_equal(source->to.asked.bytes, i == 0 ? 3 << 20 : 0);
        assert_int_equal(source->to.asked.calls, i == 0);
        assert_int_equal(source->to.ticks, i == 0 ? 5 : 0);
    }
}

static void test_cells(void **state)
{
    const struct zc_block like = {.base = 0x1000, .size = 16, .site = 3};
    struct zc_block *block = zc_block_add(&like), *other = ledger_add(0x9000, 1);

    (void)state;
    assert_non_null(block);
    record(block, other, ZC_DIR_DTOD, ZC_MOVED, 10);
    record(block, block, ZC_DIR_DTOD, ZC_CPU, 3);
    assert_int_equal(block->cell[0]->dir, ZC_DIR_DTOD);
    assert_int_equal(block->cell[0]->block, block->id);
    assert_int_equal(block->cell[0]->site, 3);
    assert_int_equal(block->cell[0]->by[ZC_MOVED].bytes, 10);
    assert_int_equal(block->cell[0]->by[ZC_CPU].calls, 1);
    assert_null(block->cell[1]);
    assert_int_equal(other->cell[0]->by[ZC_MOVED].bytes, 10);
    ledger_free(block);
    assert_int_equal(zc_counters()->site[3].total[ZC_DIR_DTOD].by[ZC_MOVED].bytes, 10);
    assert_int_equal(zc_counters()->site[3].total[ZC_DIR_DTOD].by[ZC_CPU].bytes, 3);
}

static void test_fifth_direction(void **state)
{
    struct zc_block *block = ledger_add(0x1000, 16);
    const struct zc_site *site = zc_site_get(0);

    (void)state;
    for (unsigned dir = 0; dir < 6; dir++)
        record(block, NULL, (enum zc_dir)dir, ZC_MOVED, dir + 1);
    assert_int_equal(site->total[3].by[ZC_MOVED].bytes, 0);
    assert_int_equal(site->total[4].by[ZC_MOVED].bytes, 5);
    assert_int_equal(site->total[5].by[ZC_MOVED].bytes, 6);
    ledger_free(block);
    for (unsigned dir = 0; dir < 6; dir++)
        assert_int_equal(site->total[dir].by[ZC_MOVED].bytes, dir + 1);
}

/* More blocks with traffic than the counters file has cells; then again, from freed cells, inside
 * the file and outside. */
static void test_cells_beyond_the_file(void **state)
{
    enum { MORE = 20000, BLOCKS = ZC_COUNTERS_CELLS + MORE };
    static struct zc_block *block[BLOCKS];
    const struct zc_cell *file = zc_counters()->cell;
    unsigned outside = 0;
    size_t mapped[2];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            block[i] = ledger_add((i + 1) * 64, 64);
            record(block[i], NULL, ZC_DIR_MEMSET, ZC_MOVED, 7);
            assert_ptr_not_equal(block[i]->cell[0], file + ZC_COUNTERS_CELLS);
            outside += block[i]->cell[0] < file || block[i]->cell[0] >= file + ZC_COUNTERS_CELLS;
        }
        for (uint64_t i = 0; i < BLOCKS; i++)
            ledger_free(block[i]);
        mapped[round] = arena_mapped();
    }
    assert_int_equal(mapped[0], mapped[1]);
    assert_int_equal(outside, 2 * MORE);
    assert_int_equal(zc_site_get(0)->total[ZC_DIR_MEMSET].by[ZC_MOVED].calls, 2 * BLOCKS);
    for (unsigned i = 0; i < ZC_COUNTERS_CELLS; i++)
        assert_int_equal(file[i].block, 0);
}

static void has(const struct zc_cell *cell, enum zc_dir dir, uint64_t calls)
{
    assert_non_null(cell);
    assert_true(cell->dir == dir && cell->site == 3 && cell->block == 9);
    assert_int_equal(cell->by[ZC_MOVED].calls, calls);
    assert_int_equal(cell->by[ZC_MOVED].bytes, 8 * calls);
    assert_int_equal(cell->ticks, 5 * calls);
}

/* The first thread of a direction has a cell of its own, all others share a second one; and cells
 * that were given back begin anew. */
static void test_threads_of_a_direction(void **state)
{
    static const uint32_t slots[] = {1, 2, 5, 0, 1};
    const struct zc_transfer t = upload(NULL, 8);
    const struct zc_cell *total = zc_counters()->site[3].total;

    (void)state;
    for (unsigned round = 1; round <= 2; round++) {
        struct zc_cell *cells[ZC_BLOCK_CELLS + 1] = {NULL}, sum[ZC_DIR_COUNT] = {{0}};
        struct zc_cell beyond = {.dir = ZC_DIR_DTOD, .by = {[ZC_MOVED] = {1, 1}}};

        for (unsigned i = 0; i < 5; i++)
            zc_cell_count(cells, 3, 9, ZC_DIR_HTOD, &t, slots[i]);
        has(cells[0], ZC_DIR_HTOD, 2);
        has(cells[1], ZC_DIR_HTOD, 3);
        assert_true(cells[0]->writer == 1 && cells[1]->writer == 0 && !cells[2]);
        zc_cell_count(cells, 3, 9, ZC_DIR_DTOH, &t, 0); /* Of threads without a slot. */
        zc_cell_count(cells, 3, 9, ZC_DIR_DTOH, &t, 2);
        has(cells[2], ZC_DIR_DTOH, 2);
        assert_true(cells[2]->writer == 0 && !cells[3]);
        cells[ZC_BLOCK_CELLS] = &beyond;
        zc_cell_sum_all(sum, cells);
        assert_int_equal(sum[ZC_DIR_HTOD].by[ZC_MOVED].calls, 5);
        assert_int_equal(sum[ZC_DIR_HTOD].ticks, 25);
        assert_int_equal(sum[ZC_DIR_DTOH].by[ZC_MOVED].bytes, 16);
        assert_int_equal(sum[ZC_DIR_DTOD].by[ZC_MOVED].calls, 0);
        cells[3] = cells[2]; /* As if all four were used. */
        cells[2] = cells[1];
        cells[1] = cells[0];
        zc_cell_count(cells, 3, 9, ZC_DIR_ATOH, &t, 2);
        assert_int_equal(total[ZC_DIR_ATOH].ticks, 5 * round);
        cells[1] = cells[2];
        cells[2] = cells[3];
        cells[3] = NULL;
        zc_cell_fold_all(cells, 3);
        assert_true(!cells[0] && !cells[1] && !cells[2]);
        assert_int_equal(total[ZC_DIR_HTOD].by[ZC_MOVED].calls, 5 * round);
        assert_int_equal(total[ZC_DIR_DTOH].ticks, 10 * round);
    }
}

static void test_calls(void **state)
{
    struct zc_transfer t = upload(NULL, 8);

    (void)state;
    t.call = 2;
    zc_traffic_record(&t);
    zc_traffic_record(&t);
    assert_int_equal(zc_counters()->call[2][ZC_DIR_HTOD].by[ZC_MOVED].calls, 2);
    assert_int_equal(zc_counters()->call[2][ZC_DIR_HTOD].by[ZC_MOVED].bytes, 16);
}

/* A copy between two blocks that only counts. */
static struct zc_plain_copy plain(struct zc_block *dst, struct zc_block *src)
{
    return (struct zc_plain_copy){.dst = dst,
                                  .src = src,
                                  .sequence = zc_index_sequence,
                                  .bytes = 8,
                                  .flow = zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_DEVICE)};
}

static void test_plain(void **state)
{
    struct zc_block *a = ledger_add(0x1000, 16), *b = ledger_add(0x9000, 16);
    struct zc_plain_copy c = plain(a, b), set = plain(a, a), none = plain(NULL, NULL);
    struct zc_count *asked, *moved;

    (void)state;
    assert_false(zc_traffic_cells(&c)); /* No cells yet. */
    record(a, b, ZC_DIR_DTOD, ZC_MOVED, 8);
    assert_true(zc_traffic_cells(&c));
    assert_true(c.cell[0] == a->cell[0] && c.cell[1] == b->cell[0]);
    zc_traffic_plain(&c, 5);
    assert_true(zc_traffic_cells(&set) && zc_traffic_cells(&none));
    assert_true(set.cell[0] == a->cell[0] && !set.cell[1] && !none.cell[0] && !none.cell[1]);
    zc_traffic_plain(&set, 5);
    zc_traffic_plain(&none, 5);
    for (unsigned i = 0; i < 2; i++) {
        const struct zc_cell *cell = i ? b->cell[0] : a->cell[0];
        assert_int_equal(cell->by[ZC_MOVED].calls, 3 - i);
        assert_int_equal(cell->by[ZC_MOVED].bytes, 8 * (3 - i));
        assert_int_equal(cell->ticks, 5 * (2 - i));
    }
    zc_traffic_totals(&totals);
    asked = &totals.asked[c.flow][ZC_MOVED], moved = &totals.moved[c.flow];
    assert_true(asked->calls == 4 && asked->bytes == 32 && totals.ticks[c.flow] == 15);
    assert_true(moved->calls == 4 && moved->bytes == 32);
}

/* The cells that were found are those of another block then. */
static void test_plain_behind_a_free(void **state)
{
    struct zc_block *a = ledger_add(0x1000, 16), *b;
    struct zc_plain_copy c = plain(a, NULL);

    (void)state;
    record(a, NULL, ZC_DIR_DTOD, ZC_MOVED, 8);
    assert_true(zc_traffic_cells(&c));
    b = ledger_add(0x9000, 16);
    zc_traffic_plain(&c, 1); /* By the block: something else has come. */
    assert_int_equal(a->cell[0]->by[ZC_MOVED].calls, 2);
    assert_true(zc_traffic_cells(&c));
    c.sequence = zc_index_sequence;
    ledger_free(a);
    record(b, NULL, ZC_DIR_DTOD, ZC_MOVED, 3);
    assert_ptr_equal(b->cell[0], c.cell[0]);
    zc_traffic_plain(&c, 1);
    assert_int_equal(b->cell[0]->by[ZC_MOVED].calls, 1);
    zc_traffic_totals(&totals);
    assert_int_equal(totals.asked[c.flow][ZC_MOVED].calls, 4);
    assert_int_equal(totals.moved[c.flow].calls, 4);
}

static void *find_cells(void *arg)
{
    record(NULL, NULL, ZC_DIR_DTOD, ZC_MOVED, 1); /* It has a slot of its own. */
    return zc_traffic_cells(arg) ? arg : NULL;
}

static void test_plain_of_another_thread(void **state)
{
    struct zc_block *a = ledger_add(0x1000, 16);
    struct zc_plain_copy c = plain(a, NULL);
    pthread_t thread;
    void *found;

    (void)state;
    record(a, NULL, ZC_DIR_DTOD, ZC_MOVED, 8);
    assert_int_equal(pthread_create(&thread, NULL, find_cells, &c), 0);
    pthread_join(thread, &found);
    assert_null(found);
}

static void *record_many(void *arg)
{
    struct zc_transfer t = upload(arg, 3);

    for (int i = 0; i < RECORDS; i++)
        zc_traffic_record(&t);
    return NULL;
}

static void test_threads(void **state)
{
    struct zc_block *block = ledger_add(0x1000, 16);
    pthread_t thread[THREADS];
    uint64_t in_cells = 0;

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, record_many, block), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    zc_traffic_totals(&totals);
    assert_int_equal(totals.asked[flow_up][ZC_MOVED].calls, THREADS * RECORDS);
    assert_int_equal(totals.asked[flow_up][ZC_MOVED].bytes, 3 * THREADS * RECORDS);
    for (unsigned i = 0; i < 4; i++)
        in_cells += block->cell[i] != NULL ? block->cell[i]->by[ZC_MOVED].calls : 0;
    assert_int_equal(in_cells, THREADS * RECORDS);
    assert_null(block->cell[2]); /* One cell for the first thread, one for all the others. */
    assert_int_equal(zc_counters()->next_slot, ZC_COUNTERS_SLOTS - 1);
    assert_true(zc_counters()->slot[0].asked[flow_up][ZC_MOVED].calls > 0);
}

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    struct zc_transfer t = upload(NULL, 1);

    (void)number;
    zc_traffic_record(&t);
    zc_traffic_plain(&(struct zc_plain_copy){.bytes = 1, .flow = flow_up}, 5);
    handled++;
}

static void test_signals(void **state)
{
    struct itimerval often = {{0, 40}, {0, 40}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct zc_plain_copy c = {.sequence = zc_index_sequence, .bytes = 3, .flow = flow_up};
    uint64_t mine = 0;

    (void)state;
    handled = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 2000) {
        record_many(NULL);
        for (int i = 0; i < RECORDS; i++)
            zc_traffic_plain(&c, 5);
        mine += 2 * RECORDS;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    zc_traffic_totals(&totals);
    assert_int_equal(totals.asked[flow_up][ZC_MOVED].calls, mine + 2 * (uint64_t)handled);
    assert_int_equal(totals.moved[zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE)].bytes,
                     3 * mine / 2 + (uint64_t)handled);
}

#define TEST(name, function)                                                                       \
    {                                                                                              \
        name, function, ledger_setup, NULL, NULL                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("kinds and directions have CUPTI's names", test_names),
        TEST("a copy's direction follows from its sides", test_directions),
        TEST("totals tell asked from moved", test_totals),
        TEST("totals change nothing behind them", test_totals_alone),
        TEST("pageable memory counts by where it came from", test_sources),
        TEST("a block's cells go to its site when it is freed", test_cells),
        TEST("a fifth direction of a block is counted at its site", test_fifth_direction),
        TEST("a copy that only counts is counted as any other", test_plain),
        TEST("cells that were found hold until a block comes or goes", test_plain_behind_a_free),
        TEST("the cell of another thread is not its own", test_plain_of_another_thread),
        TEST("cells beyond the file's are counted too and freed ones are used again",
             test_cells_beyond_the_file),
        TEST("two cells of a direction are for one thread and for the rest",
             test_threads_of_a_direction),
        TEST("calls are counted by their sites", test_calls),
        TEST("no transfer of forty threads is lost", test_threads),
        TEST("no transfer recorded in a signal handler is lost", test_signals),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
