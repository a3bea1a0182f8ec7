/* Pairs in the child of fork(2), which has copies of all pages and no GPU. */
#include "host/extent.h"
#include "shared/pair.h"
#include "shared/report.h"
#include "shared/view.h"

#define KEPT_MAX 32 /* Further ones are told by the name of the last. */

/* Opens the parent's pages; false if some stay closed, because their content is lost. */
static bool open_pages(const struct zc_coherent *c)
{
    bool all = true;
    for (uint32_t page = 0; page < c->pages; page++) {
        uintptr_t at = c->base + ((uint64_t)page << ZC_HOST_UNIT_SHIFT);
        bool lost = c->state[page] == ZC_PAGE_AWAY || c->state[page] == ZC_PAGE_AHEAD;
        all = !(c->host && lost) && zc_view_protect(at, ZC_HOST_UNIT, ZC_VIEW_OPEN) && all;
    }
    return all;
}

void zc_shared_inherit(struct zc_shared *p, void *unused)
{
    static struct zc_shared kept[KEPT_MAX];
    static unsigned count;
    struct zc_extent *e = p->extent;
    struct zc_shared *rest = NULL;
    (void)unused;
    if (!e)
        return;
    if (!open_pages(&p->pages)) {
        rest = &kept[count < KEPT_MAX ? count++ : KEPT_MAX - 1];
        *rest = (struct zc_shared){.pages = {.base = p->pages.base, .device = true},
                                   .era = p->era,
                                   .rule = p->rule,
                                   .device_size = p->device_size,
                                   .device_id = p->device_id,
                                   .host_id = p->host_id,
                                   .device_site = p->device_site,
                                   .host_site = p->host_site};
    }
    __atomic_store_n(&e->shared, rest, __ATOMIC_RELEASE);
}

void zc_shared_leave_inherited(struct zc_extent *e, struct zc_shared *p)
{
    for (uint64_t at = 0; at < zc_extent_span(e); at += ZC_HOST_UNIT)
        if (!zc_view_protect(zc_extent_base(e) + at, ZC_HOST_UNIT, ZC_VIEW_OPEN))
            zc_shared_must_be_open(p, ZC_EFFECT_REFUSED);
    __atomic_store_n(&e->shared, NULL, __ATOMIC_RELEASE);
}
