/* SPDX-License-Identifier: MIT */
/* cuInit and the functions that look up driver functions. */
#include "base/life.h"
#include "driver/call.h"
#include "driver/unknown.h"
#include "ledger/counters.h"

/* The first successful cuInit starts libzc; a process that only looks for a driver is left alone.
 */
ZC_BODY(cuInit, (unsigned int flags))
{
    uint64_t begun = zc_counters_begin_start();
    CUresult result = real(flags);
    zc_counters_end_start(begun);
    if (result == CUDA_SUCCESS)
        zc_life_init();
    return result;
}

/* The driver answers first, with the program's own arguments; then the returned address is mapped
 * to what the program gets for it.  The name alone would be ambiguous, because it stands for
 * several functions by version and flags. cuGetProcAddress is a row, too, so a program that asks
 * for it gets the wrapper. */
static CUresult start_substitute(const char *symbol, void **pfn)
{
    if (!symbol || !*symbol || !pfn || !*pfn)
        return CUDA_SUCCESS;
    *pfn = zc_real_answer(symbol, *pfn);
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

ZC_BODY(cuGetProcAddress, (const char *symbol, void **pfn, int version, cuuint64_t flags))
{
    return real(symbol, pfn, version, flags) ?: start_substitute(symbol, pfn);
}

ZC_BODY(cuGetProcAddress_v2, (const char *symbol, void **pfn, int version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status))
{
    return real(symbol, pfn, version, flags, status) ?: start_substitute(symbol, pfn);
}
