/* SPDX-License-Identifier: MIT */
/* The walk up a stack that is made up: what each kind of frame leaves, which words it notes, and
 * where it ends. */
#include "base_test.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/cfi.h"
#include "ledger/unwind.h"

#define CALLER 0x123456u /* A return address. */

static struct {
    struct zc_cfi_row row;
    bool unknown, strange; /* No object has the address; its information makes no sense. */
    uint64_t pc;
    unsigned questions;  /* To the kernel. */
    uint64_t unreadable; /* A page. */
} has;

static bool fake_object(uint64_t pc, struct zc_object *out)
{
    has.pc = pc;
    out->start = 77;
    return !has.unknown;
}

static bool fake_find(const struct zc_object *object, uint64_t pc, struct zc_cfi_program *out)
{
    assert_int_equal(object->start, 77);
    has.pc = pc;
    out->start = 88;
    return !has.strange;
}

static bool fake_run(const struct zc_cfi_program *program, uint64_t pc, struct zc_cfi_row *out)
{
    assert_true(program->start == 88 && pc == has.pc);
    *out = has.row;
    return true;
}

static long fake_call(long number, int how, uint64_t address, void *old, size_t bytes)
{
    assert_true(number == SYS_rt_sigprocmask && how == -1 && !old && bytes == 8);
    has.questions++;
    errno = address / 4096 == has.unreadable ? EFAULT : EINVAL;
    return -1;
}

#define zc_object_find fake_object
#define zc_cfi_find fake_find
#define zc_cfi_run fake_run
#define syscall fake_call
#include "../../shim/ledger/unwind.c"

/* A stack within one page, the frame at its begin, and what it says. */
static uint64_t stack[64] __attribute__((aligned(4096)));
static struct zc_walk walk;
static const struct zc_object object = {.start = 77};

static uint64_t at(unsigned word)
{
    return (uint64_t)(uintptr_t)&stack[word];
}

static struct zc_cfi_place place(enum zc_cfi_from from, int64_t offset)
{
    return (struct zc_cfi_place){.from = from, .offset = offset};
}

/* A function of four words, whose caller's address lies in the last one. */
static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&walk, 0, sizeof(walk));
    memset(stack, 0, sizeof(stack));
    has.unreadable = 1;
    has.row.cfa = place(ZC_CFI_SP, 32);
    has.row.ra = place(ZC_CFI_CFA, -8);
    stack[3] = CALLER;
    stack[2] = at(20);
    walk.pc = 0x999999;
    walk.sp = at(0);
    walk.fp = at(10);
    return 0;
}

static void noted(unsigned n, unsigned word)
{
    assert_int_equal(walk.words, n);
    assert_true(walk.at[n - 1] == at(word) && walk.value[n - 1] == stack[word]);
}

static void a_frame_is_left_for_its_callers(void **state)
{
    (void)state;
    assert_true(frame_leave(&walk, &object));
    assert_int_equal(has.pc, 0x999998); /* A call may be the last instruction. */
    assert_true(walk.pc == CALLER && walk.sp == at(4) && walk.fp == at(10) && !walk.fp_at);
    assert_false(walk.whole);
    noted(1, 3);
}

static void a_saved_frame_pointer_is_noted_only_where_it_leads_on(void **state)
{
    (void)state;
    has.row.fp = place(ZC_CFI_CFA, -16);
    assert_true(frame_leave(&walk, &object));
    assert_true(walk.fp == at(20) && walk.fp_at == at(2));
    noted(1, 3);
    has.row.cfa = place(ZC_CFI_FP, 16); /* The next function finds its frame by it. */
    has.row.fp = place(ZC_CFI_SAME, 0);
    stack[21] = CALLER + 1;
    assert_true(frame_leave(&walk, &object));
    assert_true(walk.sp == at(22) && walk.pc == CALLER + 1 && walk.fp == at(20));
    noted(3, 21);
    assert_true(walk.at[1] == at(2) && walk.value[1] == at(20));
    assert_int_equal(walk.fp_at, 0);
    has.row.cfa = place(ZC_CFI_FP, 32); /* Once is enough. */
    stack[23] = CALLER;
    assert_true(frame_leave(&walk, &object));
    noted(4, 23);
}

