/* SPDX-License-Identifier: MIT */
/* Messages and log lines about pairs. */
#include "shared/report.h"

#include <stdlib.h>

#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "driver/call.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/pairs.h"
#include "log/refusals.h"
#include "shared/view.h"

static const char *const culprits[] = {
    [ZC_CULPRIT_READ] = "the CPU reads",
    [ZC_CULPRIT_WRITE] = "the CPU writes",
    [ZC_CULPRIT_COPY] = "a copy needs",
};

void zc_shared_stays(const struct zc_shared *p)
{
    zc_message(
        ZC_ERROR, "refused",
        "cuMemHostUnregister refuses device block %U (%B at %x), which the program has "
        "freed: its host block still shares memory with it by rule %s (%s:%u), as if it were alive",
        p->device_id, p->device_size, (uint64_t)p->pages.base, p->rule->name, zc_rules()->file,
        p->rule->line);
}

void zc_shared_conflict(struct zc_shared *p, enum zc_shared_culprit culprit, uint64_t offset)
{
    const char *since = p->pages.device ? "" : " before the program freed it";
    zc_message(
        ZC_ERROR, "conflict",
        "%s byte %U of host block %U (site %X), but its content is lost: kernels may have "
        "written device block %U (%B, site %X), with which it shares memory by rule %s (%s:%u), "
        "and that was not copied back%s; say 'access = read' there if kernels only read it, or "
        "'place = mapped'",
        culprits[culprit], offset, p->host_id, p->host_site, p->device_id, p->device_size,
        p->device_site, p->rule->name, zc_rules()->file, p->rule->line, since);
}

void zc_shared_stuck(const struct zc_shared *p)
{
    zc_message(
        ZC_ERROR, "conflict",
        "the kernel does not keep host block %U and device block %U (%B) apart, which rule %s "
        "(%s:%u) shares: %s; raise the limit, or say 'place = mapped' there",
        p->host_id, p->device_id, p->device_size, p->rule->name, zc_rules()->file, p->rule->line,
        zc_view_reason());
}

void zc_shared_must_be_open(const struct zc_shared *p, enum zc_effect v)
{
    if (v == ZC_EFFECT_DONE)
        return;
    zc_shared_stuck(p);
    abort();
}

CUresult zc_shared_refused(const struct zc_shared *p, enum zc_fn fn, CUresult code, const char *why)
{
    zc_refusal_count(zc_rules(), p->rule);
    zc_message(ZC_ERROR, "refused",
               "%s returned %u for device block %U (%B at %x), which rule %s (%s:%u) shares with a "
               "host block: %s; give that rule a narrower match or 'place = mapped'",
               zc_fn_name(fn), (unsigned)code, p->device_id, p->device_size,
               (uint64_t)p->pages.base, p->rule->name, zc_rules()->file, p->rule->line, why);
    return code;
}

CUresult zc_shared_failed(const struct zc_shared *p, enum zc_fn fn, CUresult code)
{
    return zc_error_unrelated(code)
               ? code
               : zc_shared_refused(p, fn, code, "the driver failed what the call takes there");
}

/* Pages with equal content: not copied yet, or not changed since. */
static bool sides_differ(const struct zc_shared *p)
{
    const uint32_t *count = p->pages.count;
    return zc_shared_has_host(p) && __atomic_load_n(&p->pages.device, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&count[ZC_PAGE_ALONE], __ATOMIC_RELAXED) +
                   __atomic_load_n(&count[ZC_PAGE_SAME], __ATOMIC_RELAXED) !=
               p->pages.pages;
}

void zc_shared_asked(enum zc_fn fn, CUdeviceptr address)
{
    struct zc_shared *p = zc_shared_at(address);
    if (!p || !sides_differ(p) || __atomic_exchange_n(&p->asked, true, __ATOMIC_RELAXED))
        return;
    zc_refusal_count(zc_rules(), p->rule);
    zc_message(
        ZC_WARN, "asked",
        "%s asks about %x, the address of host block %U (site %X) and of device block %U "
        "(%B, site %X), which share memory by rule %s (%s:%u) and differ now: the answer is the "
        "device block's, so a library that relies on it (MPI, UCX) does not copy the host block; "
        "if that one is meant, say 'place = mapped' there",
        zc_fn_name(fn), (uint64_t)address, p->host_id, p->host_site, p->device_id, p->device_size,
        p->device_site, p->rule->name, zc_rules()->file, p->rule->line);
}

