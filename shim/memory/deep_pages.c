/* SPDX-License-Identifier: MIT */
/* The pages of a device block, and what copies have left there. */
#include "memory/deep_pages.h"

#include "base/arena.h"

#define PAGE ZC_DEEP_PAGE
#define GRAIN (PAGE / 64) /* What a copy has touched is known to this. */
#define PIECES 32         /* Most pieces of a page that are remembered. */

/* Bytes of a page that one copy brought there, or back. */
struct piece {
    struct piece *next;
    struct zc_deep_pair *sent; /* Of the copy that sent them, until something may have used them. */
    uint64_t hash;
    uint64_t age;   /* The block's at the last copy of them. */
    uint64_t back;  /* Where that copy brought them to in host memory; 0: it sent them. */
    uint64_t stamp; /* The block's at that copy. */
    uint32_t from, bytes;
    bool hosts;   /* As the host sent them, as far as copies back have told. */
    bool unknown; /* A copy back that is the first to tell has not come yet. */
};

struct zc_deep_page {
    struct piece *pieces; /* The latest first; no two overlap. */
    uint64_t touched;     /* A bit for each grain. */
};

static uint64_t page_count(const struct zc_deep_block *s)
{
    return (s->bytes + PAGE - 1) / PAGE;
}

/* A page, whose range [from, from + bytes) is touched; NULL without memory. */
static struct zc_deep_page *touch(struct zc_deep_block *s, uint64_t at, uint32_t bytes)
{
    if (!s->page)
        s->page = zc_arena_get(page_count(s) * sizeof(*s->page));
    if (!s->page)
        return NULL;
    uint64_t first = at % PAGE / GRAIN, last = (at % PAGE + bytes - 1) / GRAIN;
    struct zc_deep_page *page = &s->page[at / PAGE];
    page->touched |= (~UINT64_C(0) >> (63 - (last - first))) << first;
    return page;
}

static uint32_t overlap(const struct piece *p, uint32_t from, uint32_t bytes)
{
    uint32_t first = p->from > from ? p->from : from;
    uint32_t end = p->from + p->bytes < from + bytes ? p->from + p->bytes : from + bytes;
    return end > first ? end - first : 0;
}

/* What a piece brought is overwritten, or its block freed. */
static void drop(const struct zc_deep_block *s, struct piece *p, uint32_t overwritten)
{
    if (p->sent && p->age == s->age)
        p->sent->bytes[ZC_DEEP_UNUSED] += overwritten;
    zc_arena_put(p, sizeof(*p));
}

/* A range is written.  With `holes` some of it stays, and may be used yet. */
static void clear(const struct zc_deep_block *s, struct zc_deep_page *page, uint32_t from,
                  uint32_t bytes, bool holes)
{
    struct piece **link = &page->pieces, *p;
    while ((p = *link) != NULL) {
        uint32_t touched = overlap(p, from, bytes);
        if (!touched) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        drop(s, p, holes ? 0 : touched);
    }
}

/* A range is read. */
static void use(struct zc_deep_page *page, uint32_t from, uint32_t bytes)
{
    for (struct piece *p = page->pieces; p; p = p->next)
        if (overlap(p, from, bytes))
            p->sent = NULL;
}

static struct piece *exactly(struct zc_deep_page *page, uint32_t from, uint32_t bytes)
{
    for (struct piece *p = page->pieces; p; p = p->next)
        if (p->from == from && p->bytes == bytes)
            return p;
    return NULL;
}

static bool meets(const struct zc_deep_page *page, uint32_t from, uint32_t bytes)
{
    for (const struct piece *p = page->pieces; p; p = p->next)
        if (overlap(p, from, bytes))
            return true;
    return false;
}

/* A new piece; of too many the oldest is forgotten. */
static struct piece *add(struct zc_deep_page *page, uint32_t from, uint32_t bytes)
{
    struct piece **link = &page->pieces, *p = zc_arena_get(sizeof(*p));
    for (unsigned i = 1; *link && i < PIECES; i++)
        link = &(*link)->next;
    if (*link) {
        zc_arena_put(*link, sizeof(**link));
        *link = NULL;
    }
    if (!p)
        return NULL;
    *p = (struct piece){.next = page->pieces, .from = from, .bytes = bytes};
    page->pieces = p;
    return p;
}

