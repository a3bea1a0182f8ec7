/* SPDX-License-Identifier: MIT */
/* The plan of a copy, over all combinations of facts that there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include <cmocka.h>

#include "driver/plan.h"

#define F(fact) (uint32_t)(ZC_FACT_##fact)
#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

/* Facts that go together: one of a group holds, in all its combinations with the other groups. */
static const uint32_t ours[] = {0, F(OURS)}, large[] = {0, F(LARGE)};
static const uint32_t wrong[] = {0, F(LEAVES), F(MALFORMED), F(BORDER)};
static const uint32_t call[] = {0, F(ASYNC), F(AWAITED), F(AWAITED) | F(UNWAITED_KNOWN),
                                F(AWAITED) | F(UNWAITED_KNOWN) | F(UNWAITED)};
static const uint32_t capture[] = {0, F(CAPTURE), F(CAPTURE) | F(CAPTURED)};
static const uint32_t ready[] = {0, F(FAILED), F(READY_KNOWN), F(READY_KNOWN) | F(FAILED),
                                 F(READY_KNOWN) | F(PENDING)};
static const uint32_t shared[] = {0, F(SHARED), F(SHARED) | F(PAIR_KNOWN),
                                  F(SHARED) | F(PAIR_KNOWN) | F(PAIR)};
static const uint32_t place[] = {0, F(MAPPED), F(MAPPED) | F(CPU_KNOWN),
                                 F(MAPPED) | F(CPU_KNOWN) | F(CPU)};
static const uint32_t to[] = {0, F(TO_PAGEABLE), F(TO_PAGEABLE) | F(TO_STAGED)};
static const uint32_t from[] = {0, F(FROM_PAGEABLE), F(FROM_PAGEABLE) | F(FROM_STAGED),
                                F(FROM_PAGEABLE) | F(FROM_STAGED) | F(RING)};
static const uint32_t length[] = {0, F(SHORT)};
static const uint32_t idle[] = {0, F(IDLE_KNOWN), F(IDLE_KNOWN) | F(IDLE)};
static const uint32_t threads[] = {0, F(THREADS_KNOWN), F(THREADS_KNOWN) | F(THREADS),
                                   F(THREADS_KNOWN) | F(THREADS) | F(INWARD),
                                   F(THREADS_KNOWN) | F(LINKS)};

static const struct {
    const uint32_t *facts;
    size_t count;
} groups[] = {
#define GROUP(list)                                                                                \
    {                                                                                              \
        list, LENGTH(list)                                                                         \
    }
    GROUP(ours),   GROUP(large), GROUP(wrong),  GROUP(call), GROUP(capture),
    GROUP(shared), GROUP(ready), GROUP(place),  GROUP(to),   GROUP(from),
    GROUP(length), GROUP(idle),  GROUP(threads)};

/* Calls `check` with every combination. */
static void each(void (*check)(uint32_t facts))
{
    size_t at[LENGTH(groups)] = {0};
    for (size_t g = 0; g < LENGTH(groups);) {
        uint32_t facts = 0;
        for (size_t i = 0; i < LENGTH(groups); i++)
            facts |= groups[i].facts[at[i]];
        check(facts);
        for (g = 0; g < LENGTH(groups) && ++at[g] == groups[g].count; g++)
            at[g] = 0;
    }
}

static bool has(uint32_t facts, uint32_t wanted)
{
    return (facts & wanted) == wanted;
}

static bool by_cpu(enum zc_way way)
{
    return way == ZC_WAY_CPU || way == ZC_WAY_CPU_WAIT || way == ZC_WAY_CPU_ORDERED ||
           way == ZC_WAY_CPU_STAGED;
}

/* The rows one by one: which of them decides about some combination. */
static const struct {
    enum zc_way way;
    uint32_t needs, lacks;
} rows[] = {
#define ZC_ROW(way, needs, lacks) {ZC_WAY_##way, needs, lacks},
#include "driver/plan.def"
#undef ZC_ROW
};
static bool used[LENGTH(rows)];

static void first_row(uint32_t facts)
{
    size_t i = 0;
    while (i < LENGTH(rows) && !(has(facts, rows[i].needs) && !(facts & rows[i].lacks)))
        i++;
    assert_true(i < LENGTH(rows));
    assert_int_equal(zc_plan(facts), rows[i].way);
    used[i] = true;
}

static void every_copy_has_a_row_and_every_row_decides_about_some(void **state)
{
    (void)state;
    each(first_row);
    for (size_t i = 0; i < LENGTH(rows); i++)
        assert_true(used[i]);
}

