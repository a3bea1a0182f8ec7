/* SPDX-License-Identifier: MIT */
/* Call-frame information: the program of a function, found by the sorted table in .eh_frame_hdr,
 * and run. */
#include "ledger/cfi.h"

#include <string.h>

/* DWARF numbers of the registers (the ABI supplements of x86-64 and AArch64). */
#if defined(__x86_64__)
enum { FP = 6, SP = 7, RA = 16 };
#elif defined(__aarch64__)
enum { FP = 29, RA = 30, SP = 31 };
#endif

enum { DW_OP_deref = 0x06, DW_OP_plus_uconst = 0x23, DW_OP_breg0 = 0x70 };

/* By their numbers. */
enum { DW_CFA_nop, DW_CFA_advance_loc1 = 2, DW_CFA_advance_loc2, DW_CFA_advance_loc4 };
enum { DW_CFA_offset_extended = 5, DW_CFA_restore_extended, DW_CFA_undefined, DW_CFA_same_value };
enum { DW_CFA_register = 9, DW_CFA_remember_state, DW_CFA_restore_state, DW_CFA_def_cfa };
enum { DW_CFA_def_cfa_register = 13, DW_CFA_def_cfa_offset, DW_CFA_def_cfa_expression };
enum { DW_CFA_expression = 16, DW_CFA_offset_extended_sf, DW_CFA_def_cfa_sf };
enum { DW_CFA_def_cfa_offset_sf = 19, DW_CFA_val_offset, DW_CFA_val_offset_sf };
enum { DW_CFA_val_expression = 22, DW_CFA_AARCH64_negate_ra_state = 45, DW_CFA_GNU_args_size };
/* With an operand in the low six bits. */
enum { DW_CFA_advance_loc = 0x40, DW_CFA_offset = 0x80, DW_CFA_restore = 0xc0 };

#define REMEMBERED 8 /* Depth of DW_CFA_remember_state; compilers use 1. */

/* A reading position.  Beyond the end every number is 0, and `bad` is set. */
struct cursor {
    const uint8_t *at;  /* Next byte. */
    const uint8_t *end; /* First byte that must not be read. */
    bool bad;
};

struct machine {
    const struct zc_cfi_program *program;
    struct cursor c;                     /* Next instruction. */
    uint64_t loc;                        /* Address from which the row is valid. */
    struct zc_cfi_row row;               /* The row so far. */
    struct zc_cfi_row initial;           /* The row after the CIE's instructions. */
    struct zc_cfi_row stack[REMEMBERED]; /* Rows of DW_CFA_remember_state. */
    unsigned depth;                      /* Rows on the stack. */
};

static const uint8_t *cfi_take(struct cursor *c, uint64_t bytes)
{
    const uint8_t *at = c->at;
    c->bad |= bytes > (uint64_t)(c->end - c->at);
    c->at += c->bad ? 0 : bytes;
    return c->bad ? NULL : at;
}

/* A number of up to 8 bytes; both processors are little-endian. */
static uint64_t cfi_fixed(struct cursor *c, size_t bytes)
{
    const uint8_t *at = cfi_take(c, bytes);
    uint64_t value = 0;
    if (at)
        memcpy(&value, at, bytes);
    return value;
}

/* LEB128, DWARF 5 section 7.6.  Bits beyond 64 are dropped. */
static uint64_t cfi_leb(struct cursor *c, bool is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = cfi_fixed(c, 1);
        value |= shift < 64 ? (byte & 0x7f) << shift : 0;
        shift += 7;
    } while (byte & 0x80);
    return is_signed && shift < 64 && (byte & 0x40) ? value | UINT64_MAX << shift : value;
}

static uint64_t cfi_uleb(struct cursor *c)
{
    return cfi_leb(c, false);
}

/* The instructions of the CIE or FDE at an address, behind its length; none if in 64 bits. */
static struct cursor entry_at(const uint8_t *at)
{
    uint32_t length;
    memcpy(&length, at, sizeof(length));
    length = length < 0xfffffff0u ? length : 0;
    return (struct cursor){at + 4, at + 4 + length, false};
}

/* Finds the FDE with the highest start at or below pc.  Linkers write the table in only one format:
 * pairs of 32-bit offsets from the header, of functions and of FDEs. */