static void a_frame_pointer_that_is_lost_leads_nowhere(void **state)
{
    (void)state;
    has.row.fp = place(ZC_CFI_LOST, 0);
    assert_true(frame_leave(&walk, &object));
    assert_true(walk.fp == 0 && walk.fp_at == 0);
    walk.sp = at(0);
    walk.fp = 0;
    has.row.fp = place(ZC_CFI_FP, 0); /* An address of 0 is none. */
    assert_true(frame_leave(&walk, &object));
    assert_true(walk.fp == 0 && walk.fp_at == 0);
    has.row.fp = place(ZC_CFI_CFA, 3);
    walk.sp = at(0);
    assert_false(frame_leave(&walk, &object));
    has.row.fp = place(ZC_CFI_CFA, 0);
    has.row.fp.deref = true; /* The next frame begins with no address. */
    stack[4] = 8;
    walk.sp = at(0);
    assert_false(frame_leave(&walk, &object));
}

/* gcc describes a frame that it has realigned so. */
static void a_frame_may_be_told_by_a_word_of_the_stack(void **state)
{
    (void)state;
    has.row.cfa = (struct zc_cfi_place){.from = ZC_CFI_SP, .deref = true, .offset = 8, .more = 16};
    stack[1] = at(5);
    stack[6] = CALLER + 2;
    assert_true(frame_leave(&walk, &object));
    assert_true(walk.sp == at(7) && walk.pc == CALLER + 2);
    noted(2, 6);
    assert_true(walk.at[0] == at(1) && walk.value[0] == at(5));
}

static void nothing_strange_is_followed(void **state)
{
    static const struct {
        struct zc_cfi_place cfa, ra;
        bool leaves;
    } rows[] = {
        {{.from = ZC_CFI_SP, .offset = 8}, {.from = ZC_CFI_SP, .offset = 24}, true},
        {{.from = ZC_CFI_SP, .offset = 0}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_SP, .offset = -8}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_SP, .offset = 1 << 26}, {.from = ZC_CFI_SP, .offset = 24}, true},
        {{.from = ZC_CFI_SP, .offset = (1 << 26) + 8}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_SP, .offset = 36}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_LOST}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_SAME}, {.from = ZC_CFI_SP, .offset = 24}, false},
        {{.from = ZC_CFI_SP, .offset = 8}, {.from = ZC_CFI_SAME}, false},
        {{.from = ZC_CFI_SP, .offset = 8}, {.from = ZC_CFI_SP, .offset = 25}, false},
        {{.from = ZC_CFI_SP, .offset = 8}, {.from = ZC_CFI_SP, .deref = true}, false},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.row.cfa = rows[i].cfa;
        has.row.ra = rows[i].ra;
        assert_int_equal(frame_leave(&walk, &object), rows[i].leaves);
        assert_false(walk.whole);
    }
    anew(NULL);
    has.strange = true;
    assert_false(frame_leave(&walk, &object));
    anew(NULL); /* A word that the kernel has not. */
    has.unreadable = at(0) / 4096 + 5;
    has.row.cfa = (struct zc_cfi_place){.from = ZC_CFI_SP, .deref = true, .offset = 5 * 4096};
    has.row.ra = place(ZC_CFI_SP, 24);
    assert_false(frame_leave(&walk, &object));
    has.row.fp = has.row.cfa;
    has.row.cfa = place(ZC_CFI_SP, 32);
    assert_false(frame_leave(&walk, &object));
}

static void the_outermost_frame_is_known_as_such(void **state)
{
    (void)state;
    has.row.ra = place(ZC_CFI_LOST, 0); /* As in _start. */
    assert_false(frame_leave(&walk, &object));
    assert_true(walk.whole);
    anew(NULL);
    stack[3] = 4096; /* As at the begin of a thread. */
    assert_false(frame_leave(&walk, &object));
    assert_true(walk.whole);
    anew(NULL);
    stack[3] = 4097;
    assert_true(frame_leave(&walk, &object));
    assert_false(walk.whole);
}

