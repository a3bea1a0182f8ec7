/* SPDX-License-Identifier: MIT */
/*
 * From the text of policy.conf to rules: sections, keys, reports of faults, memory.
 */
#include <string.h>

#include "internal.h"

/* Bytes of values that one byte of text can need: an item of a list takes two bytes of text and
 * at most sizeof(struct zc_range) of memory, beside a copy of the text and alignment. */
#define MEMORY_PER_BYTE 16

#define RULE_MEMORY (sizeof(struct zc_rule) + sizeof(struct zc_rule_counters))

/* "[rule a]" takes this many bytes, so that a short text cannot have many rules. */
#define RULE_TEXT_MIN 8

/* Most rules that a text of n bytes can have. */
static size_t max_rules(size_t n)
{
    size_t rules = n / RULE_TEXT_MIN + 1;

    return rules < ZC_POLICY_MAX_RULES ? rules : ZC_POLICY_MAX_RULES;
}

size_t zc_policy_memory_for(size_t n)
{
    if (n > ZC_POLICY_MAX_BYTES)
        n = ZC_POLICY_MAX_BYTES;
    return max_rules(n) * RULE_MEMORY + n * MEMORY_PER_BYTE + 4 * _Alignof(max_align_t);
}

void *zc_parser_take(struct zc_parser *parser, size_t size)
{
    struct zc_policy_memory *mem = parser->mem;
    const size_t align = _Alignof(max_align_t);
    uintptr_t at = (uintptr_t)mem->base + mem->used;
    size_t gap = (align - at % align) % align;

    if (gap > mem->size - mem->used || size > mem->size - mem->used - gap) {
        zc_fault(parser, parser->text, "no memory left for the policy");
        return NULL;
    }
    mem->used += gap + size;
    return memset((char *)mem->base + mem->used - size, 0, size);
}

const char *zc_parser_copy(struct zc_parser *parser, struct zc_slice text)
{
    char *copy = zc_parser_take(parser, text.n + 1);

    if (copy != NULL)
        memcpy(copy, text.at, text.n);
    return copy;
}

static void report(struct zc_parser *parser, enum zc_policy_severity severity, unsigned line,
                   unsigned column, const char *format, va_list args)
{
    struct zc_note message;

    if (severity == ZC_SEVERITY_ERROR) {
        parser->errors++;
        if (parser->rule != NULL)
            parser->rule_faulty = true;
    }
    if (parser->report == NULL || parser->reports > ZC_POLICY_MAX_REPORTS)
        return;
    if (parser->reports++ == ZC_POLICY_MAX_REPORTS)
        zc_note_set(&message, "more faults follow; the first %u are listed",
                    (uint64_t)ZC_POLICY_MAX_REPORTS);
    else
        zc_note_set_list(&message, format, args);
    parser->report(parser->ctx, severity, line, column, message.text);
}

bool zc_fault(struct zc_parser *parser, struct zc_slice where, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(parser, ZC_SEVERITY_ERROR, parser->line, (unsigned)(where.at - parser->text.at) + 1,
           format, args);
    va_end(args);
    return false;
}

void zc_fault_at(struct zc_parser *parser, enum zc_policy_severity severity, unsigned line,
                 unsigned column, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(parser, severity, line, column, format, args);
    va_end(args);
}

/* Ends the rule at hand, which stays if nothing is wrong with it. */
static void finish_rule(struct zc_parser *parser)
{
    struct zc_rule *rule = parser->rule;

    if (rule == NULL)
        return;
    if (!parser->rule_faulty)
        zc_rule_check(parser, rule);
    if (!parser->rule_faulty)
        parser->out->rule_count++;
    parser->rule = NULL;
}

/* Letters of rule names, which are not empty: they stand in logs, messages and command lines
 * without quotes. */
static bool is_rule_name(struct zc_slice name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-' || c == '.'))
            return false;
    }
    return true;
}

/* Begins the rule of that name. A faulty name makes the rule faulty, but its keys are still read,
 * so that one run reports all faults. */