static uint32_t known_by(enum zc_way question)
{
    switch (question) {
    case ZC_WAY_ASK_PAIR:
        return F(PAIR_KNOWN);
    case ZC_WAY_ASK_READY:
        return F(READY_KNOWN);
    case ZC_WAY_ASK_UNWAITED:
        return F(UNWAITED_KNOWN);
    case ZC_WAY_ASK_CPU:
        return F(CPU_KNOWN);
    case ZC_WAY_ASK_IDLE:
        return F(IDLE_KNOWN);
    default:
        return F(THREADS_KNOWN);
    }
}

static void ask_once(uint32_t facts)
{
    enum zc_way way = zc_plan(facts);
    assert_true(way < ZC_WAY_COUNT || !(facts & known_by(way)));
}

static void nothing_is_asked_twice(void **state)
{
    (void)state;
    each(ask_once);
}

/* A capture forbids to wait, to ask about streams, and to move bytes before its graph runs. */
static void in_a_capture(uint32_t facts)
{
    enum zc_way way = zc_plan(facts);
    if (!(facts & F(CAPTURE)) || facts & (F(THREADS) | F(LINKS)))
        return; /* These are gathered outside captures, */
    if (facts & F(CPU) && (facts & F(CAPTURED) || !(facts & F(ASYNC))))
        return; /* and so is this, but for calls that need not wait in streams beside them. */
    if (way == ZC_WAY_ASK_CPU || by_cpu(way)) {
        assert_true(facts & F(ASYNC) && !(facts & F(CAPTURED)));
        return;
    }
    assert_true(way == ZC_WAY_FORWARD || way == ZC_WAY_FORWARD_WAIT || way == ZC_WAY_REFUSE ||
                way == ZC_WAY_PAIR || way == ZC_WAY_REMAP || way == ZC_WAY_SPLIT ||
                way == ZC_WAY_ASK_PAIR || way == ZC_WAY_ASK_READY);
    assert_false(way == ZC_WAY_FORWARD_WAIT && facts & F(CAPTURED));
}

static void in_captures_the_driver_makes_the_copies(void **state)
{
    (void)state;
    each(in_a_capture);
}

/* Promises that the program relies on when the call returns. */
static void as_the_call_promises(uint32_t facts)
{
    enum zc_way way = zc_plan(facts);
    bool waits = way == ZC_WAY_CPU_WAIT || way == ZC_WAY_FORWARD_WAIT;
    bool later = way == ZC_WAY_CPU_ORDERED || way == ZC_WAY_CPU_STAGED || way == ZC_WAY_RING;
    if (waits && !(facts & F(TO_PAGEABLE)) && !(facts & F(FROM_PAGEABLE)))
        assert_false(facts & (F(ASYNC) | F(UNWAITED))); /* Copies and work overlap as in CUDA. */
    if (later) {
        assert_true(facts & (F(ASYNC) | F(UNWAITED)));
        assert_false(facts & F(IDLE));
    }
    if (later && facts & F(TO_PAGEABLE)) /* Bytes arrive before the call returns, */
        assert_true(way == ZC_WAY_RING && !(facts & F(TO_STAGED)));
    if (way == ZC_WAY_CPU_ORDERED) /* or have left. */
        assert_false(facts & F(FROM_PAGEABLE));
    if (way == ZC_WAY_FORWARD && has(facts, F(OURS) | F(ASYNC) | F(READY_KNOWN)))
        assert_true(!(facts & (F(TO_STAGED) | F(FROM_STAGED))) ||
                    facts & (F(CAPTURED) | F(LEAVES)));
}

/* Only the driver knows whether it takes such a copy. */
static void not_by_libzc(uint32_t facts)
{
    enum zc_way way = zc_plan(facts);
    if (facts & F(MALFORMED))
        assert_true(way != ZC_WAY_RING && way != ZC_WAY_THREADS && way != ZC_WAY_LINKS &&
                    way != ZC_WAY_ASK_CPU);
}

static void what_a_driver_may_refuse_is_the_drivers(void **state)
{
    (void)state;
    each(not_by_libzc);
}

static void asynchronous_copies_keep_their_meaning(void **state)
{
    (void)state;
    each(as_the_call_promises);
}

