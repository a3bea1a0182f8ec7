/* SPDX-License-Identifier: MIT */
/*
 * dlsym, dlopen and dlmopen as tail jumps.  glibc takes the caller's return address to know whose
 * RTLD_NEXT, RUNPATH and namespace are meant, so no frame of libzc may stand between the caller and
 * the real function: the C half only looks at the arguments and says where to go.
 */
    .text

/* tail name, chooser: calls chooser(argument registers), which returns the address to jump to, or
 * an answer.  rax = address to continue at; rdx = 1 when rax is the answer itself. */
.macro tail name, chooser
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    call \chooser
    mov %rdx, %r11
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %r11, %r11
    jz 1f
    ret
1:  jmp *%rax
    .cfi_endproc
    .size \name, .-\name
.endm

    tail dlsym, zc_dlsym_choose
    tail dlopen, zc_dlopen_choose
    tail dlmopen, zc_dlmopen_choose

    .section .note.GNU-stack, "", @progbits