static void begin_rule(struct zc_parser *parser, struct zc_slice head, struct zc_slice name)
{
    struct zc_policy *out = parser->out;

    if (out->rule_count == parser->rule_capacity) {
        zc_fault(parser, head, "no room for more than %u rules", (uint64_t)parser->rule_capacity);
        parser->section = ZC_SECTION_SKIPPED;
        return;
    }
    parser->section = ZC_SECTION_RULE;
    parser->rule_faulty = false;
    parser->rule = &out->rules[out->rule_count];
    memset(parser->rule, 0, sizeof *parser->rule);
    memset(&parser->rule_keys, 0, sizeof parser->rule_keys);
    parser->rule->line = parser->line;
    parser->rule->counters = &parser->counters[out->rule_count];
    if (name.n == 0)
        zc_fault(parser, head, "a rule needs a name, as in [rule tables]");
    else if (!is_rule_name(name))
        zc_fault(parser, name, "rule name %w may hold letters, digits, '_', '-' and '.' only",
                 &name);
    else
        parser->rule->name = zc_parser_copy(parser, name);
}

/* "rule" and "tables" of "rule tables". */
static void split_head(struct zc_slice head, struct zc_slice *kind, struct zc_slice *name)
{
    kind->at = head.at;
    kind->n = 0;
    while (kind->n < head.n && head.at[kind->n] != ' ' && head.at[kind->n] != '\t')
        kind->n++;
    *name = zc_slice_trim((struct zc_slice){head.at + kind->n, head.n - kind->n});
}

static void take_section(struct zc_parser *parser, struct zc_slice line)
{
    static const struct zc_word sections[] = {
        {"defaults", ZC_SECTION_DEFAULTS}, {"rule", ZC_SECTION_RULE}, {NULL, 0}};
    struct zc_slice kind, name;

    finish_rule(parser);
    parser->section = ZC_SECTION_SKIPPED;
    if (line.at[line.n - 1] != ']') {
        zc_fault(parser, line, "section %w does not end with ']'", &line);
        return;
    }
    split_head(zc_slice_trim((struct zc_slice){line.at + 1, line.n - 2}), &kind, &name);
    const struct zc_word *word = zc_word_find(sections, kind);
    if (word == NULL)
        zc_fault(parser, kind, "unknown section %w%k", &kind, &kind, sections);
    else if (word->value == ZC_SECTION_RULE)
        begin_rule(parser, line, name);
    else if (name.n > 0)
        zc_fault(parser, name, "section 'defaults' has no name, found %w", &name);
    else
        parser->section = ZC_SECTION_DEFAULTS;
}

static void fault_unknown_key(struct zc_parser *parser, struct zc_slice name, const char *near)
{
    zc_fault(parser, name, "unknown key %w%h%s", &name, near,
             near == NULL ? " ('zc check --keys' prints all)" : "");
}

/* The key of a line of the section at hand; reports and returns NULL if there is none. */
static const struct zc_key *find_key(struct zc_parser *parser, struct zc_slice name)
{
    const unsigned in_rule = ZC_SCOPE_MATCH | ZC_SCOPE_PLACE;
    bool defaults = parser->section == ZC_SECTION_DEFAULTS;
    unsigned here = defaults ? ZC_SCOPE_DEFAULTS : in_rule;
    unsigned there = defaults ? in_rule : ZC_SCOPE_DEFAULTS;
    const struct zc_key *key = zc_key_find(name, here);

    if (key != NULL)
        return key;
    if (zc_key_find(name, there) != NULL)
        zc_fault(parser, name, "key %w belongs into %s", &name, defaults ? "a rule" : "[defaults]");
    else
        fault_unknown_key(parser, name, zc_key_nearest(name, here));
    return NULL;
}

static bool has_word(struct zc_slice list, const char *word)
{
    struct zc_slice item;

    while (zc_slice_next_item(&list, &item)) {
        if (zc_slice_is(item, word))
            return true;
    }
    return false;
}

#define USED "managed pages are sent when their use asks for it"

/* Keys and values of former versions: a policy that has one works, and is told why nothing needs
 * it. */
