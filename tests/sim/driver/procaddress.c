/* SPDX-License-Identifier: MIT */
/* cuGetProcAddress: the address of the exported symbol for a name, a version and a stream flavour.
 */
#include "procaddress.h"
#include "call.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SIM_WITHOUT is a list of names that a driver without them would not know. */
static bool withheld(const char *name)
{
    const char *list = getenv("SIM_WITHOUT");
    size_t n = strlen(name);
    while (list && *list) {
        size_t item = strcspn(list, ",");
        if (item == n && strncmp(list, name, n) == 0)
            return true;
        list += item;
        list += *list == ',';
    }
    return false;
}

/* The newest ABI that a program of `version` may know: NULL, with *known saying whether there is a
 * newer one. */
static const char *symbol_of(const char *name, int version, bool *known)
{
    const char *symbol = NULL;
    *known = false;
    for (const struct sim_version *v = sim_versions; v->base; v++)
        if (strcmp(v->base, name) == 0) {
            *known = true;
            if (v->version <= version)
                symbol = v->symbol;
        }
    if (*known)
        return symbol;
    *known = sim_call_find(name) != NULL;
    return *known ? name : NULL;
}

static void *address_of(const char *symbol, cuuint64_t flags)
{
    static const char *const suffixes[] = {"_ptsz", "_ptds"};
    char twin[128];
    for (int i = 0; i < 2 && (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM); i++) {
        snprintf(twin, sizeof twin, "%s%s", symbol, suffixes[i]);
        struct sim_call *call = sim_call_find(twin);
        if (call)
            return call->address;
    }
    struct sim_call *call = sim_call_find(symbol);
    return call ? call->address : NULL;
}

static CUresult find(const char *name, void **out, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    bool known = false;
    if (!name || !out || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    const char *symbol = withheld(name) ? NULL : symbol_of(name, version, &known);
    *out = symbol ? address_of(symbol, flags) : NULL;
    if (status)
        *status = *out    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

SIM_API_ALWAYS(cuGetProcAddress_v2,
               (const char *name, void **out, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult *status),
               (name, out, version, flags, status))
{
    return find(name, out, version, flags, status);
}

SIM_API_ALWAYS(cuGetProcAddress, (const char *name, void **out, int version, cuuint64_t flags),
               (name, out, version, flags))
{
    return find(name, out, version, flags, NULL);
}