/* If the bytes are there already, it is the first copy that something uses or not. */
void zc_deep_sent(struct zc_deep_block *s, uint64_t at, uint32_t bytes, uint64_t hash,
                  struct zc_deep_carried *c)
{
    struct zc_deep_page *page = touch(s, at, bytes);
    uint32_t from = (uint32_t)(at % PAGE);
    if (!page)
        return;
    struct piece *p = exactly(page, from, bytes);
    bool launched = p && p->age != s->age;
    if (p && p->hash == hash && (p->hosts || !launched)) {
        c->bytes[ZC_DEEP_DUPLICATE] += bytes;
        c->bytes[ZC_DEEP_RELAUNCHED] += launched ? bytes : 0;
        p->sent = launched ? NULL : p->sent;
    } else {
        clear(s, page, from, bytes, false);
        if (!(p = add(page, from, bytes)))
            return;
        p->hash = hash;
        p->sent = c->pair;
    }
    p->hosts = true;
    p->unknown = false;
    p->back = 0;
    p->age = s->age;
    p->stamp = ++s->stamp;
}

struct zc_deep_before zc_deep_called(struct zc_deep_block *s, uint64_t at, uint32_t bytes,
                                     uint64_t host)
{
    struct zc_deep_page *page = touch(s, at, bytes);
    uint32_t from = (uint32_t)(at % PAGE);
    struct zc_deep_before before = {.age = s->age};
    if (!page)
        return before;
    struct piece *p = exactly(page, from, bytes);
    use(page, from, bytes);
    if (p && !p->unknown) {
        before.hash = p->hash;
        before.known = true;
        before.again = p->back == host && p->age == s->age;
        before.hosts = p->hosts;
    }
    if (!p && !meets(page, from, bytes)) { /* Of other bytes more is known. */
        p = add(page, from, bytes);
        if (p)
            p->unknown = true;
    }
    if (p)
        p->stamp = before.stamp = ++s->stamp;
    return before;
}

void zc_deep_came(struct zc_deep_block *s, uint64_t at, uint32_t bytes, uint64_t hash,
                  uint64_t host, const struct zc_deep_before *before, struct zc_deep_carried *c)
{
    bool same = before->known && before->hash == hash;
    c->bytes[ZC_DEEP_DUPLICATE] += same && before->again ? bytes : 0;
    c->bytes[ZC_DEEP_ROUND_TRIP] += same && !before->again && before->hosts ? bytes : 0;
    c->bytes[ZC_DEEP_CHANGED] += before->known && !same ? bytes : 0;
    struct piece *p =
        s && s->page ? exactly(&s->page[at / PAGE], (uint32_t)(at % PAGE), bytes) : NULL;
    if (!p || p->stamp != before->stamp)
        return; /* Another copy was called since. */
    p->hosts &= same;
    p->unknown = false;
    p->hash = hash;
    p->back = host;
    p->age = before->age;
}

void zc_deep_range(struct zc_deep_block *s, uint64_t at, uint64_t bytes, bool written, bool holes)
{
    uint64_t left = s->bytes - (at < s->bytes ? at : s->bytes);
    uint64_t end = at + (bytes < left ? bytes : left);
    for (uint32_t n; at < end; at += n) {
        n = zc_deep_in_page(at, end);
        struct zc_deep_page *page = touch(s, at, n);
        if (page && written)
            clear(s, page, (uint32_t)(at % PAGE), n, holes);
        else if (page)
            use(page, (uint32_t)(at % PAGE), n);
    }
}

static uint64_t untouched(const struct zc_deep_block *s, uint64_t page)
{
    uint64_t size = s->bytes - page * PAGE < PAGE ? s->bytes - page * PAGE : PAGE, sum = 0;
    for (uint64_t at = 0, i = 0; at < size; at += GRAIN, i++)
        if (!s->page || !(s->page[page].touched >> i & 1))
            sum += size - at < GRAIN ? size - at : GRAIN;
    return sum;
}

uint64_t zc_deep_end(struct zc_deep_block *s, bool launched)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < page_count(s); i++) {
        sum += launched ? 0 : untouched(s, i);
        for (struct piece *p = s->page ? s->page[i].pieces : NULL, *next; p; p = next) {
            next = p->next;
            drop(s, p, p->bytes);
        }
    }
    if (s->page)
        zc_arena_put(s->page, page_count(s) * sizeof(*s->page));
    return sum;
}
