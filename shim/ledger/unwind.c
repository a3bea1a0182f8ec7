/* SPDX-License-Identifier: MIT */
/* Walks the calling thread's stack by call-frame information. */
#include "ledger/unwind.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ledger/cfi_read.h"

#define PAGE 4096ull                  /* The smallest page of both architectures. */
#define FRAME_MAX ((uint64_t)1 << 26) /* Larger frames end the walk. */
#define FRAMES_MAX 64                 /* Most frames of a walk, with those inside libzc. */

enum { DW_OP_deref = 0x06, DW_OP_plus_uconst = 0x23, DW_OP_breg0 = 0x70 };

/* rt_sigprocmask(2) reads the new mask before it checks `how`, so an invalid `how` makes it a test:
 * EFAULT for an unreadable address, EINVAL otherwise.  No system call filter can forbid it, because
 * glibc needs it. */
bool zc_readable(uint64_t address)
{
    int saved = errno;
    bool ok = syscall(SYS_rt_sigprocmask, -1, address, NULL, 8) != -1 || errno == EINVAL;
    errno = saved;
    return ok;
}

ZC_READS_FRAMES static uint64_t load_word(uint64_t address)
{
    return *(const volatile uint64_t *)(uintptr_t)address;
}

static bool stack_word(struct zc_walk *walk, uint64_t address, uint64_t *value_out)
{
    if (address % sizeof(uint64_t) != 0 || address < PAGE)
        return false;
    if (address / PAGE != walk->page) {
        if (!zc_readable(address))
            return false;
        walk->page = address / PAGE;
    }
    *value_out = load_word(address);
    return true;
}

static void cache_word(struct zc_walk *walk, uint64_t address, uint64_t value)
{
    if (address < walk->from)
        return;
    if (walk->words < ZC_WALK_WORDS) {
        walk->at[walk->words] = address;
        walk->value[walk->words] = value;
    }
    walk->words++;
}

bool zc_walk_read(struct zc_walk *walk, uint64_t address, uint64_t *value_out)
{
    if (!stack_word(walk, address, value_out))
        return false;
    cache_word(walk, address, *value_out);
    return true;
}

/* The frame pointer register of the current frame.  The word that it was saved in is cached only
 * here: most functions use the register for other things, and its values do not make a path. */
static uint64_t frame_pointer(struct zc_walk *walk)
{
    if (walk->fp_at != 0)
        cache_word(walk, walk->fp_at, walk->fp);
    walk->fp_at = 0;
    return walk->fp;
}

bool zc_expr_value(const struct zc_cfi_expr *expr, struct zc_walk *walk, uint64_t *value)
{
    struct zc_cursor c = {expr->code, expr->code + expr->bytes, false};
    uint64_t op = zc_cursor_fixed(&c, 1);
    if (op != DW_OP_breg0 + ZC_CFI_SP && op != DW_OP_breg0 + ZC_CFI_FP)
        return false;
    *value = op == DW_OP_breg0 + ZC_CFI_SP ? walk->sp : frame_pointer(walk);
    *value += (uint64_t)zc_cursor_sleb(&c);
    if (c.at < c.end &&
        (zc_cursor_fixed(&c, 1) != DW_OP_deref || c.bad || !zc_walk_read(walk, *value, value)))
        return false;
    if (c.at < c.end && zc_cursor_fixed(&c, 1) == DW_OP_plus_uconst)
        *value += zc_cursor_uleb(&c);
    return !c.bad && c.at == c.end;
}

static bool rule_value(struct zc_walk *walk, const struct zc_cfi_rule *rule, uint64_t cfa,
                       uint64_t *value)
{
    uint64_t address;
    switch (rule->how) {
    case ZC_CFI_SAME:
        return true;
    case ZC_CFI_AT:
        return zc_walk_read(walk, cfa + (uint64_t)rule->offset, value);
    case ZC_CFI_AT_EXPR:
        return zc_expr_value(&rule->expr, walk, &address) && zc_walk_read(walk, address, value);
    default:
        return false;
    }
}

