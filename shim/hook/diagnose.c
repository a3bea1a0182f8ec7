/* SPDX-License-Identifier: MIT */
/* Names the rule of a block when the driver refuses a call because of its place. */
#include "hook/diagnose.h"
#include "base/life.h"
#include "base/message.h"
#include "driver/call.h"
#include "hook/request.h"
#include "ledger/rules.h"
#include "log/refusals.h"

CUresult zc_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    const struct zc_block *b = zc_life_on() ? zc_placed_at(address) : NULL;
    /* Registered memory can do everything that the driver's own pinned memory can. */
    if (b && zc_block_hosted(b) && b->place == ZC_PLACE_PINNED)
        return code;
    if (!b || zc_error_unrelated(code) || b->rule < 0)
        return code;
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = &policy->rules[b->rule];
    zc_refusal_count(policy, rule);
    zc_message(
        ZC_ERROR, "refused",
        "%s returned %u for block %U (%B at %x): it lies in '%s' by rule %s (%s:%u); give that "
        "rule a narrower match or 'place = %s'",
        zc_fn_name(fn), (unsigned)code, b->id, b->size, b->base,
        zc_place_name((enum zc_place_id)b->place), rule->name, policy->file, rule->line,
        zc_place_name(zc_block_hosted(b) ? ZC_PLACE_PINNED : ZC_PLACE_DEVICE));
    return code;
}
