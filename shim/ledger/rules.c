/* SPDX-License-Identifier: MIT */
/* Reads the policy early and silently, and reports its faults later. */
#include "ledger/rules.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/job.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/own.h"
#include "base/path.h"
#include "ledger/missed.h"
#include "ledger/profile.h"
#include "ledger/site.h"

#define BASE "@everyday" /* The preset, as `zc` names it. */

enum load_state { UNREAD, READING, READ };

static ZC_LOCK(rules_lock, ZC_RANK_RULES);
static struct {
    uint32_t state; /* enum load_state; atomic. */
    int errors;
    struct zc_policy policy;
    char *text; /* The file, kept until its faults are reported; NULL without faults. */
    size_t text_bytes;
    char path[4096];
    char refusal[256]; /* Why the file was refused, or "". */
    bool based;        /* The rules are those of BASE. */
} rules;
static ZC_OWN bool grown; /* An array on the device has.  Atomic. */

const struct zc_policy *zc_rules(void)
{
    return &rules.policy;
}

const char *zc_rules_path(void)
{
    return rules.based ? BASE : rules.path[0] && !rules.refusal[0] ? rules.path : NULL;
}

static void *map_memory(size_t bytes)
{
    void *p = zc_memory_map(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}

static void count_fault(void *ctx, enum zc_policy_severity severity, unsigned line, unsigned column,
                        const char *message)
{
    (void)severity, (void)line, (void)column, (void)message;
    ++*(unsigned *)ctx;
}

static void report_fault(void *ctx, enum zc_policy_severity severity, unsigned line,
                         unsigned column, const char *message)
{
    (void)ctx;
    zc_message(severity == ZC_SEVERITY_ERROR ? ZC_ERROR : ZC_WARN, "policy", "%s:%u:%u: %s",
               rules.path, line, column, message);
}

static void policy_read(int fd)
{
    rules.text = map_memory(ZC_POLICY_MAX_BYTES + 1);
    for (ssize_t got; rules.text && rules.text_bytes <= ZC_POLICY_MAX_BYTES;
         rules.text_bytes += (size_t)got) {
        got = read(fd, rules.text + rules.text_bytes, ZC_POLICY_MAX_BYTES + 1 - rules.text_bytes);
        if (got <= 0)
            break;
    }
}

static void policy_drop_text(void)
{
    if (rules.text)
        zc_memory_unmap(rules.text, ZC_POLICY_MAX_BYTES + 1);
    rules.text = NULL;
}

/* The rules stay mapped for the life of the process.  A file with faults is parsed again when its
 * faults can be reported. */
static void policy_parse(void)
{
    struct zc_policy_memory memory = {.size = zc_policy_memory_for(rules.text_bytes)};
    unsigned faults = 0;
    memory.base = map_memory(memory.size);
    if (!memory.base)
        return;
    rules.errors = zc_policy_parse(rules.based ? BASE : rules.path, rules.text, rules.text_bytes,
                                   &memory, count_fault, &faults, &rules.policy);
    if (rules.errors && zc_option_on(zc_options()->strict))
        memset(&rules.policy, 0, sizeof(rules.policy));
    if (!faults)
        policy_drop_text();
    if (rules.policy.needs & ZC_NEED_JOB)
        zc_log_host(); /* So that threads only read it. */
}

/* Without a profile, or with one that is damaged, which costs speed alone. */
static void base_load(void)
{
    if (rules.errors)
        strcpy(rules.refusal, "it is damaged");
    rules.based = true;
    if (!rules.text)
        rules.text = map_memory(ZC_POLICY_MAX_BYTES + 1);
    if (!rules.text)
        return;
    rules.text_bytes = zc_profile_base(rules.text);
    policy_parse();
}

static void policy_load(void)
{
    int fd = -1;
    enum zc_policy_find_result found = ZC_POLICY_NONE;
    if (zc_options_read()->secure)
        return;
    bool taught = zc_profile_asked();
    const char *own = taught ? zc_profile_find() : NULL;
    if (own)
        found =
            zc_policy_open_own(strcpy(rules.path, own), &fd, rules.refusal, sizeof(rules.refusal));
    else if (!taught)
        found = zc_policy_open(zc_options()->policy, &fd, rules.path, sizeof(rules.path),
                               rules.refusal, sizeof(rules.refusal));
    if (found == ZC_POLICY_NONE)
        rules.path[0] = '\0';
    if (found == ZC_POLICY_FOUND) {
        policy_read(fd);
        close(fd);
        if (rules.text)
            policy_parse();
    }
    if (taught && (found != ZC_POLICY_FOUND || rules.errors))
        base_load();
}

bool zc_rules_load(void)
{
    int saved = errno, cancelled;
    if (__atomic_load_n(&rules.state, __ATOMIC_ACQUIRE) == READ)
        return true;
    /* Reading a file is a cancellation point, and malloc(3) is none; and others wait. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    bool mine = zc_lock_take(&rules_lock);
    if (mine && rules.state != READ) {
        __atomic_store_n(&rules.state, READING, __ATOMIC_RELEASE);
        policy_load();
        __atomic_store_n(&rules.state, READ, __ATOMIC_RELEASE);
    }
    if (mine)
        zc_lock_drop(&rules_lock);
    pthread_setcancelstate(cancelled, NULL);
    errno = saved;
    return mine;
}

/* Reports what happens to a file with errors; first, because only so many messages are printed. */
static void say_verdict(void)
{
    if (zc_option_on(zc_options()->strict))
        zc_message(ZC_ERROR, "policy", "%s: refused whole because of %d error%s (ZC_STRICT)",
                   rules.path, rules.errors, rules.errors == 1 ? "" : "s");
    else
        zc_message(ZC_ERROR, "policy",
                   "%s: going on without what is at fault: %U rule%s of the file %s used",
                   rules.path, (uint64_t)rules.policy.rule_count,
                   rules.policy.rule_count == 1 ? "" : "s",
                   rules.policy.rule_count == 1 ? "is" : "are");
}

static void say_faults(void)
{
    struct zc_policy again;
    struct zc_policy_memory memory = {.size = zc_policy_memory_for(rules.text_bytes)};
    memory.base = map_memory(memory.size);
    if (rules.errors)
        say_verdict();
    if (memory.base) {
        zc_policy_parse(rules.path, rules.text, rules.text_bytes, &memory, report_fault, NULL,
                        &again);
        zc_memory_unmap(memory.base, memory.size);
    }
    policy_drop_text();
}

void zc_rules_announce(void)
{
    if (rules.refusal[0])
        zc_message(ZC_ERROR, "policy", "%s: %s; going on %s", rules.path, rules.refusal,
                   rules.based ? "with " BASE : "without a policy");
    if (rules.text)
        say_faults();
}

bool zc_rules_in_use(void)
{
    uint32_t state = __atomic_load_n(&rules.state, __ATOMIC_ACQUIRE);
    return state == READING || (state == READ && rules.policy.rule_count > 0);
}

static void rules_child(void)
{
    if (rules.state == READING) /* The parent's text may be unmapped already. */
        memset(&rules, 0, sizeof(rules));
    for (size_t i = 0; i < rules.policy.rule_count; i++)
        atomic_store_explicit(&rules.policy.rules[i].counters->fits, 0, memory_order_relaxed);
}

/* Without a launcher the process is rank 0 of its own job, also in the log. */
static void add_job(struct zc_match *request)
{
    const struct zc_job *job = zc_job();
    request->rank = job->launcher ? job->rank : 0;
    request->local_rank = job->launcher ? job->local_rank : 0;
    request->host = zc_log_host();
}

void zc_rules_grown(void)
{
    __atomic_store_n(&grown, true, __ATOMIC_RELAXED);
}

const struct zc_rule *zc_rules_match(struct zc_match *request, uint32_t site)
{
    char thread[16] = ""; /* prctl(2): at most 16 bytes with the 0. */
    if (rules.policy.needs & ZC_NEED_SITE)
        request->site = zc_site_native(site);
    if (rules.policy.needs & ZC_NEED_MODULE)
        request->module = zc_site_module(site);
    if (rules.policy.needs & ZC_NEED_EXE)
        request->exe = zc_log_program();
    if ((rules.policy.needs & ZC_NEED_THREAD) && prctl(PR_GET_NAME, thread) == 0)
        request->thread = thread;
    if (rules.policy.needs & ZC_NEED_JOB)
        add_job(request);
    request->grown = __atomic_load_n(&grown, __ATOMIC_RELAXED);
    const struct zc_rule *rule = zc_policy_match(&rules.policy, request);
    zc_missed_note(&rules.policy, request, site, rule != NULL);
    request->thread = NULL;
    return rule;
}

const struct zc_module zc_module_rules = {.child = rules_child};
