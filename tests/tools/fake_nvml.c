/* SPDX-License-Identifier: MIT */
/* A stand-in for libnvidia-ml.so.1: one device whose link moves 1 GiB to it and 1 MiB from it
 * between two reads of its counters, which have 32 bits; it holds 34 of 139 GiB.
 * NVML_NO_COUNTERS=1 makes it a device without them, NVML_HANGS=1 a driver that does not answer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct value { /* nvmlFieldValue_t */
    unsigned field, scope;
    long long time, latency;
    unsigned kind, result;
    unsigned long long value;
};

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetFieldValues(void *device, int count, struct value *values);
const char *nvmlErrorString(int code);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory);
int nvmlDeviceGetUtilizationRates(void *device, unsigned *use);
int nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *kilobytes);

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "Stand-in GPU");
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    (void)device;
    memory[0] = 139ull << 30; /* total, free, used */
    memory[1] = 105ull << 30;
    memory[2] = 34ull << 30;
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *use)
{
    (void)device;
    use[0] = 45;
    return 0;
}

int nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *kilobytes)
{
    (void)device;
    *kilobytes = counter == 0 ? 400000 : 12300000; /* sent, received */
    return 0;
}

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 1;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &device[index];
    return 0;
}

int nvmlDeviceGetFieldValues(void *device, int count, struct value *values)
{
    static uint32_t sent = 0xfff00000u, received = 0xfff00000u;

    (void)device;
    while (getenv("NVML_HANGS") != NULL)
        pause();
    sent += 1u << 20;
    received += 1u << 30;
    for (int i = 0; i < count; i++) {
        values[i].result = getenv("NVML_NO_COUNTERS") != NULL ? 3 : 0;
        values[i].value = values[i].field == 197 ? sent : received;
    }
    return 0;
}

const char *nvmlErrorString(int code)
{
    return code == 3 ? "Not Supported" : "?";
}