static bool is_gone(struct zc_parser *parser, struct zc_slice name, struct zc_slice value)
{
    static const struct {
        enum zc_section section;        /* That had it. */
        const char *name, *value, *why; /* A word of values; NULL: the key itself is gone. */
    } gone[] = {
        {ZC_SECTION_RULE, "conflict", NULL,
         "host block and device block have their own content wherever they differ"},
        {ZC_SECTION_RULE, "pageable_copy", NULL,
         "pageable_copy in [defaults] is for all pageable memory"},
        {ZC_SECTION_RULE, "pair", NULL,
         "a device block becomes one with the host block that is copied into it"},
        {ZC_SECTION_RULE, "peers", NULL,
         "the devices that the program lets in by cudaDeviceEnablePeerAccess reach the block"},
        {ZC_SECTION_RULE, "advise", NULL, "managed pages go where their use sends them"},
        {ZC_SECTION_RULE, "prefetch", "alloc", USED},
        {ZC_SECTION_RULE, "prefetch", "copy", USED},
        {ZC_SECTION_RULE, "prefetch", "launch", USED},
        {ZC_SECTION_RULE, "free", NULL,
         "a free waits for the work that runs, as the driver's does"},
        {ZC_SECTION_RULE, "access", "write",
         "results are device memory, from which copies run at the link's speed"},
        {ZC_SECTION_RULE, "numa", NULL,
         "pages come from the node next to the device, or from those that 'numactl' names"},
        {ZC_SECTION_RULE, "write_combined", NULL, "blocks in 'mapped' are plain pinned memory"},
        {ZC_SECTION_DEFAULTS, "report_free", NULL,
         "cudaMemGetInfo tells what the device has free, and max_device leaves"},
        {ZC_SECTION_DEFAULTS, "um_counters", NULL,
         "migrations of managed memory are counted by 'nsys profile "
         "--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true'"},
        {ZC_SECTION_DEFAULTS, "log_level", "deep",
         "no level looks at what copies carry; 'events' tells of each copy"},
    };

    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        if (parser->section != gone[i].section || !zc_slice_is(name, gone[i].name) ||
            (gone[i].value && !has_word(value, gone[i].value)))
            continue;
        struct zc_slice *what = gone[i].value ? &value : &name;
        zc_fault_at(parser, ZC_SEVERITY_WARNING, parser->line,
                    (unsigned)(what->at - parser->text.at) + 1,
                    "%s %w is not needed any more and has no effect: %s",
                    gone[i].value ? "value" : "key", what, gone[i].why);
        return true;
    }
    return false;
}

/* A rule for requests that no rule takes must not take others instead. */
static bool is_of_streams(struct zc_parser *parser, struct zc_slice name)
{
    bool is = parser->section == ZC_SECTION_RULE && zc_slice_is(name, "stream");

    if (is)
        zc_fault(parser, name,
                 "key %w is gone: requests in stream order stay in their pool; leave the rule out, "
                 "or the key where it is 'none'",
                 &name);
    return is;
}

/* Reads the value into the key's field and notes that the key is given. */
static void take_value(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value)
{
    size_t id = (size_t)(key - zc_policy_keys());
    bool in_rule = parser->section == ZC_SECTION_RULE;
    void *base = in_rule ? (void *)parser->rule : (void *)parser->out;

    if (!key->parse(parser, key, value, (char *)base + key->offset))
        return;
    *(in_rule ? &parser->rule->given : &parser->out->given) |= ZC_KEY_BIT(id);
    if (in_rule && id < ZC_MATCH_KEY_COUNT)
        parser->rule->wanted[id] = zc_parser_copy(parser, value);
}

static void take_pair(struct zc_parser *parser, struct zc_slice line)
{
    struct zc_slice name, value;

    if (!zc_slice_split(line, '=', &name, &value) || name.n == 0) {
        zc_fault(parser, line, "expected 'key = value', found %w", &line);
        return;
    }
    if (parser->section == ZC_SECTION_NONE) {
        zc_fault(parser, name, "key %w stands before the first section", &name);
        return;
    }
    if (is_of_streams(parser, name) || is_gone(parser, name, value))
        return;
    const struct zc_key *key = find_key(parser, name);
    if (key == NULL)
        return;
    struct zc_seen *seen =
        parser->section == ZC_SECTION_RULE ? &parser->rule_keys : &parser->defaults;
    size_t id = (size_t)(key - zc_policy_keys());
    if (seen->line[id] != 0) {
        zc_fault(parser, name, "key %w is already given in line %u", &name,
                 (uint64_t)seen->line[id]);
        return;
    }
    seen->line[id] = parser->line;
    seen->column[id] = (unsigned)(value.at - parser->text.at) + 1;
    if (value.n == 0)
        zc_fault(parser, name, "key %w has no value (%s)", &name, key->values);
    else
        take_value(parser, key, value);
}