static void with_a_reason(uint32_t facts)
{
    enum zc_way way = zc_plan(facts);
    if (way == ZC_WAY_REFUSE)
        assert_true(facts & (F(LEAVES) | F(FAILED)));
    if (!(facts & (F(OURS) | F(LARGE))))
        assert_int_equal(way, ZC_WAY_FORWARD);
    if (way == ZC_WAY_SPLIT || facts & F(BORDER)) { /* Its parts are copies of their own. */
        assert_true(way == ZC_WAY_SPLIT || !(facts & (F(OURS) | F(LARGE))));
        assert_true(facts & F(BORDER));
        return;
    }
    if (facts & F(OURS) && !(facts & F(READY_KNOWN)))
        assert_true(way == ZC_WAY_REFUSE || way == ZC_WAY_ASK_READY || way == ZC_WAY_ASK_PAIR ||
                    way == ZC_WAY_PAIR);
    if (facts & F(SHARED) && facts & F(OURS) && !(facts & F(PAIR_KNOWN))) /* It may change both. */
        assert_true(way == ZC_WAY_REFUSE || way == ZC_WAY_ASK_PAIR);
    if (by_cpu(way))
        assert_true(facts & F(CPU));
    if (way == ZC_WAY_RING)
        assert_true(has(facts, F(RING) | F(ASYNC)));
    if (way == ZC_WAY_THREADS)
        assert_true(facts & F(THREADS));
    if (way == ZC_WAY_LINKS)
        assert_true(facts & F(LINKS) && !(facts & F(CAPTURED)));
    if (way == ZC_WAY_REMAP)
        assert_true(facts & F(PENDING));
    if (has(facts, F(OURS) | F(PAIR)) && !(facts & (F(LEAVES) | F(FAILED))))
        assert_int_equal(way, ZC_WAY_PAIR);
    if (way == ZC_WAY_PAIR)
        assert_true(facts & F(PAIR));
}

static void each_way_has_its_reason(void **state)
{
    (void)state;
    each(with_a_reason);
}

static void known_copies_go_their_known_ways(void **state)
{
    (void)state;
    const uint32_t base = F(OURS) | F(READY_KNOWN), cpu = base | F(MAPPED) | F(CPU_KNOWN) | F(CPU);
    const uint32_t busy = F(ASYNC) | F(IDLE_KNOWN), staged = F(FROM_PAGEABLE) | F(FROM_STAGED);
    const struct {
        uint32_t facts;
        enum zc_way way;
    } known[] = {
        {base, ZC_WAY_FORWARD},
        {base | F(MAPPED) | F(CAPTURE), ZC_WAY_FORWARD},
        {base | F(MAPPED) | F(CAPTURE) | F(ASYNC), ZC_WAY_ASK_CPU},
        {base | F(MAPPED) | F(CAPTURE) | F(CAPTURED) | F(ASYNC), ZC_WAY_FORWARD},
        {cpu | F(CAPTURE) | F(ASYNC), ZC_WAY_CPU_ORDERED},
        {cpu, ZC_WAY_CPU_WAIT},
        {cpu | busy | F(IDLE), ZC_WAY_CPU},
        {cpu | busy, ZC_WAY_CPU_ORDERED},
        {cpu | busy | F(TO_PAGEABLE), ZC_WAY_CPU_WAIT},
        {cpu | busy | F(FROM_PAGEABLE) | F(SHORT), ZC_WAY_CPU_STAGED},
        {cpu | busy | F(FROM_PAGEABLE), ZC_WAY_CPU_WAIT},
        {cpu | F(AWAITED) | F(UNWAITED_KNOWN) | F(UNWAITED) | F(IDLE_KNOWN), ZC_WAY_CPU_ORDERED},
        {base | busy | staged | F(RING), ZC_WAY_RING},
        {base | busy | staged | F(RING) | F(IDLE), ZC_WAY_FORWARD_WAIT},
        {base | F(ASYNC) | staged | F(RING) | F(CAPTURE), ZC_WAY_FORWARD_WAIT},
        {base | F(ASYNC) | F(TO_PAGEABLE) | F(TO_STAGED), ZC_WAY_FORWARD_WAIT},
        {base | F(TO_PAGEABLE) | F(TO_STAGED), ZC_WAY_FORWARD},
        {F(LARGE) | F(THREADS_KNOWN) | F(LINKS), ZC_WAY_LINKS},
        {base | F(LARGE) | F(ASYNC) | F(THREADS_KNOWN) | F(LINKS) | F(TO_PAGEABLE) | F(TO_STAGED),
         ZC_WAY_LINKS},
        {F(LARGE) | F(THREADS_KNOWN) | F(THREADS), ZC_WAY_THREADS},
        {F(LARGE) | F(THREADS_KNOWN) | F(THREADS) | F(INWARD) | busy, ZC_WAY_FORWARD},
    };
    for (size_t i = 0; i < LENGTH(known); i++)
        assert_int_equal(zc_plan(known[i].facts), known[i].way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_copy_has_a_row_and_every_row_decides_about_some),
        cmocka_unit_test(nothing_is_asked_twice),
        cmocka_unit_test(in_captures_the_driver_makes_the_copies),
        cmocka_unit_test(what_a_driver_may_refuse_is_the_drivers),
        cmocka_unit_test(asynchronous_copies_keep_their_meaning),
        cmocka_unit_test(each_way_has_its_reason),
        cmocka_unit_test(known_copies_go_their_known_ways),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
