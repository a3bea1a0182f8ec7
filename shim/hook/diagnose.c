/* SPDX-License-Identifier: MIT */
/* Names the rules that may be why the driver refused a call, or why a kernel failed. */
#include "hook/diagnose.h"

#include "base/life.h"
#include "base/message.h"
#include "base/text.h"
#include "driver/launch.h"
#include "ledger/rules.h"
#include "log/refusals.h"
#include "place/placed.h"
#include "place/verbs.h"

static CUresult name_rule(enum zc_fn fn, const struct zc_block *b, CUresult code, const char *out)
{
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = &policy->rules[b->rule];
    zc_refusal_count(policy, rule);
    zc_message(ZC_ERROR, "refused",
               "%s returned %u for block %U (%B at %x): it lies in '%s' by rule %s (%s:%u)%s",
               zc_fn_name(fn), (unsigned)code, b->id, b->size, b->base,
               zc_place_name((enum zc_place_id)b->place), rule->name, policy->file, rule->line,
               out);
    return code;
}

/* The block that may be why a call was refused, or NULL. */
static const struct zc_block *suspect(CUdeviceptr address, CUresult code)
{
    const struct zc_block *b = zc_life_on() ? zc_placed_at(address) : NULL;
    return b && b->rule >= 0 && !zc_error_unrelated(code) ? b : NULL;
}

CUresult zc_diagnose(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    const struct zc_block *b = suspect(address, code);
    /* Registered memory can do everything that the driver's own pinned memory can. */
    return !b || zc_block_hosted(b)
               ? code
               : name_rule(fn, b, code, "; give that rule a narrower match or 'place = device'");
}

CUresult zc_diagnose_border(enum zc_fn fn, CUdeviceptr address, CUresult code)
{
    const struct zc_block *b = suspect(address, code);
    return b && zc_block_hosted(b)
               ? name_rule(fn, b, code,
                           ", registered in parts of 256 MiB, and the call crosses a border of "
                           "two, where it can't be divided; give that rule 'size = ..256M'")
               : zc_diagnose(fn, address, code);
}

CUresult zc_diagnose_frail(enum zc_fn fn, CUdeviceptr made, CUdeviceptr then, CUresult code)
{
    const struct zc_block *b = zc_block_find(made);
    if (!b || b->rule < 0)
        b = zc_block_find(then);
    return !b || b->rule < 0
               ? code
               : name_rule(fn, b, code,
                           ", where a copy in an executable graph can't change from pinned to "
                           "pageable memory; instantiate it anew, or give that rule a narrower "
                           "match");
}

/* Live blocks that a rule has in one of its places. */
struct tally {
    int rule;
    enum zc_place_id place;
    uint64_t blocks, bytes;
};

/* Kernels get device blocks; requested pinned memory works as it would anyway. */
static void count_placed(struct zc_block *b, void *arg)
{
    struct tally *t = arg;
    if (!(b->flags & ZC_BLOCK_CONVERTED) || (b->flags & ZC_BLOCK_QUARANTINED) ||
        b->asked != ZC_KIND_DEVICE || b->rule != t->rule || b->place != t->place)
        return;
    t->blocks++;
    t->bytes += b->size;
}

static void name_placed(struct zc_text *text, const struct zc_policy *policy, size_t index)
{
    const struct zc_rule *rule = &policy->rules[index];
    for (unsigned i = 0; i < rule->place.count; i++) {
        struct tally t = {.rule = (int)index, .place = rule->place.item[i]};
        zc_block_each(count_placed, &t);
        if (t.blocks)
            zc_text_fmt(text, "%s%U (%B) in '%s' by rule %s (%s:%u)", text->len ? ", " : "",
                        t.blocks, t.bytes, zc_place_name(t.place), rule->name, policy->file,
                        rule->line);
    }
}

/* True once a block was placed. */
static bool placed(void)
{
    return __atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED) & (1u << ZC_LAUNCH_DIAGNOSE);
}

void zc_diagnose_kernel(enum zc_fn fn)
{
    static bool told; /* Atomic. */
    char list[600];
    zc_place_diagnose();
    /* All later calls fail, too, so the blocks are searched only once. */
    if (!zc_life_on() || !placed() || __atomic_load_n(&told, __ATOMIC_RELAXED))
        return;
    const struct zc_policy *policy = zc_rules();
    struct zc_text text = zc_text_on(list, sizeof(list));
    for (size_t i = 0; i < policy->rule_count; i++)
        name_placed(&text, policy, i);
    if (!text.len || __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        return;
    zc_message(
        ZC_WARN, "kernel",
        "a kernel failed with an illegal address (700, reported by %s), and rules have placed "
        "device blocks: %s; if it does not fail without libzc, say 'place = device' there; "
        "compute-sanitizer finds the access",
        zc_fn_name(fn), zc_text_cstr(&text));
}

static CUresult diagnose_nothing(const struct zc_launch *launch)
{
    (void)launch;
    return CUDA_SUCCESS;
}

/* Launches that nobody watches pass straight through, with the driver's code. */
void zc_diagnose_watch(void)
{
    if (!placed())
        zc_launch_call(ZC_LAUNCH_DIAGNOSE, diagnose_nothing);
}
