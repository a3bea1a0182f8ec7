/* SPDX-License-Identifier: MIT */
/* The SIGSEGV handler: serves faults in protected pages, and forwards everything else. */
#include "fault/fault.h"

#include <errno.h>
#include <ucontext.h>

#include "base/module.h"
#include "fault/sigsegv.h"
#include "fault/sigmask_repair.h"

/* Protected or missing private anonymous pages raise only SIGSEGV.  SIGBUS means memory behind the
 * end of a file, or broken hardware (signal(7)); changes of protection never cause it. */

const struct zc_fault_ops *zc_fault_ops;

/* The instruction by which zc_fault_peek() reads, and where it continues after a failed read. */
extern const char zc_peek_reads[] __attribute__((visibility("hidden")));
extern const char zc_peek_ends[] __attribute__((visibility("hidden")));

/* The labels allow only one copy of the code. */
__attribute__((noinline)) bool zc_fault_peek(void *to, const void *from, unsigned long n)
{
#if defined(__x86_64__)
    __asm__ volatile("zc_peek_reads: rep movsb\n"
                     "zc_peek_ends:"
                     : "+D"(to), "+S"(from), "+c"(n)
                     :
                     : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("1: cbz %2, zc_peek_ends\n"
                     "zc_peek_reads: ldrb w9, [%1]\n"
                     "strb w9, [%0], #1\n"
                     "add %1, %1, #1\n"
                     "sub %2, %2, #1\n"
                     "b 1b\n"
                     "zc_peek_ends:"
                     : "+r"(to), "+r"(from), "+r"(n)
                     :
                     : "w9", "memory");
#endif
    return n == 0;
}

/* The instructions by which zc_fault_probe() accesses the program's memory, and where it
 * continues. */
extern const char zc_probe_begins[] __attribute__((visibility("hidden")));
extern const char zc_probe_ends[] __attribute__((visibility("hidden")));

/* The write stores the value that is there, atomically, so it changes nothing. */
__attribute__((noinline)) void zc_fault_probe(uintptr_t address, bool write)
{
#if defined(__x86_64__)
    __asm__ volatile("zc_probe_begins: test %1, %1\n"
                     "jnz 1f\n"
                     "movb (%0), %b1\n"
                     "jmp zc_probe_ends\n"
                     "1: lock orb $0, (%0)\n"
                     "zc_probe_ends:"
                     :
                     : "r"(address), "r"((int)write)
                     : "memory", "cc");
#elif defined(__aarch64__)
    __asm__ volatile("zc_probe_begins: cbnz %w1, 1f\n"
                     "ldrb w9, [%0]\n"
                     "b zc_probe_ends\n"
                     "1: ldaxrb w9, [%0]\n"
                     "stlxrb w10, w9, [%0]\n"
                     "cbnz w10, 1b\n"
                     "zc_probe_ends:"
                     :
                     : "r"(address), "r"((int)write)
                     : "w9", "w10", "memory");
#endif
}

#if defined(__x86_64__)
static uintptr_t *pc_of(ucontext_t *context)
{
    return (uintptr_t *)&context->uc_mcontext.gregs[REG_RIP];
}

/* Bit 1 of the page fault's error code says write (Intel SDM, volume 3, "Interrupt 14"). */
static bool is_write(const ucontext_t *context)
{
    return context->uc_mcontext.gregs[REG_ERR] & 2;
}
#elif defined(__aarch64__)
static uintptr_t *pc_of(ucontext_t *context)
{
    return (uintptr_t *)&context->uc_mcontext.pc;
}

/* Bit 6 of the syndrome, WnR, says write; the kernel adds the record for every fault (Linux,
 * arch/arm64/include/uapi/asm/sigcontext.h). */
static bool is_write(const ucontext_t *context)
{
    const char *record = (const char *)context->uc_mcontext.__reserved;
    for (const struct _aarch64_ctx *head = (const void *)record; head->magic && head->size;
         record += head->size, head = (const void *)record)
        if (head->magic == ESR_MAGIC)
            return ((const struct esr_context *)head)->esr & 0x40;
    return true;
}
#endif

/* Ends a probe if the program allows the access, whatever libzc itself has closed.  Otherwise the
 * fault is the program's own. */
static bool end_probe(uintptr_t address, ucontext_t *context)
{
    const struct zc_fault_ops *ops = __atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE);
    if (!ops->permits(address, is_write(context)))
        return false;
    *pc_of(context) = (uintptr_t)zc_probe_ends;
    return true;
}

static bool probes(ucontext_t *context)
{
    uintptr_t pc = *pc_of(context);
    return pc >= (uintptr_t)zc_probe_begins && pc < (uintptr_t)zc_probe_ends;
}

static bool serve(const siginfo_t *info, ucontext_t *context)
{
    /* Nothing is opened that is not there: a child may have none of a file's pages. */
    bool mapped = info->si_code == SEGV_ACCERR;
    if (!mapped && info->si_code != SEGV_MAPERR)
        return false;
    uintptr_t address = (uintptr_t)info->si_addr;
    const struct zc_fault_ops *ops = __atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE);
    if (mapped && probes(context))
        return end_probe(address, context);
    if (mapped && ops->owns(address) && ops->fault(address, is_write(context)))
        return true;
    if (*pc_of(context) != (uintptr_t)zc_peek_reads)
        return false;
    *pc_of(context) = (uintptr_t)zc_peek_ends;
    return true;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    int error = errno;
    (void)sig;
    zc_sigsegv_enter();
    bool served = serve(info, context);
    errno = error;
    if (!served)
        zc_sigsegv_forward(info, context);
}

const char *zc_fault_start(const struct zc_fault_ops *ops)
{
    if (!__atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE)) {
        /* Stored first, because the handler needs it. */
        __atomic_store_n(&zc_fault_ops, ops, __ATOMIC_SEQ_CST);
        zc_sigsegv_start(on_signal);
        zc_repair_actions();
    }
    return zc_repair_threads();
}

const struct zc_module zc_module_fault = {.child = zc_sigsegv_child};
