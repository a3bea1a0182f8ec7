/* SPDX-License-Identifier: MIT */
/* Reads the policy, and tells what it faults. */
#include "ledger/rules.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/errno.h"
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
    char path[4096]; /* Of the file whose rules are in force, or "". */
} rules;
struct zc_policy zc_rules_read;
static ZC_OWN bool grown; /* An array on the device has.  Atomic. */

const char *zc_rules_path(void)
{
    return rules.path[0] ? rules.path : NULL;
}

static void report_fault(void *ctx, enum zc_policy_severity severity, unsigned line,
                         unsigned column, const char *message)
{
    (void)ctx;
    zc_message(severity == ZC_SEVERITY_ERROR ? ZC_ERROR : ZC_WARN, "policy", "%s:%u:%u: %s",
               rules.path, line, column, message);
}

/* The rules stay mapped for the life of the process.  `report` is NULL for what `zc` wrote. */
static void policy_parse(const char *text, size_t bytes, zc_policy_report_fn report)
{
    struct zc_policy_memory memory = {.size = zc_policy_memory_for(bytes)};
    memory.base = zc_memory_fresh(memory.size, PROT_READ | PROT_WRITE);
    if (!memory.base)
        return;
    rules.errors = zc_policy_parse(rules.path, text, bytes, &memory, report, NULL, &zc_rules_read);
    if (zc_rules_read.needs & ZC_NEED_JOB)
        zc_log_host(); /* So that threads only read it. */
}

static void policy_read(int fd, zc_policy_report_fn report)
{
    size_t bytes = 0;
    char *text = zc_memory_fresh(ZC_POLICY_MAX_BYTES + 1, PROT_READ | PROT_WRITE);
    for (ssize_t got = text != NULL; got > 0 && bytes <= ZC_POLICY_MAX_BYTES;
         bytes += got > 0 ? (size_t)got : 0)
        got = read(fd, text + bytes, ZC_POLICY_MAX_BYTES + 1 - bytes);
    close(fd);
    if (!text)
        return;
    policy_parse(text, bytes, report);
    zc_memory_unmap(text, ZC_POLICY_MAX_BYTES + 1);
}

/* A file with errors is used as far as it is right, or not at all. */
static void say_verdict(void)
{
    if (zc_option_on(zc_options()->strict)) {
        memset(&zc_rules_read, 0, sizeof(zc_rules_read));
        zc_message(ZC_ERROR, "rules", "%s: refused whole because of %d error%s (ZC_STRICT)",
                   rules.path, rules.errors, rules.errors == 1 ? "" : "s");
    } else {
        zc_message(ZC_ERROR, "rules",
                   "%s: going on without what is at fault: %U rule%s of the file %s used",
                   rules.path, (uint64_t)zc_rules_read.rule_count,
                   zc_rules_read.rule_count == 1 ? "" : "s",
                   zc_rules_read.rule_count == 1 ? "is" : "are");
    }
}

static void policy_load(void)
{
    int fd = -1;
    char why[256] = "";
    enum zc_policy_find_result found =
        zc_policy_open(zc_options()->policy, &fd, rules.path, sizeof(rules.path), why, sizeof(why));
    if (found == ZC_POLICY_FOUND)
        policy_read(fd, report_fault);
    if (rules.errors)
        say_verdict();
    if (found == ZC_POLICY_REFUSED)
        zc_message(ZC_ERROR, "rules", "%s: %s; going on without a policy", rules.path, why);
    if (found != ZC_POLICY_FOUND)
        rules.path[0] = '\0';
}

/* Without a profile, or with one that is damaged, which costs speed alone, the rules are BASE. */
static void profile_load(void)
{
    int fd = -1;
    char why[256];
    const char *own = zc_profile_find();
    enum zc_policy_find_result found = ZC_POLICY_NONE;
    size_t bytes;
    if (own)
        found = zc_policy_open_own(strcpy(rules.path, own), &fd, why, sizeof(why));
    if (found == ZC_POLICY_FOUND) {
        policy_read(fd, NULL);
        if (!rules.errors)
            return;
        strcpy(why, "it is damaged");
    }
    if (found != ZC_POLICY_NONE)
        zc_message(ZC_ERROR, "rules", "%s: %s; going on with " BASE, rules.path, why);
    strcpy(rules.path, BASE);
    const char *text = zc_profile_base(&bytes);
    policy_parse(text, bytes, NULL);
}

bool zc_rules_load(void)
{
    int cancelled;
    if (__atomic_load_n(&rules.state, __ATOMIC_ACQUIRE) == READ)
        return true;
    ZC_KEEPS_ERRNO;
    /* Reading a file is a cancellation point, and malloc(3) is none; and others wait. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    bool mine = zc_lock_take(&rules_lock);
    if (mine && rules.state != READ) {
        __atomic_store_n(&rules.state, READING, __ATOMIC_RELEASE);
        if (!zc_options_read()->secure)
            (zc_profile_asked() ? profile_load : policy_load)();
        __atomic_store_n(&rules.state, READ, __ATOMIC_RELEASE);
    }
    if (mine)
        zc_lock_drop(&rules_lock);
    pthread_setcancelstate(cancelled, NULL);
    return mine;
}

bool zc_rules_in_use(void)
{
    uint32_t state = __atomic_load_n(&rules.state, __ATOMIC_ACQUIRE);
    return state == READING || (state == READ && zc_rules_read.rule_count > 0);
}

static void rules_child(void)
{
    if (rules.state == READING) /* The parent's text may be unmapped already. */
        memset(&rules, 0, sizeof(rules));
    for (size_t i = 0; i < zc_rules_read.rule_count; i++)
        atomic_store_explicit(&zc_rules_read.rules[i].counters->fits, 0, memory_order_relaxed);
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
    if (zc_rules_read.needs & ZC_NEED_SITE)
        request->site = zc_site_native(site);
    if (zc_rules_read.needs & ZC_NEED_MODULE)
        request->module = zc_site_module(site);
    if (zc_rules_read.needs & ZC_NEED_EXE)
        request->exe = zc_log_program();
    if ((zc_rules_read.needs & ZC_NEED_THREAD) && prctl(PR_GET_NAME, thread) == 0)
        request->thread = thread;
    if (zc_rules_read.needs & ZC_NEED_JOB)
        add_job(request);
    request->grown = __atomic_load_n(&grown, __ATOMIC_RELAXED);
    const struct zc_rule *rule = zc_policy_match(&zc_rules_read, request);
    zc_missed_note(&zc_rules_read, request, site, rule != NULL);
    request->thread = NULL;
    return rule;
}

const struct zc_module zc_module_rules = {.child = rules_child};