static void take_line(struct zc_parser *parser, struct zc_slice line)
{
    struct zc_slice rest;
    size_t at;

    parser->text = line;
    if (line.n > ZC_POLICY_MAX_LINE) {
        zc_fault(parser, line, "line of %u bytes; the limit is %u", (uint64_t)line.n,
                 (uint64_t)ZC_POLICY_MAX_LINE);
        return;
    }
    if (zc_slice_has_control(line, &at)) {
        rest = (struct zc_slice){line.at + at, 1};
        zc_fault(parser, rest, "control byte %w; a policy is text in ASCII or UTF-8", &rest);
        return;
    }
    rest = zc_slice_trim(zc_slice_without_comment(line));
    if (rest.n == 0)
        return;
    if (rest.at[0] == '[')
        take_section(parser, rest);
    else if (parser->section != ZC_SECTION_SKIPPED)
        take_pair(parser, rest);
}

/* FNV-1a, 64 bits (IETF draft "The FNV Non-Cryptographic Hash Algorithm"). */
static uint64_t hash_of(struct zc_slice text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Lines that look like the head of a section. */
static size_t count_heads(struct zc_slice text)
{
    struct zc_slice line;
    size_t count = 0;

    while (zc_slice_next_line(&text, &line)) {
        line = zc_slice_trim(line);
        count += line.n > 0 && line.at[0] == '[';
    }
    return count;
}

static void take_rule_memory(struct zc_parser *parser, struct zc_slice text)
{
    size_t heads = count_heads(text), most = max_rules(text.n);
    size_t capacity = heads < most ? heads : most;

    parser->out->rules = zc_parser_take(parser, capacity * sizeof(struct zc_rule));
    parser->counters = zc_parser_take(parser, capacity * sizeof(struct zc_rule_counters));
    if (parser->out->rules != NULL && parser->counters != NULL)
        parser->rule_capacity = capacity;
}

/* Which facts the rules that were kept ask for. */
static void summarize(struct zc_policy *out)
{
    static const struct {
        enum zc_key_id key;
        unsigned need;
    } needs[] = {
        {ZC_KEY_SITE, ZC_NEED_SITE},     {ZC_KEY_MODULE, ZC_NEED_MODULE},
        {ZC_KEY_THREAD, ZC_NEED_THREAD}, {ZC_KEY_EXE, ZC_NEED_EXE},
        {ZC_KEY_NTH, ZC_NEED_NTH},       {ZC_KEY_DEVICE, ZC_NEED_DEVICE},
        {ZC_KEY_RANK, ZC_NEED_JOB},      {ZC_KEY_LOCAL_RANK, ZC_NEED_JOB},
        {ZC_KEY_HOST, ZC_NEED_JOB},      {ZC_KEY_GROWN, ZC_NEED_GROWN},
    };
    uint64_t given = 0;

    for (size_t i = 0; i < out->rule_count; i++) {
        given |= out->rules[i].given;
        out->apis |= out->rules[i].apis;
    }
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if ((given & ZC_KEY_BIT(needs[i].key)) != 0)
            out->needs |= needs[i].need;
    }
}

int zc_policy_parse(const char *file, const char *text, size_t n, struct zc_policy_memory *mem,
                    zc_policy_report_fn report_fn, void *ctx, struct zc_policy *out)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    struct zc_parser parser = {.out = out, .mem = mem, .report = report_fn, .ctx = ctx, .line = 1};
    struct zc_slice rest = {text, n}, line;

    memset(out, 0, sizeof *out);
    out->file = file;
    out->max_pinned = (struct zc_limit){ZC_LIMIT_PERCENT, 50};
    out->hash = hash_of(rest);
    if (n > ZC_POLICY_MAX_BYTES) {
        zc_fault_at(&parser, ZC_SEVERITY_ERROR, 1, 1, "file of %u bytes; the limit is %u",
                    (uint64_t)n, (uint64_t)ZC_POLICY_MAX_BYTES);
        return parser.errors;
    }
    if (n >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        rest.at += 3;
        rest.n -= 3;
    }
    take_rule_memory(&parser, rest);
    for (parser.line = 1; zc_slice_next_line(&rest, &line); parser.line++)
        take_line(&parser, line);
    finish_rule(&parser);
    summarize(out);
    zc_policy_check(&parser);
    return parser.errors;
}
