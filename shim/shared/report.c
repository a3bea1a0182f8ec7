/* SPDX-License-Identifier: MIT */
/* Messages and log lines about device blocks of `shared`. */
#include "shared/report.h"

#include "base/message.h"
#include "base/module.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "log/refusals.h"
#include "vmm/vmm.h"

CUresult zc_shared_refused(const struct zc_shared *p, enum zc_fn fn, CUresult code, const char *why)
{
    if (zc_error_unrelated(code))
        return code;
    zc_refusal_count(zc_rules(), p->rule);
    zc_message(ZC_ERROR, "refused",
               "%s returned %u for device block %U (%B), which rule %s (%s:%u) shares with host "
               "block %U: %s; say 'place = device' there",
               zc_fn_name(fn), (unsigned)code, p->names.device_block, p->names.bytes, p->rule->name,
               zc_rules()->file, p->rule->line, p->names.host_block, why);
    return code;
}

static void diagnose_one(struct zc_shared *p, void *arg)
{
    bool *found = arg;
    if (!zc_shared_is_one(p))
        return;
    if (!*found)
        zc_refusal_count(zc_rules(), p->rule);
    *found = true;
    zc_message(ZC_ERROR, "refused",
               "a kernel failed with an illegal address, and a write to device block %U (%B at %x, "
               "site %X) would do that: kernels may only read it, because rule %s (%s:%u) says "
               "'access = read'; if they write it, leave that out",
               p->names.device_block, p->names.bytes, (uint64_t)p->vmm->va.base,
               p->names.device_site, p->rule->name, zc_rules()->file, p->rule->line);
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

void zc_shared_report(const struct zc_shared *p)
{
    zc_log_pair(&p->names, zc_shared_is_one(p), &p->counts);
}

static void report_live(struct zc_shared *p, void *unused)
{
    (void)unused;
    zc_shared_report(p);
}

static void report_finish(void)
{
    zc_shared_each(report_live, NULL);
}

const struct zc_module zc_module_shared_report = {.finish = report_finish};