static const uint8_t *find_fde(const uint8_t *hdr, uint64_t pc, uint64_t *start_out)
{
    static const uint8_t format[4] = {1, 0x1b, 0x03, 0x3b};
    uint64_t base = (uint64_t)(uintptr_t)hdr;
    uint32_t count;
    if (!hdr || memcmp(hdr, format, sizeof(format)) != 0)
        return NULL;
    memcpy(&count, hdr + 8, sizeof(count));
    const int32_t(*row)[2] = (const void *)(hdr + 12);
    if (!count)
        return NULL;
    while (count > 1) {
        uint32_t half = count / 2;
        row += base + (uint64_t)(int64_t)row[half][0] <= pc ? half : 0;
        count -= half;
    }
    *start_out = base + (uint64_t)(int64_t)(*row)[0];
    return hdr + (*row)[1];
}

/* *bytes_out: of addresses in its FDEs.  Compilers write their format last into the augmentation's
 * data. */
static bool read_cie(const uint8_t *at, bool *augmented_out, size_t *bytes_out,
                     struct zc_cfi_program *out)
{
    struct cursor c = entry_at(at);
    bool is_cie = cfi_fixed(&c, 4) == 0;
    uint64_t version = cfi_fixed(&c, 1);
    const char *letters = (const char *)c.at;
    while (cfi_fixed(&c, 1))
        continue;
    out->code_align = cfi_uleb(&c);
    out->data_align = (int64_t)cfi_leb(&c, true);
    uint64_t ra = version == 1 ? cfi_fixed(&c, 1) : cfi_uleb(&c), data = 0, format = 0;
    *augmented_out = *letters == 'z';
    if (*augmented_out && cfi_take(&c, data = cfi_uleb(&c)) && data && strchr(letters, 'R'))
        format = c.at[-1] & 0x0f;
    *bytes_out = format == 0x03 || format == 0x0b ? 4 : 8;
    out->init = c.at;
    out->init_end = c.end;
    return is_cie && (version == 1 || version == 3) && ra == RA && !c.bad &&
           (!*letters || *augmented_out) && !strchr(letters, 'S');
}

bool zc_cfi_find(const struct zc_object *object, uint64_t pc, struct zc_cfi_program *out)
{
    bool augmented;
    size_t bytes;
    const uint8_t *at = find_fde(object->hdr, pc, &out->start);
    if (!at)
        return false;
    struct cursor c = entry_at(at);
    const uint8_t *place = c.at;
    if (!read_cie(place - cfi_fixed(&c, 4), &augmented, &bytes, out))
        return false;
    cfi_take(&c, bytes);
    out->end = out->start + cfi_fixed(&c, bytes);
    if (augmented)
        cfi_take(&c, cfi_uleb(&c));
    out->code = c.at;
    out->code_end = c.end;
    return !c.bad && pc >= out->start && pc < out->end;
}

static struct zc_cfi_place cfi_at(enum zc_cfi_from from, int64_t offset)
{
    return (struct zc_cfi_place){.from = from, .offset = offset};
}

static enum zc_cfi_from cfi_from(uint64_t reg)
{
    return reg == SP ? ZC_CFI_SP : reg == FP ? ZC_CFI_FP : ZC_CFI_LOST;
}

/* An offset in bytes from one in units of data_align. */
static int64_t cfi_factored(struct machine *m, bool is_signed)
{
    int64_t offset;
    uint64_t units = cfi_leb(&m->c, is_signed);
    m->c.bad |= __builtin_mul_overflow((int64_t)units, m->program->data_align, &offset);
    return offset;
}

/* A DWARF expression (DWARF 5, section 2.5) of the only form that compilers use: register plus
 * offset, the memory there, plus a constant. */
static struct zc_cfi_place cfi_expression(struct machine *m)
{
    uint64_t bytes = cfi_uleb(&m->c);
    const uint8_t *code = cfi_take(&m->c, bytes);
    struct cursor c = {code, code ? code + bytes : NULL, !code};
    uint64_t reg = cfi_fixed(&c, 1) - DW_OP_breg0;
    struct zc_cfi_place place = cfi_at(ZC_CFI_LOST, (int64_t)cfi_leb(&c, true));
    place.deref = c.at < c.end;
    c.bad |= place.deref && cfi_fixed(&c, 1) != DW_OP_deref;
    if (c.at < c.end && cfi_fixed(&c, 1) == DW_OP_plus_uconst)
        place.more = (int64_t)cfi_uleb(&c);
    place.from = !c.bad && c.at == c.end ? cfi_from(reg) : ZC_CFI_LOST;
    return place;
}

