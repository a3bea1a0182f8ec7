/* SPDX-License-Identifier: MIT */
/* The trampolines of driver/unknown.h: all registers that may hold arguments are kept, and those on
 * the stack stay where they are. */
#include "driver/unknown.h"

    .text

#define FRAME 224 /* The frame record, ten words of general registers, eight vector registers. */

    .type common, %function
    .p2align 4
common:
    .cfi_startproc
    stp x29, x30, [sp, #-FRAME]!
    .cfi_adjust_cfa_offset FRAME
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w16
    bl zc_unknown_before
    cbnz x1, 1f
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldr x8, [sp, #80]
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    .cfi_remember_state
    ldp x29, x30, [sp], #FRAME
    .cfi_adjust_cfa_offset -FRAME
    .cfi_restore x29
    .cfi_restore x30
    br x16
1:  .cfi_restore_state
    ldp x29, x30, [sp], #FRAME      /* The answer is in x0. */
    .cfi_adjust_cfa_offset -FRAME
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size common, .-common

    .globl zc_unknown_entries
    .hidden zc_unknown_entries
    .p2align 4
zc_unknown_entries:
    .cfi_startproc
    .set slot, 0
    .rept ZC_UNKNOWN_SLOTS          /* Of 16 bytes each. */
    .p2align 4
    hint #34                        /* bti c */
    mov w16, #slot
    b common
    .set slot, slot + 1
    .endr
    .cfi_endproc

    .section .note.GNU-stack, "", %progbits
