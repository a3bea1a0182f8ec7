/*
 * DWARF expressions in call-frame information.  They are rare: linkers describe the PLT by one, and
 * compilers the frames of functions that realign the stack.
 */
#include "ledger/cfi_read.h"
#include "ledger/unwind.h"

#define DEPTH 16 /* Of the expression's stack. */
#define STEPS 64 /* Operations at most. */

enum {
    DW_OP_addr = 0x03,
    DW_OP_deref = 0x06,
    DW_OP_const1u = 0x08, /* To 0x0f: constants of 1, 2, 4, 8 bytes, unsigned and signed. */
    DW_OP_const8s = 0x0f,
    DW_OP_dup = 0x12,
    DW_OP_drop = 0x13,
    DW_OP_and = 0x1a,
    DW_OP_minus = 0x1c,
    DW_OP_mul = 0x1e,
    DW_OP_neg = 0x1f,
    DW_OP_not = 0x20,
    DW_OP_or = 0x21,
    DW_OP_plus = 0x22,
    DW_OP_plus_uconst = 0x23,
    DW_OP_shl = 0x24,
    DW_OP_shr = 0x25,
    DW_OP_shra = 0x26,
    DW_OP_xor = 0x27,
    DW_OP_eq = 0x29,
    DW_OP_ge = 0x2a,
    DW_OP_gt = 0x2b,
    DW_OP_le = 0x2c,
    DW_OP_lt = 0x2d,
    DW_OP_ne = 0x2e,
    DW_OP_lit0 = 0x30,
    DW_OP_lit31 = 0x4f,
    DW_OP_breg0 = 0x70,
    DW_OP_breg31 = 0x8f,
    DW_OP_nop = 0x96
};

struct evaluation {
    struct zc_cursor c;    /* Next operation. */
    struct zc_walk *walk;  /* Registers and memory. */
    uint64_t stack[DEPTH]; /* Operands. */
    unsigned depth;        /* How many. */
};

static void push(struct evaluation *e, uint64_t value)
{
    if (e->depth == DEPTH)
        e->c.bad = true;
    else
        e->stack[e->depth++] = value;
}

static uint64_t pop(struct evaluation *e)
{
    if (e->depth == 0) {
        e->c.bad = true;
        return 0;
    }
    return e->stack[--e->depth];
}

static uint64_t register_value(struct evaluation *e, unsigned reg)
{
    switch (reg) {
    case ZC_CFI_SP:
        return e->walk->sp;
    case ZC_CFI_FP:
        return zc_walk_fp(e->walk);
#if defined(__x86_64__)
    case ZC_CFI_RA:
        return e->walk->pc;
#endif
    default:
        e->c.bad = true;
        return 0;
    }
}

/* Operations that take two operands; false for others. */
static bool run_binary(struct evaluation *e, uint8_t op)
{
    uint64_t b, a;

    if (op != DW_OP_and && (op < DW_OP_minus || op > DW_OP_ne || op == DW_OP_neg ||
                            op == DW_OP_not || op == DW_OP_plus_uconst || op == 0x1d || op == 0x28))
        return false;
    b = pop(e);
    a = pop(e);
    switch (op) {
    case DW_OP_and:
        push(e, a & b);
        break;
    case DW_OP_minus:
        push(e, a - b);
        break;
    case DW_OP_mul:
        push(e, a * b);
        break;
    case DW_OP_or:
        push(e, a | b);
        break;
    case DW_OP_plus:
        push(e, a + b);
        break;
    case DW_OP_shl:
        push(e, b < 64 ? a << b : 0);
        break;
    case DW_OP_shr:
        push(e, b < 64 ? a >> b : 0);
        break;
    case DW_OP_shra:
        push(e, (uint64_t)((int64_t)a >> (b < 64 ? b : 63)));
        break;
    case DW_OP_xor:
        push(e, a ^ b);
        break;
    case DW_OP_eq:
        push(e, a == b);
        break;
    case DW_OP_ge:
        push(e, (int64_t)a >= (int64_t)b);
        break;
    case DW_OP_gt:
        push(e, (int64_t)a > (int64_t)b);
        break;
    case DW_OP_le:
        push(e, (int64_t)a <= (int64_t)b);
        break;
    case DW_OP_lt:
        push(e, (int64_t)a < (int64_t)b);
        break;
    default:
        push(e, a != b);
        break;
    }
    return true;
}

/* All other operations. */
static void run_other(struct evaluation *e, uint8_t op)
{
    uint64_t value = 0;

    switch (op) {
    case DW_OP_nop:
        break;
    case DW_OP_addr:
        push(e, zc_cursor_fixed(&e->c, 8));
        break;
    case DW_OP_deref:
        e->c.bad |= !zc_walk_read(e->walk, pop(e), &value);
        push(e, value);
        break;
    case DW_OP_dup:
        value = pop(e);
        push(e, value);
        push(e, value);
        break;
    case DW_OP_drop:
        pop(e);
        break;
    case DW_OP_neg:
        push(e, 0 - pop(e));
        break;
    case DW_OP_not:
        push(e, ~pop(e));
        break;
    case DW_OP_plus_uconst:
        value = pop(e);
        push(e, value + zc_cursor_uleb(&e->c));
        break;
    default:
        e->c.bad = true;
    }
}

static void run_one(struct evaluation *e, uint8_t op)
{
    if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
        push(e, op - DW_OP_lit0);
    } else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
        uint64_t value = register_value(e, op - DW_OP_breg0);

        push(e, value + (uint64_t)zc_cursor_sleb(&e->c));
    } else if (op >= DW_OP_const1u && op <= DW_OP_const8s) {
        size_t bytes = (size_t)1 << ((op - DW_OP_const1u) / 2);

        push(e, op % 2 == 0 ? zc_cursor_fixed(&e->c, bytes)
                            : (uint64_t)zc_cursor_signed(&e->c, bytes));
    } else if (!run_binary(e, op)) {
        run_other(e, op);
    }
}

bool zc_expr_value(const struct zc_cfi_expr *expr, struct zc_walk *walk, const uint64_t *first,
                   uint64_t *value_out)
{
    struct evaluation e = {.walk = walk};

    if (expr->code == NULL)
        return false;
    e.c = (struct zc_cursor){expr->code, expr->code + expr->bytes, false};
    if (first != NULL)
        push(&e, *first);
    for (int i = 0; i < STEPS && e.c.at < e.c.end && !e.c.bad; i++)
        run_one(&e, (uint8_t)zc_cursor_fixed(&e.c, 1));
    *value_out = pop(&e);
    return !e.c.bad && e.c.at == e.c.end;
}
