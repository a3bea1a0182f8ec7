/* SPDX-License-Identifier: MIT */
/*
 * dlsym, dlopen and dlmopen as tail jumps.  glibc takes the caller's return address to know whose
 * RTLD_NEXT, RUNPATH and namespace are meant, so no frame of libzc may stand between the caller and
 * the real function: the C half only looks at the arguments and says where to go.
 */
    .text

/* tail name, chooser: calls chooser(argument registers).  x0 = address to continue at; x1 = 1 when
 * x0 is the answer itself. */
.macro tail name, chooser
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint #34                        /* bti c */
    stp x29, x30, [sp, #-48]!
    .cfi_adjust_cfa_offset 48
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    bl \chooser
    mov x16, x0
    mov x17, x1
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_adjust_cfa_offset -48
    .cfi_restore x29
    .cfi_restore x30
    cbz x17, 1f
    mov x0, x16
    ret
1:  br x16
    .cfi_endproc
    .size \name, .-\name
.endm

    tail dlsym, zc_dlsym_choose
    tail dlopen, zc_dlopen_choose
    tail dlmopen, zc_dlmopen_choose

    .section .note.GNU-stack, "", %progbits
