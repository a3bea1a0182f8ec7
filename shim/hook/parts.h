/* SPDX-License-Identifier: MIT */
/* Copies and sets that cross the border between device and host memory in a split block. */
#pragma once

#include "driver/copy.h"

/*
 * True for a copy or set that has to be made in parts.  Linear copies of arrays are left to the
 * driver: they don't say where in the array they are.
 */
bool zc_parts_any(const struct zc_copy *c);

/* Bytes of a line, or of an operand with two equal addresses, up to the first border. */
size_t zc_parts_line(CUdeviceptr dst, CUdeviceptr src, size_t n);

/* Makes each part as if the program had asked for it: decides, makes and records it.  c->result is
 * the first code of a failure, which has been explained. */
void zc_parts_copy(struct zc_copy *c);
