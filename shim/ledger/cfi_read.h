/* SPDX-License-Identifier: MIT */
/* Reads DWARF's numbers within bounds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ZC_PE_PCREL 0x10u   /* DW_EH_PE_pcrel: relative to the number's own place. */
#define ZC_PE_SDATA4 0x0bu  /* DW_EH_PE_sdata4. */
#define ZC_PE_UDATA4 0x03u  /* DW_EH_PE_udata4. */
#define ZC_PE_DATAREL 0x30u /* DW_EH_PE_datarel: relative to .eh_frame_hdr. */

/* A reading position.  Beyond the end every number is 0, and `bad` is set. */
struct zc_cursor {
    const uint8_t *at;  /* Next byte. */
    const uint8_t *end; /* First byte that must not be read. */
    bool bad;           /* A number did not fit, or had an unknown format. */
};

static inline const uint8_t *zc_cursor_take(struct zc_cursor *c, uint64_t bytes)
{
    const uint8_t *at = c->at;

    if (c->bad || bytes > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        return NULL;
    }
    c->at += bytes;
    return at;
}

/* An unsigned number of 1, 2, 4 or 8 bytes, in the machine's byte order (little-endian). */
static inline uint64_t zc_cursor_fixed(struct zc_cursor *c, size_t bytes)
{
    const uint8_t *at = zc_cursor_take(c, bytes);
    uint64_t value = 0;

    if (at != NULL)
        memcpy(&value, at, bytes);
    return value;
}

static inline int64_t zc_cursor_signed(struct zc_cursor *c, size_t bytes)
{
    unsigned unused = 64 - 8 * (unsigned)bytes;

    return (int64_t)(zc_cursor_fixed(c, bytes) << unused) >> unused;
}

/* LEB128, DWARF 5 section 7.6.  Bits beyond 64 are dropped. */
static inline uint64_t zc_cursor_leb(struct zc_cursor *c, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = (uint8_t)zc_cursor_fixed(c, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    if (is_signed && shift < 64 && (byte & 0x40) != 0)
        value |= UINT64_MAX << shift;
    return value;
}

static inline uint64_t zc_cursor_uleb(struct zc_cursor *c)
{
    return zc_cursor_leb(c, false);
}

static inline int64_t zc_cursor_sleb(struct zc_cursor *c)
{
    return (int64_t)zc_cursor_leb(c, true);
}

/* A number in one of the DW_EH_PE_* formats of the low four bits. */
static inline uint64_t zc_cursor_format(struct zc_cursor *c, uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        return zc_cursor_fixed(c, 8);
    case 0x02: /* udata2 */
        return zc_cursor_fixed(c, 2);
    case ZC_PE_UDATA4:
        return zc_cursor_fixed(c, 4);
    case 0x0a: /* sdata2 */
        return (uint64_t)zc_cursor_signed(c, 2);
    case ZC_PE_SDATA4:
        return (uint64_t)zc_cursor_signed(c, 4);
    default:
        c->bad = true;
        return 0;
    }
}

/* An encoded address: absolute or relative to its own place, the only formats in .eh_frame. */
static inline uint64_t zc_cursor_address(struct zc_cursor *c, uint8_t encoding)
{
    uint64_t place = (uint64_t)(uintptr_t)c->at;
    uint64_t value = zc_cursor_format(c, encoding);

    if ((encoding & 0xf0) == ZC_PE_PCREL)
        return value + place;
    c->bad |= (encoding & 0xf0) != 0;
    return value;
}