static void the_kernel_is_asked_once_for_the_words_of_a_page(void **state)
{
    uint64_t word = 5;
    (void)state;
    stack[7] = 9;
    assert_true(read_word(&walk, at(7), &word));
    assert_int_equal(word, 9);
    assert_true(read_word(&walk, at(8), &word));
    assert_int_equal(has.questions, 1);
    assert_false(read_word(&walk, at(8) + 4, &word));
    assert_false(read_word(&walk, 4088, &word)); /* Nothing is in the first page. */
    assert_int_equal(has.questions, 1);
    has.unreadable = at(0) / 4096 + 5;
    assert_false(read_word(&walk, at(0) + 5 * 4096, &word));
    assert_true(read_word(&walk, at(7), &word));
    assert_int_equal(has.questions, 2);
    has.unreadable = 1;
    errno = 17;
    assert_false(zc_readable(4096 + 8));
    assert_false(zc_readable(0));
    assert_true(zc_readable(8192));
    assert_int_equal(errno, 17);
}

static void so_many_words_are_kept_and_more_are_counted(void **state)
{
    (void)state;
    walk.from = at(2);
    store_word(&walk, at(1), 1); /* Of libzc's own frames. */
    assert_int_equal(walk.words, 0);
    for (unsigned i = 0; i < ZC_WALK_WORDS + 2; i++)
        store_word(&walk, at(2 + i), i + 1);
    assert_int_equal(walk.words, ZC_WALK_WORDS + 2);
    for (unsigned i = 0; i < ZC_WALK_WORDS; i++)
        assert_true(walk.at[i] == at(2 + i) && walk.value[i] == i + 1);
}

/* Each frame that is visited has 16 bytes more, and is called from CALLER. */
static struct {
    unsigned n, most;
    uint64_t sp;
    bool known;
} visits;
static uint64_t caller = CALLER;

static bool visit(uint64_t pc, const struct zc_object *in, void *arg)
{
    struct zc_walk *of = arg;
    assert_true(pc == of->pc && (!visits.n || pc == CALLER));
    assert_int_equal(has.pc, pc - 1);
    assert_true(!in || in->start == 77);
    visits.known = in != NULL;
    if (!visits.n++)
        visits.sp = of->sp;
    has.row.cfa = place(ZC_CFI_SP, 16);
    has.row.ra = place(ZC_CFI_SP, (int64_t)((uint64_t)(uintptr_t)&caller - of->sp));
    return visits.n < visits.most;
}

static void unwind(uint64_t from, unsigned most)
{
    memset(&visits, 0, sizeof(visits));
    memset(&walk, 0x55, sizeof(walk)); /* Left by another walk. */
    visits.most = most;
    zc_unwind(&walk, from, visit, &walk);
}

static void a_walk_visits_each_frame_until_somebody_ends_it(void **state)
{
    (void)state;
    unwind(0, 3);
    assert_int_equal(visits.n, 3);
    assert_true(walk.sp == visits.sp + 32 && walk.words == 2 && !walk.whole);
    assert_true(walk.from == 0 && walk.fp_at == 0);
    assert_ptr_equal(walk.at[0], &caller);
    unwind(0, 1000);
    assert_int_equal(visits.n, 64); /* A stack without an end. */
    assert_int_equal(walk.words, 64);
    unwind(0, 1);
    uint64_t first = visits.sp;
    assert_int_equal(walk.words, 0);
    has.row.cfa = place(ZC_CFI_SP, 16); /* The frames up to `from` are libzc's. */
    has.row.ra = place(ZC_CFI_SP, 0);
    has.unknown = true;
    unwind(first, 1);
    assert_int_equal(visits.n, 0);
    unwind(first - 8, 1000); /* In code of no object the walk ends. */
    assert_int_equal(visits.n, 1);
    assert_false(visits.known);
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_frame_is_left_for_its_callers),
        T(a_saved_frame_pointer_is_noted_only_where_it_leads_on),
        T(a_frame_pointer_that_is_lost_leads_nowhere),
        T(a_frame_may_be_told_by_a_word_of_the_stack),
        T(nothing_strange_is_followed),
        T(the_outermost_frame_is_known_as_such),
        T(the_kernel_is_asked_once_for_the_words_of_a_page),
        T(so_many_words_are_kept_and_more_are_counted),
        T(a_walk_visits_each_frame_until_somebody_ends_it),
    };
    return RUN_TESTS(tests);
}
