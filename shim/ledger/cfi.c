/* SPDX-License-Identifier: MIT */
/* Call-frame information: the program of a function, found by the sorted table in .eh_frame_hdr,
 * and run. */
#include "ledger/cfi.h"
#include "ledger/cfi_read.h"

/* One row of the table, both relative to .eh_frame_hdr. */
struct hdr_row {
    int32_t start; /* First address of a function. */
    int32_t fde;   /* Its FDE. */
};

static bool object_holds(const struct zc_object *object, uint64_t address, uint64_t bytes)
{
    return address >= object->start && address < object->end && bytes <= object->end - address;
}

/* The address of the FDE with the highest start at or below pc; 0 for none.  Linkers write the
 * table in only one format, with 32-bit offsets from the header. */
static uint64_t fde_address(const struct zc_object *object, uint64_t pc)
{
    const uint8_t *hdr = object->hdr;
    uint64_t base = (uint64_t)(uintptr_t)hdr;
    struct hdr_row row;
    uint32_t count, low = 0;
    if (hdr == NULL || !object_holds(object, base, 12) || hdr[0] != 1 ||
        hdr[1] != (ZC_PE_PCREL | ZC_PE_SDATA4) || hdr[2] != ZC_PE_UDATA4 ||
        hdr[3] != (ZC_PE_DATAREL | ZC_PE_SDATA4))
        return 0;
    memcpy(&count, hdr + 8, sizeof(count));
    if (count == 0 || !object_holds(object, base, 12 + (uint64_t)count * sizeof(row)))
        return 0;
    while (count > 1) {
        uint32_t half = count / 2;
        memcpy(&row, hdr + 12 + (uint64_t)(low + half) * sizeof(row), sizeof(row));
        if (base + (uint64_t)(int64_t)row.start <= pc)
            low += half;
        count -= half;
    }
    memcpy(&row, hdr + 12 + (uint64_t)low * sizeof(row), sizeof(row));
    return base + (uint64_t)(int64_t)row.fde;
}

/* A cursor over the CIE or FDE at `address`, after its length. */
static bool entry_open(const struct zc_object *object, uint64_t address, struct zc_cursor *out)
{
    const uint8_t *at = (const uint8_t *)(uintptr_t)address;
    uint32_t length;
    if (!object_holds(object, address, sizeof(length)))
        return false;
    memcpy(&length, at, sizeof(length));
    /* 0 ends the section; lengths from 0xfffffff0 on mean the 64-bit format. */
    if (length == 0 || length >= 0xfffffff0u ||
        !object_holds(object, address, 4 + (uint64_t)length))
        return false;
    *out = (struct zc_cursor){at + 4, at + 4 + length, false};
    return true;
}

/* The letters of an augmentation "z...": extra data of a CIE. */
static void augmentation(struct zc_cursor *c, const uint8_t *letters, struct zc_cfi_program *out)
{
    uint64_t bytes = zc_cursor_uleb(c);
    const uint8_t *data = zc_cursor_take(c, bytes);
    struct zc_cursor d = {data, data != NULL ? data + bytes : NULL, data == NULL};
    for (; *letters != 0 && !d.bad; letters++) {
        switch (*letters) {
        case 'R':
            out->encoding = (uint8_t)zc_cursor_fixed(&d, 1);
            break;
        case 'P':
            zc_cursor_format(&d, (uint8_t)zc_cursor_fixed(&d, 1));
            break;
        case 'L':
            zc_cursor_fixed(&d, 1);
            break;
        case 'S':
            out->signal = true;
            break;
        case 'B': /* AArch64: return addresses are signed with key B. */
        case 'G': /* AArch64: stack frames are tagged. */
            break;
        default:
            d.bad = true;
        }
    }
    c->bad |= d.bad;
}

static bool cie_read(const struct zc_object *object, uint64_t address, bool *augmented_out,
                     struct zc_cfi_program *out)
{
    struct zc_cursor c;
    if (!entry_open(object, address, &c) || zc_cursor_fixed(&c, 4) != 0)
        return false;
    uint64_t version = zc_cursor_fixed(&c, 1);
    const uint8_t *letters = c.at;
    while (zc_cursor_fixed(&c, 1) != 0)
        continue;
    if ((version != 1 && version != 3) || c.bad || (*letters != 0 && *letters != 'z'))
        return false;
    out->code_align = zc_cursor_uleb(&c);
    out->data_align = zc_cursor_sleb(&c);
    if ((version == 1 ? zc_cursor_fixed(&c, 1) : zc_cursor_uleb(&c)) != ZC_CFI_RA)
        return false;
    *augmented_out = *letters == 'z';
    if (*augmented_out)
        augmentation(&c, letters + 1, out);
    out->init = c.at;
    out->init_end = c.end;
    return !c.bad;
}

