/*
 * A stand-in for libcupti.so.13 that reports counters of unified memory.
 *   SIM_UM         records that a flush gives, "counter:value,..." with CUPTI's numbers
 *   SIM_UM_REFUSE  "function:code": that function returns the code and does nothing
 */
#include <cupti.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static bool wanted[16]; /* by counter */
static bool enabled;

static CUptiResult refusal(const char *function)
{
    const char *rule = getenv("SIM_UM_REFUSE");
    size_t n = strlen(function);
    bool named = rule && strncmp(rule, function, n) == 0 && rule[n] == ':';
    return named ? (CUptiResult)atoi(rule + n + 1) : CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                                  CUpti_BuffersCallbackCompleteFunc take)
{
    CUptiResult r = refusal(__func__);
    if (r == CUPTI_SUCCESS) {
        request = give;
        complete = take;
    }
    return r;
}

EXPORT CUptiResult cuptiActivityConfigureUnifiedMemoryCounter(
    CUpti_ActivityUnifiedMemoryCounterConfig *config, uint32_t count)
{
    CUptiResult r = refusal(__func__);
    for (uint32_t i = 0; r == CUPTI_SUCCESS && i < count; i++)
        wanted[config[i].kind] = config[i].enable;
    return r;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    CUptiResult r = refusal(__func__);
    enabled = r == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
    return r;
}

EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                              CUpti_Activity **record)
{
    uint8_t *next =
        *record ? (uint8_t *)*record + sizeof(CUpti_ActivityUnifiedMemoryCounter3) : buffer;
    if (next >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)next;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    const char *text = getenv("SIM_UM");
    uint8_t *buffer;
    size_t size, most, used = 0;
    unsigned counter;
    unsigned long long value;
    int n;
    (void)flags;
    if (!enabled || !text)
        return CUPTI_SUCCESS;
    request(&buffer, &size, &most);
    while (sscanf(text, "%u:%llu%n", &counter, &value, &n) == 2) {
        CUpti_ActivityUnifiedMemoryCounter3 *r = (void *)(buffer + used);
        text += n + (text[n] == ',');
        if (counter >= 16 || !wanted[counter] || used + sizeof *r > size)
            continue;
        r->kind = CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER;
        r->counterKind = (CUpti_ActivityUnifiedMemoryCounterKind)counter;
        r->value = value;
        used += sizeof *r;
    }
    complete(NULL, 0, buffer, size, used);
    return CUPTI_SUCCESS;
}
