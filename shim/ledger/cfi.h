/* SPDX-License-Identifier: MIT */
/*
 * Call-frame information: how to leave a function's frame, read from .eh_frame (Linux Standard
 * Base, "Exception Frames"; DWARF 5, section 6.4).  Only three registers are followed: stack
 * pointer, frame pointer and return address.  Nearly all functions need no others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/object.h"

/* The base of a place, or why there is none. */
enum zc_cfi_from {
    ZC_CFI_SAME, /* The register is unchanged. */
    ZC_CFI_LOST, /* Undefined, or stored in a way that is not followed. */
    ZC_CFI_SP,
    ZC_CFI_FP,
    ZC_CFI_CFA, /* The canonical frame address: the caller's stack pointer. */
};

/* An address: `from` + offset; with `deref` what the word there says, + more.  Frames that realign
 * the stack have that. */
struct zc_cfi_place {
    enum zc_cfi_from from;
    bool deref;
    int64_t offset, more; /* Bytes. */
};

/* How to leave a frame at one instruction. */
struct zc_cfi_row {
    struct zc_cfi_place cfa;    /* The CFA. */
    struct zc_cfi_place fp, ra; /* Of the caller's frame pointer, and of the return address. */
    bool ra_signed;             /* The return address carries a pointer authentication code. */
};

/* The program of one function: instructions, from which rows follow. */
struct zc_cfi_program {
    const uint8_t *init, *init_end; /* Those of the CIE, */
    const uint8_t *code, *code_end; /* and of the FDE. */
    uint64_t start, end;            /* Addresses of the function, [start, end). */
    uint64_t code_align;            /* Unit of address advances. */
    int64_t data_align;             /* Unit of offsets. */
};

/* Finds the program of the function that contains `pc`.  False for a signal trampoline, and if
 * there is none in a known format. */
bool zc_cfi_find(const struct zc_object *object, uint64_t pc, struct zc_cfi_program *out);

/* Runs the program up to `pc`.  False at an unknown or invalid instruction. */
bool zc_cfi_run(const struct zc_cfi_program *program, uint64_t pc, struct zc_cfi_row *out);
