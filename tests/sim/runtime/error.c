/* SPDX-License-Identifier: MIT */
/* The thread's last error, and the names and texts of errors. */
#include "runtime.h"

static __thread cudaError_t last_error;

/* One row of error.def. */
static const struct {
    cudaError_t error;
    const char *name;
    const char *text; /* NULL: the name says it */
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "error.def"
};

cudaError_t rt_fail(cudaError_t error)
{
    last_error = error;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* Clears also the errors that break a context; the driver raises those again at the next call. */
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

static int row_of(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return (int)i;
    }
    return -1;
}

const char *cudaGetErrorName(cudaError_t error)
{
    int row = row_of(error);

    return row < 0 ? "unrecognized error code" : errors[row].name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    int row = row_of(error);

    if (row < 0)
        return "unrecognized error code";
    return errors[row].text != NULL ? errors[row].text : errors[row].name;
}
