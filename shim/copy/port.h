/* SPDX-License-Identifier: MIT */
/* Which devices share a PCIe port, by sysfs. */
#pragma once

#include <stdint.h>

/* A number that is the same for all devices below one port of the host, by where a device's link in
 * /sys/bus/pci/devices leads.  Not 0. */
uint64_t zc_port_of_path(const char *path);

/* The same of a device of CUDA, which is taken for alone where sysfs does not say.  Asks the driver
 * and sysfs. */
uint64_t zc_port(int device);
