/* SPDX-License-Identifier: MIT */
/* The sums of the level `deep`, and their lines. */
#include "log/deep.h"

#include <string.h>

#include "base/list.h"
#include "base/own.h"
#include "ledger/counters.h"
#include "ledger/site.h"
#include "log/log.h"

#define KERNELS 512    /* Most pairs of a kernel and a site that are told apart. */
#define NAME_BYTES 104 /* Of a kernel's name. */
#define NAMED 16       /* Most kernels in a line. */

struct pair {
    struct {
        int32_t host;
        uint32_t device, dir;
    } key;
    struct zc_deep_pair sums;
    UT_hash_handle hh;
};

struct kernel {
    struct {
        const void *kernel;
        uint64_t site;
    } key;
    uint64_t launches;
    char name[NAME_BYTES];
    UT_hash_handle hh;
};

static ZC_OWN struct pair *pairs;
static ZC_OWN struct kernel *kernels;
static ZC_OWN struct zc_deep_site sites[ZC_COUNTERS_SITES];

struct zc_deep_pair *zc_deep_pair_of(enum zc_dir dir, int host, uint32_t device)
{
    struct pair *p = NULL, like = {.key = {host, device, (uint32_t)dir}};
    HASH_FIND(hh, pairs, &like.key, sizeof(like.key), p);
    if (p || !(p = zc_arena_get(sizeof(*p))))
        return p ? &p->sums : NULL;
    p->key = like.key;
    HASH_ADD(hh, pairs, key, sizeof(p->key), p);
    return &p->sums;
}

struct zc_deep_site *zc_deep_site_of(uint32_t site)
{
    return &sites[site < ZC_COUNTERS_SITES ? site : 0];
}

bool zc_deep_note_kernel(uint32_t site, const void *kernel, const char *name)
{
    struct kernel *k = NULL, like = {.key = {kernel, site}};
    HASH_FIND(hh, kernels, &like.key, sizeof(like.key), k);
    if (!k && !name)
        return false;
    if (!k && HASH_COUNT(kernels) < KERNELS && (k = zc_arena_get(sizeof(*k))) != NULL) {
        k->key = like.key;
        strncpy(k->name, name, sizeof(k->name) - 1);
        HASH_ADD(hh, kernels, key, sizeof(k->key), k);
    }
    if (k)
        k->launches++;
    return true;
}

static void write_pair(const struct pair *p)
{
    static const char *const names[] = {
#define NAME(name, text) text "_copies", text "_bytes",
        ZC_DEEP_SUMS(NAME)
#undef NAME
    };
    char buf[ZC_LINE_MAX];
    struct zc_line line;
    zc_line_begin(&line, buf, sizeof(buf), "content");
    zc_line_str(&line, "dir", zc_dir_name((enum zc_dir)p->key.dir));
    if (p->key.host >= 0)
        zc_line_hex(&line, "host_site", zc_site_id((uint32_t)p->key.host), 8);
    else
        zc_line_null(&line, "host_site");
    zc_line_hex(&line, "device_site", zc_site_id(p->key.device), 8);
    zc_line_u64(&line, "copies", p->sums.copies);
    zc_line_u64(&line, "bytes", p->sums.asked_bytes);
    for (unsigned i = 0; i < ZC_DEEP_COUNT; i++) {
        if (i != ZC_DEEP_UNUSED) /* Known only later, of parts. */
            zc_line_u64(&line, names[2 * i], p->sums.whole[i]);
        zc_line_u64(&line, names[2 * i + 1], p->sums.bytes[i]);
    }
    zc_log_write(&line);
}

static void write_site(uint32_t site)
{
    char buf[ZC_LINE_MAX];
    struct zc_line line;
    unsigned named = 0;
    zc_line_begin(&line, buf, sizeof(buf), "use");
    zc_line_hex(&line, "site", zc_site_id(site), 8);
    zc_line_u64(&line, "blocks", sites[site].blocks);
    zc_line_u64(&line, "size_bytes", sites[site].bytes);
    zc_line_u64(&line, "untouched_bytes", sites[site].untouched_bytes);
    zc_line_u64(&line, "launches", sites[site].launches);
    zc_line_open(&line, "kernels", '[');
    for (struct kernel *k = kernels; k && named < NAMED; k = k->hh.next) {
        if (k->key.site != site)
            continue;
        named++;
        zc_line_open(&line, NULL, '{');
        zc_line_str(&line, "kernel", k->name[0] ? k->name : NULL);
        zc_line_u64(&line, "launches", k->launches);
        zc_line_close(&line, '}');
    }
    zc_line_close(&line, ']');
    zc_log_write(&line);
}

void zc_deep_write(void)
{
    for (struct pair *p = pairs; p; p = p->hh.next)
        write_pair(p);
    for (uint32_t i = 0; i < ZC_COUNTERS_SITES; i++)
        if (sites[i].blocks)
            write_site(i);
}
