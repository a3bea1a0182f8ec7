/* SPDX-License-Identifier: MIT */
/* The table of mappings, against a model that has a field for each page. */
#include "host/mapping.h"

#include "base_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/module.h"

#define PAGE ((uintptr_t)4096)
#define FIRST ((uintptr_t)0x100000000000)
#define PAGES 200u

static enum zc_source model[PAGES];

static void *page(unsigned i)
{
    return (void *)(FIRST + i * PAGE);
}

static void set(unsigned from, unsigned n, enum zc_source source)
{
    for (unsigned i = from; i < from + n; i++)
        model[i] = source;
}

static enum zc_source use(unsigned i, uint64_t bytes, bool *again)
{
    return zc_mapping_use((uintptr_t)page(i) + PAGE - 1, bytes, again);
}

static void change(unsigned from, unsigned n)
{
    unsigned to = (unsigned)rand() % (PAGES - 20);
    struct zc_mapping_move move;
    switch (rand() % 4) {
    case 0:
        zc_mapping_note(page(from), n * PAGE - 5, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        set(from, n, ZC_SOURCE_ANONYMOUS);
        break;
    case 1:
        zc_mapping_note(page(from), n * PAGE, MAP_PRIVATE, -1);
        set(from, n, ZC_SOURCE_FILE);
        break;
    case 2:
        zc_mapping_forget(page(from), n * PAGE - 1);
        set(from, n, ZC_SOURCE_NONE);
        break;
    default:
        move = zc_mapping_moving(page(from), n * PAGE);
        assert_int_equal(move.source, model[from]);
        set(from, n, ZC_SOURCE_NONE);
        zc_mapping_moved(&move, page(to), n * PAGE);
        if (move.source != ZC_SOURCE_NONE)
            set(to, n, move.source);
    }
}

static void pages_are_what_was_mapped_there_last(void **state)
{
    bool again = false;
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        change((unsigned)rand() % (PAGES - 20), (unsigned)rand() % 20 + 1);
        for (unsigned i = round % 7; i < PAGES; i += 7)
            assert_int_equal(use(i, 1, &again), model[i]);
    }
    zc_mapping_forget(page(0), PAGES * PAGE);
}

static void copies_one_after_the_other_use_nothing_again(void **state)
{
    bool again = false;
    (void)state;
    zc_mapping_note(page(0), 100 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (unsigned i = 50; i < 99; i++) {
        assert_int_equal(use(i, PAGE, &again), ZC_SOURCE_ANONYMOUS);
        assert_false(again);
    }
    use(98, PAGE, &again);
    assert_true(again);
    for (unsigned i = 50; i-- > 0;) {
        use(i, PAGE, &again);
        assert_false(again);
    }
    use(49, PAGE + 1, &again);
    assert_true(again);
    /* What is left keeps its history, and what comes in its place has none. */
    zc_mapping_note(page(30), 10 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    use(41, 1, &again);
    assert_true(again);
    use(31, 1, &again);
    assert_false(again);
    zc_mapping_forget(page(0), 100 * PAGE);
    assert_int_equal(use(0, 1, &again), ZC_SOURCE_NONE);
}

static void a_page_that_is_mapped_in_part_is_known_in_whole_and_errno_is_kept(void **state)
{
    bool again = false;
    (void)state;
    errno = 77;
    zc_mapping_note(page(0), PAGE + 1, MAP_PRIVATE, -1);
    assert_int_equal(use(1, 1, &again), ZC_SOURCE_FILE);
    zc_mapping_forget(page(0), PAGE + 1);
    assert_int_equal(use(1, 1, &again), ZC_SOURCE_NONE);
    assert_int_equal(errno, 77);
}

static unsigned long pages_of_process(void)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    return pages;
}

static void what_is_mapped_over_or_unmapped_takes_no_memory(void **state)
{
    (void)state;
    unsigned long before = pages_of_process();
    for (unsigned i = 0; i < 100000; i++) {
        zc_mapping_note(page(i % 3), 3 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        zc_mapping_forget(page(i % 5), PAGE);
    }
    assert_int_equal(pages_of_process(), before);
    zc_mapping_forget(page(0), PAGES * PAGE);
}

extern const struct zc_module zc_module_mapping;

static bool known_in_child(void)
{
    bool again = false;
    zc_thread_id_reset();
    zc_lock_reset_all();
    zc_mapping_note(page(1), PAGE, MAP_PRIVATE, -1);
    return use(0, 1, &again) == ZC_SOURCE_ANONYMOUS && use(1, 1, &again) == ZC_SOURCE_FILE;
}

static void parent_and_child_know_their_mappings_after_a_fork(void **state)
{
    bool again = false;
    int status;
    (void)state;
    zc_mapping_note(page(0), PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    zc_module_mapping.before_fork();
    pid_t child = _Fork(); /* The handlers of fork(2) are called here. */
    assert_true(child >= 0);
    if (child == 0)
        _exit(known_in_child() ? 0 : 1);
    zc_module_mapping.after_fork();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(use(0, 1, &again), ZC_SOURCE_ANONYMOUS);
    assert_int_equal(use(1, 1, &again), ZC_SOURCE_NONE);
    zc_mapping_forget(page(0), PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_what_was_mapped_there_last),
        cmocka_unit_test(copies_one_after_the_other_use_nothing_again),
        cmocka_unit_test(a_page_that_is_mapped_in_part_is_known_in_whole_and_errno_is_kept),
        cmocka_unit_test(what_is_mapped_over_or_unmapped_takes_no_memory),
        cmocka_unit_test(parent_and_child_know_their_mappings_after_a_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