bool zc_cfi_find(const struct zc_object *object, uint64_t pc, struct zc_cfi_program *out)
{
    uint64_t address = fde_address(object, pc), place, back;
    bool augmented = false;
    struct zc_cursor c;
    memset(out, 0, sizeof(*out));
    if (address == 0 || !entry_open(object, address, &c))
        return false;
    /* The distance from here back to the CIE; 0 marks a CIE itself. */
    place = (uint64_t)(uintptr_t)c.at;
    back = zc_cursor_fixed(&c, 4);
    if (back == 0 || !cie_read(object, place - back, &augmented, out))
        return false;
    out->start = zc_cursor_address(&c, out->encoding);
    out->end = out->start + zc_cursor_format(&c, out->encoding & 0x0f);
    if (augmented)
        zc_cursor_take(&c, zc_cursor_uleb(&c));
    out->code = c.at;
    out->code_end = c.end;
    return !c.bad && pc >= out->start && pc < out->end;
}

#define REMEMBERED 8 /* Depth of DW_CFA_remember_state; compilers use 1. */

enum {
    DW_CFA_nop = 0x00,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0a,
    DW_CFA_restore_state = 0x0b,
    DW_CFA_def_cfa = 0x0c,
    DW_CFA_def_cfa_register = 0x0d,
    DW_CFA_def_cfa_offset = 0x0e,
    DW_CFA_def_cfa_expression = 0x0f,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_offset = 0x14,
    DW_CFA_val_offset_sf = 0x15,
    DW_CFA_val_expression = 0x16,
    DW_CFA_AARCH64_negate_ra_state = 0x2d,
    DW_CFA_GNU_args_size = 0x2e,
    DW_CFA_advance_loc = 0x40, /* From here on the low six bits are an operand. */
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0
};

struct machine {
    const struct zc_cfi_program *program; /* The program. */
    struct zc_cursor c;                   /* Next instruction. */
    uint64_t loc;                         /* Address from which the row is valid. */
    struct zc_cfi_row row;                /* The row so far. */
    struct zc_cfi_row initial;            /* The row after the CIE's instructions. */
    struct zc_cfi_row stack[REMEMBERED];  /* Rows of DW_CFA_remember_state. */
    unsigned depth;                       /* Rows on the stack. */
};

static struct zc_cfi_expr expression(struct machine *m)
{
    uint64_t bytes = zc_cursor_uleb(&m->c);
    return (struct zc_cfi_expr){zc_cursor_take(&m->c, bytes), bytes};
}

static void rule_set(struct machine *m, uint64_t reg, struct zc_cfi_rule rule)
{
    if (reg == ZC_CFI_RA)
        m->row.ra = rule;
    else if (reg == ZC_CFI_FP)
        m->row.fp = rule;
}

/* An offset in bytes from one in units of data_align. */
static int64_t unfactor(struct machine *m, int64_t factored)
{
    int64_t offset;
    m->c.bad |= __builtin_mul_overflow(factored, m->program->data_align, &offset);
    return offset;
}

static void rule_at(struct machine *m, uint64_t reg, int64_t factored)
{
    rule_set(m, reg, (struct zc_cfi_rule){.how = ZC_CFI_AT, .offset = unfactor(m, factored)});
}

static void rule_restore(struct machine *m, uint64_t reg)
{
    rule_set(m, reg, reg == ZC_CFI_RA ? m->initial.ra : m->initial.fp);
}

