/* SPDX-License-Identifier: MIT */
/*
 * Call-frame information: how to leave a function's frame, read from .eh_frame (Linux Standard
 * Base, "Exception Frames"; DWARF 5, section 6.4).  Only three registers are followed: stack
 * pointer, frame pointer and return address.  Nearly all functions need no others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/object.h"

/* DWARF numbers of the registers that are followed (the ABI supplements of x86-64 and AArch64). */
#if defined(__x86_64__)
#define ZC_CFI_FP 6u
#define ZC_CFI_SP 7u
#define ZC_CFI_RA 16u
#elif defined(__aarch64__)
#define ZC_CFI_FP 29u
#define ZC_CFI_RA 30u
#define ZC_CFI_SP 31u
#endif

/* A DWARF expression inside .eh_frame. */
struct zc_cfi_expr {
    const uint8_t *code; /* Its operations. */
    size_t bytes;        /* Bytes of them. */
};

/* How the caller's value of a register is stored. */
enum zc_cfi_how {
    ZC_CFI_SAME,       /* Unchanged. */
    ZC_CFI_UNDEFINED,  /* Lost; for the return address: the outermost frame. */
    ZC_CFI_AT,         /* In memory at CFA + offset. */
    ZC_CFI_AT_EXPR,    /* In memory at the value of an expression. */
    ZC_CFI_UNSUPPORTED /* Elsewhere. */
};

struct zc_cfi_rule {
    enum zc_cfi_how how;     /* Selects the field below that counts. */
    int64_t offset;          /* Bytes from the CFA. */
    struct zc_cfi_expr expr; /* The address. */
};

/* The row of the table that is valid at one address. */
struct zc_cfi_row {
    uint64_t cfa_reg;            /* CFA = this register + cfa_offset, */
    int64_t cfa_offset;          /* bytes, */
    struct zc_cfi_expr cfa_expr; /* or, if it has code, the value of this expression. */
    struct zc_cfi_rule fp, ra;   /* The caller's frame pointer and the return address. */
    bool signal;                 /* The frame of a signal trampoline. */
    bool ra_signed;              /* The return address carries a pointer authentication code. */
};

/* The program of one function: its instructions and the parameters for reading them. */
struct zc_cfi_program {
    const uint8_t *init, *init_end; /* The CIE's instructions. */
    const uint8_t *code, *code_end; /* The FDE's. */
    uint64_t start, end;            /* Addresses of the function, [start, end). */
    uint64_t code_align;            /* Unit of address advances. */
    int64_t data_align;             /* Unit of offsets. */
    uint8_t encoding;               /* DW_EH_PE_* of addresses. */
    bool signal;                    /* Augmentation "S". */
};

/* Finds the program of the function that contains `pc`.  False if there is none in a known
 * format. */
bool zc_cfi_find(const struct zc_object *object, uint64_t pc, struct zc_cfi_program *out);

/* Runs the program up to `pc`.  False at an unknown or invalid instruction. */
bool zc_cfi_run(const struct zc_cfi_program *program, uint64_t pc, struct zc_cfi_row *out);
