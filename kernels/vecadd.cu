/*
 * vecadd [elements]: adds two vectors of floats.
 * The textbook program: malloc, cudaMalloc, cudaMemcpy, one launch, cudaMemcpy back.
 */
#include "common.cuh"
#include "vecadd.cuh"

static float *device_copy(const float *host, size_t bytes)
{
    float *device;

    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    return device;
}

/* Every sum is a small whole number, so float arithmetic is exact and the checksum is fixed. */
static int verify(const float *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (c[i] != (float)(i % 1000) + (float)(i % 777))
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const unsigned threads = 256;
    struct report report = {};

    at_most_arguments(argc, argv, 1, "[elements]");
    size_t n = size_argument(argc, argv, 1, "elements", 1 << 20, 1, (size_t)1 << 32);
    size_t bytes = n * sizeof(float);
    report_size(&report, "elements", n);

    double start = now_ms();
    float *a = (float *)host_alloc(bytes);
    float *b = (float *)host_alloc(bytes);
    float *c = (float *)host_alloc(bytes);
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000);
        b[i] = (float)(i % 777);
    }
    report_ms(&report, "fill", now_ms() - start);

    start = now_ms();
    float *device_c;
    float *device_a = device_copy(a, bytes);
    float *device_b = device_copy(b, bytes);
    CHECK(cudaMalloc(&device_c, bytes));
    report_ms(&report, "copy_in", now_ms() - start);

    start = now_ms();
    vecadd<<<(unsigned)((n + threads - 1) / threads), threads>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    report_ms(&report, "kernel", now_ms() - start);

    start = now_ms();
    CHECK(cudaMemcpy(c, device_c, bytes, cudaMemcpyDeviceToHost));
    report_ms(&report, "copy_out", now_ms() - start);

    int verified = verify(c, n);
    uint64_t checksum = fnv1a(FNV_START, c, bytes);
    CHECK(cudaFree(device_a));
    CHECK(cudaFree(device_b));
    CHECK(cudaFree(device_c));
    free(a);
    free(b);
    free(c);
    return report_print(&report, "vecadd", checksum, verified);
}