void zc_shared_mismatch(const struct zc_shared *p, CUdeviceptr source)
{
    uintptr_t base = zc_hostheap_block(source);
    const struct zc_slot *slot = base ? zc_hostheap_slot((void *)base) : NULL;
    if (!slot || !slot->site || slot->size > p->device_size ||
        zc_extent_span(zc_hostheap_extent(base)) < p->device_size ||
        __atomic_load_n(&zc_hostheap_extent(base)->pin, __ATOMIC_RELAXED) == ZC_PIN_PROGRAM ||
        !zc_message_first(p->rule->name))
        return;
    zc_message(ZC_NOTE, "pair",
               "device block %U (%B, site %X) of rule %s (%s:%u) is copied from a host block (%B) "
               "that is not its own; 'pair = site:%X:%u' in that rule pairs both, and saves the "
               "copy",
               p->device_id, p->device_size, p->device_site, p->rule->name, zc_rules()->file,
               p->rule->line, slot->size, zc_site_id(slot->site), slot->nth);
}

static void diagnose_one(struct zc_shared *p, void *arg)
{
    bool *found = arg;
    if (!p->read_only)
        return;
    if (!*found)
        zc_refusal_count(zc_rules(), p->rule);
    *found = true;
    zc_message(ZC_ERROR, "refused",
               "a kernel failed with an illegal address, and a write to device block %U (%B at %x, "
               "site %X) would do that: kernels may only read it, because rule %s (%s:%u) says "
               "'access = read'; if they write it, say 'access = readwrite'",
               p->device_id, p->device_size, (uint64_t)p->pages.base, p->device_site, p->rule->name,
               zc_rules()->file, p->rule->line);
}

void zc_shared_diagnose(void)
{
    static uint32_t said;
    bool found = false;
    if (__atomic_load_n(&said, __ATOMIC_RELAXED))
        return;
    zc_shared_each(diagnose_one, &found);
    __atomic_store_n(&said, found, __ATOMIC_RELAXED);
}

/* The user named a site in the policy that never paired; otherwise nothing would tell him. */
static void lonely(const struct zc_shared *p)
{
    const struct zc_pair *pair = &p->rule->pair;
    zc_message(ZC_WARN, "pair",
               "device block %U (%B, site %X) of rule %s (%s:%u) got no host block: 'pair' names "
               "site %X, number %U (0: any), and no block from there fits",
               p->device_id, p->device_size, p->device_site, p->rule->name, zc_rules()->file,
               p->rule->line, pair->site, pair->nth);
}

void zc_shared_report(const struct zc_shared *p)
{
    bool paired = __atomic_load_n(&p->paired, __ATOMIC_ACQUIRE), by_site = p->rule->pair.by_site;
    const struct zc_pair_names names = {.device_block = p->device_id,
                                        .host_block = p->host_id,
                                        .device_site = p->device_site,
                                        .host_site = p->host_site,
                                        .why = paired    ? NULL
                                               : by_site ? "no host block of the site in 'pair'"
                                                         : "no host block of its size",
                                        .bytes = p->device_size,
                                        .pages = p->pages.pages,
                                        .cold = p->pages.cold};
    const struct zc_pair_counts counts = zc_shared_counts(p);
    if (!paired && by_site)
        lonely(p);
    zc_log_pair(&names, &counts);
}

static void report_live(struct zc_shared *p, void *arg)
{
    (void)arg;
    if (p->pages.device)
        zc_shared_report(p);
}

/* Writes the lines of all live pairs, and reports those that never paired. */
static void report_finish(void)
{
    struct zc_pair_counts totals;
    zc_shared_totals(&totals);
    zc_shared_each(report_live, NULL);
    zc_log_pair_totals(&totals);
}

const struct zc_module zc_module_shared_report = {.finish = report_finish};