/* Removes AArch64's pointer authentication code; the instruction does nothing on CPUs without
 * it. */
static uint64_t strip_signature(uint64_t pc, bool is_signed)
{
#if defined(__aarch64__)
    if (is_signed) {
        register uint64_t x30 __asm__("x30") = pc;

        __asm__("hint 7" : "+r"(x30)); /* xpaclri */
        return x30;
    }
#endif
    (void)is_signed;
    return pc;
}

static bool cfa_value(struct zc_walk *walk, const struct zc_cfi_row *row, uint64_t *cfa_out)
{
    if (row->cfa_expr.code != NULL)
        return zc_expr_value(&row->cfa_expr, walk, cfa_out);
    if (row->cfa_reg != ZC_CFI_SP && row->cfa_reg != ZC_CFI_FP)
        return false;
    *cfa_out = row->cfa_reg == ZC_CFI_SP ? walk->sp : frame_pointer(walk);
    *cfa_out += (uint64_t)row->cfa_offset;
    return true;
}

/* Sets the frame pointer register to the caller's. */
static bool leave_fp(struct zc_walk *walk, const struct zc_cfi_rule *rule, uint64_t cfa)
{
    switch (rule->how) {
    case ZC_CFI_SAME:
        return true;
    case ZC_CFI_AT:
        walk->fp_at = cfa + (uint64_t)rule->offset;
        return stack_word(walk, walk->fp_at, &walk->fp);
    case ZC_CFI_UNDEFINED:
    case ZC_CFI_UNSUPPORTED:
        /* A lost value matters only if an outer frame needs it; 0 leads nowhere. */
        walk->fp_at = 0;
        walk->fp = 0;
        return true;
    default:
        walk->fp_at = 0;
        return rule_value(walk, rule, cfa, &walk->fp);
    }
}

/* Leaves the current frame.  False at the outermost one, and if something is strange. */
static bool frame_leave(struct zc_walk *walk, const struct zc_object *object)
{
    struct zc_cfi_program program;
    struct zc_cfi_row row;
    uint64_t cfa = 0, pc = 0;
    /* A call may be a function's last instruction, so the address before is used. */
    if (!zc_cfi_find(object, walk->pc - 1, &program) || !zc_cfi_run(&program, walk->pc - 1, &row) ||
        row.signal)
        return false;
    if (!cfa_value(walk, &row, &cfa) || cfa <= walk->sp || cfa - walk->sp > FRAME_MAX ||
        cfa % sizeof(uint64_t) != 0)
        return false;
    if (row.ra.how == ZC_CFI_SAME || !rule_value(walk, &row.ra, cfa, &pc))
        return false;
    if (!leave_fp(walk, &row.fp, cfa))
        return false;
    walk->pc = strip_signature(pc, row.ra_signed);
    walk->sp = cfa;
    return walk->pc > PAGE;
}

/* Not inlined: the registers read are those of this function, whose own information describes
 * them. */
__attribute__((noinline)) void
zc_unwind(struct zc_walk *walk, uint64_t from,
          bool (*visit)(uint64_t pc, const struct zc_object *object, void *arg), void *arg)
{
    struct zc_object object;
    walk->from = from;
    walk->fp_at = 0;
    walk->page = 0;
    walk->words = 0;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(walk->pc), "=&r"(walk->sp), "=&r"(walk->fp));
#else
    __asm__ volatile("adr %0, .\n\tadd %0, %0, 4\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(walk->pc), "=&r"(walk->sp), "=&r"(walk->fp));
#endif
    for (int i = 0; i < FRAMES_MAX; i++) {
        bool known = zc_object_find(walk->pc - 1, &object);
        if (walk->sp > from && !visit(walk->pc, known ? &object : NULL, arg))
            return;
        if (!known || !frame_leave(walk, &object))
            return;
    }
}
