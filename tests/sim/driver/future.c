/* SPDX-License-Identifier: MIT */
/*
 * Parts of the next CUDA's driver that libzc does not know: functions that no header
 * names, found by all routes.  Here those that no body could tell from others; the rest are
 * cuMemcpyFutureAsync, cuLaunchFutureFunc and cuStreamBeginFutureCapture, beside what they do.
 */
#include "call.h"

/* Writes down its argument registers, and the first two words of the stack behind them, in this
 * order: general registers, stack, vector registers. */
SIM_EXPORT uint64_t sim_future_registers[8 + 2 + 16];

#if defined(__x86_64__)
__asm__("    .text\n"
        "    .globl cuFutureRegisters\n"
        "    .type cuFutureRegisters, @function\n"
        "cuFutureRegisters:\n"
        "    endbr64\n"
        "    mov sim_future_registers@GOTPCREL(%rip), %r11\n"
        "    mov %rdi, 0(%r11)\n"
        "    mov %rsi, 8(%r11)\n"
        "    mov %rdx, 16(%r11)\n"
        "    mov %rcx, 24(%r11)\n"
        "    mov %r8, 32(%r11)\n"
        "    mov %r9, 40(%r11)\n"
        "    mov %rax, 48(%r11)\n"
        "    mov %r10, 56(%r11)\n"
        "    mov 8(%rsp), %rax\n"
        "    mov %rax, 64(%r11)\n"
        "    mov 16(%rsp), %rax\n"
        "    mov %rax, 72(%r11)\n"
        "    movups %xmm0, 80(%r11)\n"
        "    movups %xmm1, 96(%r11)\n"
        "    movups %xmm2, 112(%r11)\n"
        "    movups %xmm3, 128(%r11)\n"
        "    movups %xmm4, 144(%r11)\n"
        "    movups %xmm5, 160(%r11)\n"
        "    movups %xmm6, 176(%r11)\n"
        "    movups %xmm7, 192(%r11)\n"
        "    xor %eax, %eax\n"
        "    ret\n"
        "    .size cuFutureRegisters, .-cuFutureRegisters\n");
#elif defined(__aarch64__)
__asm__("    .text\n"
        "    .globl cuFutureRegisters\n"
        "    .type cuFutureRegisters, %function\n"
        "cuFutureRegisters:\n"
        "    hint #34\n"
        "    adrp x16, :got:sim_future_registers\n"
        "    ldr x16, [x16, :got_lo12:sim_future_registers]\n"
        "    stp x0, x1, [x16]\n"
        "    stp x2, x3, [x16, #16]\n"
        "    stp x4, x5, [x16, #32]\n"
        "    stp x6, x7, [x16, #48]\n"
        "    ldp x0, x1, [sp]\n"
        "    stp x0, x1, [x16, #64]\n"
        "    stp q0, q1, [x16, #80]\n"
        "    stp q2, q3, [x16, #112]\n"
        "    stp q4, q5, [x16, #144]\n"
        "    stp q6, q7, [x16, #176]\n"
        "    mov w0, #0\n"
        "    ret\n"
        "    .size cuFutureRegisters, .-cuFutureRegisters\n");
#endif

/* No function. */
SIM_EXPORT int cuFutureData = 7;

/* More functions than libzc has trampolines: cuFuture0Many, cuFuture1Many and so on. */
#if defined(__x86_64__)
#define FUNCTION "%function\n    endbr64\n    xor %eax, %eax\n    ret\n"
#else
#define FUNCTION "%function\n    hint #34\n    mov w0, #0\n    ret\n"
#endif
__asm__("    .altmacro\n"
        "    .macro many number\n"
        "    .globl cuFuture\\number\\()Many\n"
        "cuFuture\\number\\()Many:\n"
        "    .type cuFuture\\number\\()Many, " FUNCTION "    .endm\n"
        "    .set number, 0\n"
        "    .rept 600\n"
        "    many %number\n"
        "    .set number, number + 1\n"
        "    .endr\n"
        "    .noaltmacro\n");