/* Instructions that set the rule of one register. */
static void set_register(struct machine *m, unsigned op, uint64_t reg)
{
    struct zc_cfi_place rule = cfi_at(ZC_CFI_LOST, 0);
    switch (op) {
    case DW_CFA_offset:
    case DW_CFA_offset_extended:
    case DW_CFA_offset_extended_sf:
        rule = cfi_at(ZC_CFI_CFA, cfi_factored(m, op == DW_CFA_offset_extended_sf));
        break;
    case DW_CFA_restore:
    case DW_CFA_restore_extended:
        rule = reg == RA ? m->initial.ra : m->initial.fp;
        break;
    case DW_CFA_expression:
        rule = cfi_expression(m);
        break;
    case DW_CFA_val_expression:
        cfi_expression(m);
        break;
    case DW_CFA_same_value:
        rule.from = ZC_CFI_SAME;
        break;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
        cfi_uleb(&m->c);
        break;
    default:
        m->c.bad |= op != DW_CFA_undefined;
    }
    if (reg == RA)
        m->row.ra = rule;
    else if (reg == FP)
        m->row.fp = rule;
}

static void set_cfa(struct machine *m, enum zc_cfi_from base, bool sf)
{
    m->row.cfa = cfi_at(base, sf ? cfi_factored(m, true) : (int64_t)cfi_uleb(&m->c));
}

static void cfi_instruction(struct machine *m)
{
    unsigned op = (unsigned)cfi_fixed(&m->c, 1), high = op & 0xc0;
    if (high == DW_CFA_advance_loc) {
        m->loc += (op & 0x3f) * m->program->code_align;
        return;
    }
    switch (high ? high : op) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        m->loc +=
            cfi_fixed(&m->c, (size_t)1 << (op - DW_CFA_advance_loc1)) * m->program->code_align;
        break;
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
        set_cfa(m, cfi_from(cfi_uleb(&m->c)), op == DW_CFA_def_cfa_sf);
        break;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
        set_cfa(m, m->row.cfa.from, op == DW_CFA_def_cfa_offset_sf);
        break;
    case DW_CFA_def_cfa_register:
        m->row.cfa = cfi_at(cfi_from(cfi_uleb(&m->c)), m->row.cfa.offset);
        break;
    case DW_CFA_def_cfa_expression:
        m->row.cfa = cfi_expression(m);
        break;
    case DW_CFA_remember_state:
        m->c.bad |= m->depth == REMEMBERED;
        if (!m->c.bad)
            m->stack[m->depth++] = m->row;
        break;
    case DW_CFA_restore_state:
        m->c.bad |= !m->depth;
        if (!m->c.bad)
            m->row = m->stack[--m->depth];
        break;
    case DW_CFA_AARCH64_negate_ra_state:
        m->row.ra_signed = !m->row.ra_signed;
        break;
    case DW_CFA_GNU_args_size:
        cfi_uleb(&m->c);
        break;
    default:
        set_register(m, high ? high : op, high ? op & 0x3f : cfi_uleb(&m->c));
    }
}

/* Runs instructions up to those that are valid only after `pc`.  False if one is bad. */
static bool cfi_run(struct machine *m, const uint8_t *code, const uint8_t *end, uint64_t pc)
{
    m->c = (struct cursor){code, end, false};
    m->loc = m->program->start;
    while (m->c.at < m->c.end && !m->c.bad && m->loc <= pc)
        cfi_instruction(m);
    return !m->c.bad;
}

bool zc_cfi_run(const struct zc_cfi_program *program, uint64_t pc, struct zc_cfi_row *out)
{
    struct machine m = {.program = program};
    bool good = cfi_run(&m, program->init, program->init_end, UINT64_MAX);
    m.initial = m.row;
    good = good && cfi_run(&m, program->code, program->code_end, pc);
    *out = m.row;
    return good;
}
