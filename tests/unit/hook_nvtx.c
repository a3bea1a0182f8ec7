/* SPDX-License-Identifier: MIT */
/* The functions that libzc enters into NVTX's tables, whatever version has made these. */
#include "base_test.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { CORE = 1, CORE2 = 5, MOST = 32 };

struct callbacks {
    size_t size;
    int (*table)(int module, void (****places)(void), unsigned *count);
};

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t number));

static void (*functions[6][MOST])(void);
static void (**places[6][MOST])(void);
static unsigned core, core2; /* Functions in the tables. */
static struct callbacks given;
static bool none;

static int table(int module, void (****out)(void), unsigned *count)
{
    if (module != CORE && module != CORE2)
        return 0;
    for (int i = 0; i < MOST; i++)
        places[module][i] = &functions[module][i];
    *out = places[module];
    *count = module == CORE ? core : core2;
    return *count > 0;
}

static const void *export_table(uint32_t number)
{
    return number == 1 && !none ? &given : NULL;
}

static unsigned entered(int module)
{
    unsigned found = 0;
    for (unsigned i = 0; i < MOST; i++)
        if (functions[module][i])
            found |= 1u << i;
    return found;
}

static int clear(void **state)
{
    (void)state;
    memset(functions, 0, sizeof(functions));
    given = (struct callbacks){sizeof(given), table};
    none = false;
    core = core2 = MOST;
    return 0;
}

#define OF_CORE (1u << 8 | 1u << 9 | 1u << 10 | 1u << 11)
#define OF_CORE2 (1u << 4 | 1u << 5 | 1u << 10 | 1u << 12)

static void ranges_domains_and_texts_are_libzcs_and_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(InitializeInjectionNvtx2(export_table), 1);
    assert_int_equal(entered(CORE), OF_CORE);
    assert_int_equal(entered(CORE2), OF_CORE2);
}

static void a_table_is_written_up_to_its_end(void **state)
{
    (void)state;
    for (unsigned end = 0; end < 16; end++) {
        clear(state);
        core = end, core2 = 15 - end;
        assert_int_equal(InitializeInjectionNvtx2(export_table), 1);
        assert_int_equal(entered(CORE), OF_CORE & ((1u << core) - 1));
        assert_int_equal(entered(CORE2), OF_CORE2 & ((1u << core2) - 1));
    }
}

static void tables_of_unknown_versions_are_left_alone(void **state)
{
    (void)state;
    given.size = sizeof(given) - 1;
    assert_int_equal(InitializeInjectionNvtx2(export_table), 0);
    none = true;
    assert_int_equal(InitializeInjectionNvtx2(export_table), 0);
    assert_int_equal(entered(CORE) | entered(CORE2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_domains_and_texts_are_libzcs_and_nothing_else, clear),
        cmocka_unit_test_setup(a_table_is_written_up_to_its_end, clear),
        cmocka_unit_test_setup(tables_of_unknown_versions_are_left_alone, clear),
    };

    return RUN_TESTS(tests);
}