/* Instructions that set the rule of one register, their first operand. */
static void run_register(struct machine *m, uint8_t op)
{
    uint64_t reg = zc_cursor_uleb(&m->c);
    struct zc_cfi_rule rule = {.how = ZC_CFI_UNSUPPORTED};
    switch (op) {
    case DW_CFA_offset_extended:
        rule_at(m, reg, (int64_t)zc_cursor_uleb(&m->c));
        return;
    case DW_CFA_offset_extended_sf:
        rule_at(m, reg, zc_cursor_sleb(&m->c));
        return;
    case DW_CFA_restore_extended:
        rule_restore(m, reg);
        return;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        rule.expr = expression(m);
        rule.how = op == DW_CFA_expression ? ZC_CFI_AT_EXPR : ZC_CFI_UNSUPPORTED;
        break;
    case DW_CFA_undefined:
        rule.how = ZC_CFI_UNDEFINED;
        break;
    case DW_CFA_same_value:
        rule.how = ZC_CFI_SAME;
        break;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
        zc_cursor_uleb(&m->c);
        break;
    default:
        m->c.bad = true;
    }
    rule_set(m, reg, rule);
}

static void cfa_set(struct machine *m, uint64_t reg, int64_t offset)
{
    m->row.cfa_reg = reg;
    m->row.cfa_offset = offset;
    m->row.cfa_expr = (struct zc_cfi_expr){NULL, 0};
}

/* An offset as it stands, or in units of data_align. */
static int64_t cfa_offset(struct machine *m, bool factored)
{
    return factored ? unfactor(m, zc_cursor_sleb(&m->c)) : (int64_t)zc_cursor_uleb(&m->c);
}

/* Instructions that set the CFA, and the stack of rows. */
static bool run_cfa(struct machine *m, uint8_t op)
{
    uint64_t reg = m->row.cfa_reg;
    switch (op) {
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
        reg = zc_cursor_uleb(&m->c);
        cfa_set(m, reg, cfa_offset(m, op == DW_CFA_def_cfa_sf));
        return true;
    case DW_CFA_def_cfa_register:
        cfa_set(m, zc_cursor_uleb(&m->c), m->row.cfa_offset);
        return true;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
        cfa_set(m, reg, cfa_offset(m, op == DW_CFA_def_cfa_offset_sf));
        return true;
    case DW_CFA_def_cfa_expression:
        m->row.cfa_expr = expression(m);
        return true;
    case DW_CFA_remember_state:
    case DW_CFA_restore_state:
        m->c.bad |= m->depth == (op == DW_CFA_remember_state ? REMEMBERED : 0);
        if (m->c.bad)
            return true;
        if (op == DW_CFA_remember_state)
            m->stack[m->depth++] = m->row;
        else
            m->row = m->stack[--m->depth];
        return true;
    default:
        return false;
    }
}

/* Instructions that advance the address; false for others. */
static bool run_advance(struct machine *m, uint8_t op)
{
    uint64_t units;
    if ((op & 0xc0) == DW_CFA_advance_loc)
        units = op & 0x3f;
    else if (op >= DW_CFA_advance_loc1 && op <= DW_CFA_advance_loc4)
        units = zc_cursor_fixed(&m->c, (size_t)1 << (op - DW_CFA_advance_loc1));
    else
        return false;
    m->loc += units * m->program->code_align;
    return true;
}

/* Runs instructions up to those that are valid only after `pc`. */
static void cfi_run(struct machine *m, uint64_t pc)
{
    while (m->c.at < m->c.end && !m->c.bad) {
        uint8_t op = (uint8_t)zc_cursor_fixed(&m->c, 1);
        if (run_advance(m, op)) {
            if (m->loc > pc)
                return;
        } else if ((op & 0xc0) == DW_CFA_offset) {
            rule_at(m, op & 0x3f, (int64_t)zc_cursor_uleb(&m->c));
        } else if ((op & 0xc0) == DW_CFA_restore) {
            rule_restore(m, op & 0x3f);
        } else if (op == DW_CFA_GNU_args_size) {
            zc_cursor_uleb(&m->c);
        } else if (op == DW_CFA_AARCH64_negate_ra_state) {
            m->row.ra_signed = !m->row.ra_signed;
        } else if (op != DW_CFA_nop && !run_cfa(m, op)) {
            run_register(m, op);
        }
    }
}

bool zc_cfi_run(const struct zc_cfi_program *program, uint64_t pc, struct zc_cfi_row *out)
{
    struct machine m = {.program = program, .loc = program->start};
    m.c = (struct zc_cursor){program->init, program->init_end, false};
    cfi_run(&m, UINT64_MAX);
    m.initial = m.row;
    m.loc = program->start;
    if (!m.c.bad) {
        m.c = (struct zc_cursor){program->code, program->code_end, false};
        cfi_run(&m, pc);
    }
    *out = m.row;
    out->signal = program->signal;
    return !m.c.bad;
}
