/* SPDX-License-Identifier: MIT */
/* Finds a function's call-frame information by the sorted table in .eh_frame_hdr. */
#include "ledger/cfi.h"
#include "ledger/cfi_read.h"

/* One row of the table, both relative to .eh_frame_hdr. */
struct hdr_row {
    int32_t start; /* First address of a function. */
    int32_t fde;   /* Its FDE. */
};

static bool inside(const struct zc_object *object, uint64_t address, uint64_t bytes)
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

    if (hdr == NULL || !inside(object, base, 12) || hdr[0] != 1 ||
        hdr[1] != (ZC_PE_PCREL | ZC_PE_SDATA4) || hdr[2] != ZC_PE_UDATA4 ||
        hdr[3] != (ZC_PE_DATAREL | ZC_PE_SDATA4))
        return 0;
    memcpy(&count, hdr + 8, sizeof(count));
    if (count == 0 || !inside(object, base, 12 + (uint64_t)count * sizeof(row)))
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

    if (!inside(object, address, sizeof(length)))
        return false;
    memcpy(&length, at, sizeof(length));
    /* 0 ends the section; lengths from 0xfffffff0 on mean the 64-bit format. */
    if (length == 0 || length >= 0xfffffff0u || !inside(object, address, 4 + (uint64_t)length))
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
    const uint8_t *letters;
    struct zc_cursor c;
    uint64_t version;

    if (!entry_open(object, address, &c) || zc_cursor_fixed(&c, 4) != 0)
        return false;
    version = zc_cursor_fixed(&c, 1);
    letters = c.at;
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
