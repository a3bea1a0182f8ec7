/* SPDX-License-Identifier: MIT */
/*
 * The ranges that programs push by NVTX.  NVTX, version 3 in the program or libnvToolsExt, opens
 * the library that NVTX_INJECTION64_PATH names at its first call, and gives the function below a
 * table of its functions' addresses, in which libzc enters its own.  Ranges that are started and
 * ended belong to no thread, so they tell nothing of a thread's copies and are left to NVTX, as
 * marks and names are.  So are texts of wide characters, which no program on Linux was found to
 * use: their ranges have no name.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "log/ranges.h"

#define EXPORT __attribute__((visibility("default")))

/* As NVTX's headers have them. */
enum message { ASCII = 1, REGISTERED = 3 };
enum module { CORE = 1, CORE2 = 5 };
enum { TABLE_OF_CALLBACKS = 1 };

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* enum message */
    const char *text;     /* Also of a registered one: its handle is its text. */
};

typedef void (*function)(void);

struct callbacks {
    size_t size;
    /* Gives where the functions' addresses are kept, by number, and how many these are. */
    int (*table)(enum module module, function ***places, unsigned *count);
};

/* A domain's handle, or a text's, is a copy of its name, as far as ranges show it.  Programs and
 * their forked children keep them to their end. */
static const char *kept(const char *name)
{
    return name ? strndup(name, ZC_RANGE_NAME - 1) : NULL;
}

static const char *register_text(const char *domain, const char *name)
{
    (void)domain;
    return kept(name);
}

static int nvtx_push(const char *name)
{
    return zc_ranges_push(NULL, name);
}

static int push_wide(const void *name)
{
    (void)name;
    return nvtx_push(NULL);
}

static int domain_push(const char *domain, const struct attributes *a)
{
    bool known = a && (a->message_type == ASCII || a->message_type == REGISTERED);
    return zc_ranges_push(domain, known ? a->text : NULL);
}

static int push_attributes(const struct attributes *a)
{
    return domain_push(NULL, a);
}

static int pop(void)
{
    return zc_ranges_pop(NULL);
}

/* The functions that libzc replaces, by NVTX's tables and the numbers there. */
static const struct {
    enum module module;
    unsigned number;
    function function;
} answers[] = {
#define ANSWER(module, number, answer)                                                             \
    {                                                                                              \
        module, number, (function)(answer)                                                         \
    }
    ANSWER(CORE, 8, push_attributes), /* nvtxRangePushEx */
    ANSWER(CORE, 9, nvtx_push),       /* nvtxRangePushA */
    ANSWER(CORE, 10, push_wide),      /* nvtxRangePushW */
    ANSWER(CORE, 11, pop),            /* nvtxRangePop */
    ANSWER(CORE2, 4, domain_push),    /* nvtxDomainRangePushEx */
    ANSWER(CORE2, 5, zc_ranges_pop),  /* nvtxDomainRangePop */
    ANSWER(CORE2, 10, register_text), /* nvtxDomainRegisterStringA */
    ANSWER(CORE2, 12, kept)           /* nvtxDomainCreateA */
};

/* Once for each copy of NVTX in the process; 0 where it is one that libzc does not know. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t number));
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t number))
{
    const struct callbacks *callbacks = export_table(TABLE_OF_CALLBACKS);
    if (!callbacks || callbacks->size < sizeof(*callbacks))
        return 0;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        function **places;
        unsigned count;
        if (callbacks->table(answers[i].module, &places, &count) && answers[i].number < count)
            *places[answers[i].number] = answers[i].function;
    }
    return 1;
}
