/* SPDX-License-Identifier: MIT */
/*
 * cudaGetDriverEntryPoint: the runtime's way to the driver's entry points ends in the driver's own,
 * cuGetProcAddress, with the default stream of the caller's build.
 */
#include "../runtime.h"

_Static_assert((int)cudaEnableLegacyStream == (int)CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
                   (int)cudaEnablePerThreadDefaultStream ==
                       (int)CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
               "one set of flags, two names");

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t error = rt_load();
    CUresult result;

    if (error == cudaSuccess && (symbol == NULL || function == NULL))
        error = cudaErrorInvalidValue;
    if (error != cudaSuccess)
        return rt_fail(error);
    if (flags == cudaEnableDefault && RT_PER_THREAD)
        flags = cudaEnablePerThreadDefaultStream;
    result = rt_driver.cuGetProcAddress(symbol, function, (int)version, flags, &answer);
    if (status != NULL)
        *status = (enum cudaDriverEntryPointQueryResult)answer;
    /* A name that the driver lacks is told by the status, and is no error, where there is one. */
    if (result == CUDA_ERROR_NOT_FOUND && status != NULL)
        return cudaSuccess;
    return rt_return(result);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
