/* SPDX-License-Identifier: MIT */
/* The trampolines of driver/unknown.h: all registers that may hold arguments are kept, and those on
 * the stack stay where they are. */
#include "driver/unknown.h"

    .text

#define FRAME 192 /* Eight words of general registers, and eight vector registers. */

    .type common, @function
    .p2align 4
common:
    .cfi_startproc
    push %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    sub $FRAME, %rsp
    mov %rdi, 0(%rsp)
    mov %rsi, 8(%rsp)
    mov %rdx, 16(%rsp)
    mov %rcx, 24(%rsp)
    mov %r8, 32(%rsp)
    mov %r9, 40(%rsp)
    mov %rax, 48(%rsp)              /* al: how many vector registers a variadic call uses. */
    mov %r10, 56(%rsp)
    movaps %xmm0, 64(%rsp)
    movaps %xmm1, 80(%rsp)
    movaps %xmm2, 96(%rsp)
    movaps %xmm3, 112(%rsp)
    movaps %xmm4, 128(%rsp)
    movaps %xmm5, 144(%rsp)
    movaps %xmm6, 160(%rsp)
    movaps %xmm7, 176(%rsp)
    mov %r11d, %edi
    call zc_unknown_before
    mov %rax, %r11
    test %rdx, %rdx
    jnz 1f
    mov 0(%rsp), %rdi
    mov 8(%rsp), %rsi
    mov 16(%rsp), %rdx
    mov 24(%rsp), %rcx
    mov 32(%rsp), %r8
    mov 40(%rsp), %r9
    mov 48(%rsp), %rax
    mov 56(%rsp), %r10
    movaps 64(%rsp), %xmm0
    movaps 80(%rsp), %xmm1
    movaps 96(%rsp), %xmm2
    movaps 112(%rsp), %xmm3
    movaps 128(%rsp), %xmm4
    movaps 144(%rsp), %xmm5
    movaps 160(%rsp), %xmm6
    movaps 176(%rsp), %xmm7
    .cfi_remember_state
    leave
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
    jmp *%r11
1:  .cfi_restore_state
    leave                           /* The answer is in rax. */
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbp
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
    endbr64
    mov $slot, %r11d
    jmp common
    .set slot, slot + 1
    .endr
    .cfi_endproc

    .section .note.GNU-stack, "", @progbits
