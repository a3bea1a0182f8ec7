/* SPDX-License-Identifier: MIT */
/* Devices below one port of the host have the bandwidth of one. */
#include "copy/port.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "driver/real.h"

/* `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`: a host bridge, its port, and what is
 * below that. */
uint64_t zc_port_of_path(const char *path)
{
    const char *bridge = strstr(path, "/pci");
    const char *port = bridge ? strchr(bridge + 1, '/') : NULL;
    const char *end = port ? strchr(port + 1, '/') : NULL;
    return end ? zc_hash(bridge, (size_t)(end - bridge)) : zc_hash(path, strlen(path));
}

uint64_t zc_port(int device)
{
    char bus[32], link[64], path[PATH_MAX];
    struct zc_text name = zc_text_on(link, sizeof(link));
    if (zc_real.cuDeviceGetPCIBusId(bus, sizeof(bus), device) != CUDA_SUCCESS)
        return zc_hash(&device, sizeof(device));
    for (char *c = bus; *c; c++)
        *c = (char)tolower(*c);
    zc_text_fmt(&name, "/sys/bus/pci/devices/%s", bus);
    ssize_t n = readlink(zc_text_cstr(&name), path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    return zc_port_of_path(n < 0 ? bus : path);
}
