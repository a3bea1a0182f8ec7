/* SPDX-License-Identifier: MIT */
/*
 * policy.conf: what a program's owner wants done with its allocations. This header is the whole
 * interface: parse a text once into a struct zc_policy, then match requests against it.
 *
 * Nothing here allocates, locks, formats through stdio, reads the environment or depends on a
 * locale, because all of it runs inside a preloaded library, partly below malloc. A parsed policy
 * is read-only; only the rules' counters change, atomically. Matching is safe in any thread and
 * in signal handlers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest policy file, in bytes: more is refused by zc_policy_open() and zc_policy_parse(). */
#define ZC_POLICY_MAX_BYTES ((size_t)1 << 20)

/* Longest line, in bytes without its line end: a longer one is a fault. */
#define ZC_POLICY_MAX_LINE 4096

/* Most rules of one file: every request may visit all of them. */
#define ZC_POLICY_MAX_RULES 1024

/* Faults that are reported one by one; zc_policy_parse() counts the rest without describing it. */
#define ZC_POLICY_MAX_REPORTS 100

/* The file for all users, read when neither $ZC_POLICY nor ./policy.conf gives a policy. */
#ifndef ZC_POLICY_SYSTEM_PATH
#define ZC_POLICY_SYSTEM_PATH "/etc/zc/policy.conf"
#endif

/* The place of a block's pages, and how they are mapped. */
enum zc_place_id {
    ZC_PLACE_DEVICE,   /* cuMemAlloc, or whatever device memory the program asked for */
    ZC_PLACE_MAPPED,   /* pinned host memory at one address for CPU and GPU */
    ZC_PLACE_MANAGED,  /* cuMemAllocManaged or a managed pool */
    ZC_PLACE_VMM,      /* reserved addresses with device handles mapped in chunks */
    ZC_PLACE_SHARED,   /* one block for the host side and the device side of a copy */
    ZC_PLACE_PAGEABLE, /* host memory as libc gives it */
    ZC_PLACE_PINNED,   /* huge host pages, touched in parallel and registered */
    ZC_PLACE_COUNT
};

/* Sets of places, as bit masks. */
#define ZC_FIT_BIT(place) (1u << (place))
#define ZC_FIT(name) ZC_FIT_BIT(ZC_PLACE_##name)
#define ZC_FIT_DEVICE_REQUEST                                                                      \
    (ZC_FIT(DEVICE) | ZC_FIT(MAPPED) | ZC_FIT(MANAGED) | ZC_FIT(VMM) | ZC_FIT(SHARED))
#define ZC_FIT_HOST_REQUEST (ZC_FIT(PAGEABLE) | ZC_FIT(PINNED) | ZC_FIT(SHARED))
/* Host memory that the driver gives has a device address, which pageable memory has not. */
#define ZC_FIT_PINNED_REQUEST (ZC_FIT(PINNED) | ZC_FIT(SHARED))
/* Beside the places: this version leaves such requests where the program puts them. */
#define ZC_FIT_LATER ZC_FIT_BIT(ZC_PLACE_COUNT)

#define ZC_HOST_MIN ((size_t)64 << 10) /* Smaller requests of host memory are never converted. */

/* Requests that libzc sees: ZC_API_cuMemAlloc ... ZC_API_new, one for each row of api.def. */
enum zc_api {
#define ZC_API(id, ...) ZC_API_##id,
#include "api.def"
#undef ZC_API
    ZC_API_COUNT
};

/* Keys of policy.conf: ZC_KEY_API ... ZC_KEY_UM_COUNTERS, one for each row of keys.def. */
enum zc_key_id {
#define ZC_KEY(id, ...) ZC_KEY_##id,
#include "keys.def"
#undef ZC_KEY
    ZC_KEY_COUNT
};

/* The match keys are the first rows of keys.def; they index zc_rule.wanted. */
#define ZC_MATCH_KEY_COUNT ((size_t)ZC_KEY_NTH + 1)

/* Bit of a key in zc_rule.given and zc_policy.given. */
#define ZC_KEY_BIT(id) (UINT64_C(1) << (id))

/* Stream argument of a request (CUDA Driver API, "Stream synchronization behavior"). */
enum zc_stream_kind {
    ZC_STREAM_NONE,       /* the request has no stream argument */
    ZC_STREAM_DEFAULT,    /* the NULL stream */
    ZC_STREAM_LEGACY,     /* CU_STREAM_LEGACY */
    ZC_STREAM_PER_THREAD, /* CU_STREAM_PER_THREAD, or NULL of a per-thread (_ptsz) variant */
    ZC_STREAM_CREATED,    /* a stream that the program created */
};

/* One allocation call, as the program made it. A string is NULL where zc_policy.needs does not ask
 * for it or it is not known; a NULL string fits no glob. The caller owns all strings. */
struct zc_match {
    enum zc_api api;          /* the entry point that saw it */
    size_t size;              /* bytes asked for, before any rounding */
    const char *module;       /* file name of the caller's object, without folders */
    uint32_t site;            /* call-path id; 0 where not known */
    const char *exe;          /* file name of the program, without folders */
    const char *thread;       /* name of the calling thread */
    int device;               /* CUDA ordinal; negative where there is none */
    int64_t rank, local_rank; /* of the process in its job; negative where not known */
    const char *host;         /* name of the host */
    bool grown;               /* an array on the device has grown before */
};

/* Facts that some rule asks for; zc_policy.needs is a mask of them. The others need not be found
 * out before matching. `size` and `api` are always there. */
#define ZC_NEED_SITE (1u << 0)
#define ZC_NEED_MODULE (1u << 1)
#define ZC_NEED_THREAD (1u << 2)
#define ZC_NEED_EXE (1u << 3)
#define ZC_NEED_NTH (1u << 5)
#define ZC_NEED_DEVICE (1u << 6)
#define ZC_NEED_JOB (1u << 7) /* ranks and host */
#define ZC_NEED_GROWN (1u << 8)

/* In all enumerations below 0 is what holds where the key is not given. */

/* Accesses of kernels to a block. */
enum zc_access { ZC_ACCESS_READWRITE, ZC_ACCESS_READ };

/* Meaning of cudaMemcpyAsync for a block that the program believes to be pageable: staged keeps
 * CUDA's rules for pageable memory (CUDA Runtime API, "API synchronization behavior"). */
enum zc_async { ZC_ASYNC_STAGED, ZC_ASYNC_OVERLAP };

/* When a vmm block gets its physical memory. */
enum zc_commit { ZC_COMMIT_EAGER, ZC_COMMIT_LAZY };

/* Whether a free waits for the work that may still use a vmm block. */

/* Place of the part of a vmm block that does not fit. */
enum zc_spill { ZC_SPILL_NONE, ZC_SPILL_HOST, ZC_SPILL_MOVE, ZC_SPILL_FETCH };

/* Whether other devices of the bus reach a vmm block where they reach cudaMalloc's memory. */
enum zc_rdma { ZC_RDMA_YES, ZC_RDMA_NO };

/* The driver copies pageable memory, or threads do with it. */
/* `links`: the most links that a copy takes. */
#define ZC_LINKS_OWN 1
#define ZC_LINKS_MAX 16
#define ZC_LINKS_IDLE 255

enum zc_pageable_copy { ZC_PAGEABLE_COPY_DRIVER, ZC_PAGEABLE_COPY_PARALLEL };

/* How much the log holds. */
enum zc_policy_log_level { ZC_LOG_LEVEL_SUMMARY, ZC_LOG_LEVEL_ALLOCS, ZC_LOG_LEVEL_EVENTS };

/* When managed pages are sent to the GPU. */
enum zc_prefetch { ZC_PREFETCH_AUTO, ZC_PREFETCH_NONE };

/* `place`: the fallback list of a rule, without repetition. */
struct zc_place_list {
    enum zc_place_id item[ZC_PLACE_COUNT]; /* in the order of the file */
    unsigned count;                        /* at least 1 in a rule of a parsed policy */
};

enum zc_limit_kind { ZC_LIMIT_NONE, ZC_LIMIT_BYTES, ZC_LIMIT_PERCENT };

/* An upper bound of bytes; zc_limit_bytes() resolves it. */
struct zc_limit {
    enum zc_limit_kind kind; /* unit of value */
    uint64_t value;          /* bytes, or percent from 0 to 100 */
};

/* Numbers from low to high, both included. A single number has low == high. */
struct zc_range {
    uint64_t low;    /* least number */
    uint64_t high;   /* greatest number; UINT64_MAX where the range is open */
    bool alternates; /* every other number alone, from low on */
};

/* A list of numbers; empty where the key is not given. */
struct zc_ranges {
    const struct zc_range *item; /* in the order of the file; may overlap */
    size_t count;                /* elements of item */
};

/* A list of glob patterns; empty where the key is not given. */
struct zc_globs {
    const char *const *item; /* patterns of at most NAME_MAX bytes */
    size_t count;            /* elements of item */
};

#define ZC_BUDGETS 16 /* devices with a budget of their own; all further ones share the last */

/* Fields of a rule that change after parsing. */
struct zc_rule_counters {
    _Atomic uint64_t fits; /* requests that reached the rule and fit all keys but `nth`; counted
                            * for rules with `nth` only */
    uint64_t alive[ZC_BUDGETS]; /* bytes alive in the rule's first place, for rules with `budget`,
                                 * by device; kept by whoever places them, atomically */
};

/* A section of policy.conf. All pointers lead into the policy's memory. */
struct zc_rule {
    const char *name;                       /* of "[rule NAME]" */
    unsigned line;                          /* of the section's head, from 1 */
    uint64_t given;                         /* ZC_KEY_BIT of every key in the section */
    const char *wanted[ZC_MATCH_KEY_COUNT]; /* text of each match key's value, or NULL */

    uint64_t apis_named;               /* bit 1 << enum zc_api: requests that `api` names */
    uint64_t apis;                     /* those of them that a place of the rule fits;
                                        * without `api` see zc_rule.place */
    struct zc_ranges size;             /* bytes asked for */
    struct zc_globs module;            /* file names of the calling object */
    struct zc_ranges site;             /* call-path ids */
    struct zc_globs exe;               /* file names of the program */
    struct zc_globs thread;            /* names of the calling thread */
    struct zc_ranges device;           /* CUDA ordinals */
    struct zc_ranges rank, local_rank; /* of the process in its job */
    struct zc_globs host;              /* names of the host */
    unsigned grown;                    /* 1: only once an array has grown */
    struct zc_ranges nth;              /* ordinals of fitting requests, from 1 */

    struct zc_place_list place; /* without `api` a rule takes the plain device
                                 * requests if one of its places is a device
                                 * place, else the host requests */
    enum zc_access access;      /* what kernels do to the block */
    enum zc_async async;        /* pinned, shared: asynchronous copies */
    enum zc_prefetch prefetch;  /* managed: when pages are sent to the GPU */
    uint64_t chunk;             /* vmm: bytes; 0: the place decides */
    enum zc_spill spill;        /* vmm: where a block goes that does not fit */
    enum zc_commit commit;      /* vmm: when memory is attached */
    unsigned grow;              /* vmm, 1: growth copies become remaps */
    enum zc_rdma rdma;          /* vmm: whether GPUDirect RDMA reaches the block */
    struct zc_limit budget;     /* bytes alive in place.item[0]; a percentage is
                                 * of the device's total memory */

    struct zc_rule_counters *counters; /* never NULL in a parsed policy */
};

/* True if the rule's list of places has this one. */
static inline bool zc_rule_has_place(const struct zc_rule *rule, enum zc_place_id place)
{
    for (unsigned i = 0; i < rule->place.count; i++)
        if (rule->place.item[i] == place)
            return true;
    return false;
}

/* A parsed policy: [defaults] and the rules in the order of the file. */
struct zc_policy {
    const char *file;                    /* as passed to zc_policy_parse(), which the caller owns */
    uint64_t given;                      /* ZC_KEY_BIT of every key of [defaults] in the file */
    const char *log;                     /* path pattern, "off", or NULL where not given */
    enum zc_policy_log_level log_level;  /* SUMMARY where not given */
    struct zc_limit max_pinned;          /* of MemAvailable; 50 % where not given */
    struct zc_limit max_managed;         /* of the device's free memory; NONE where not given */
    struct zc_limit max_device;          /* of what each device had free; NONE where not given */
    enum zc_pageable_copy pageable_copy; /* of memory that no rule placed */
    unsigned links;                      /* of large copies: up to ZC_LINKS_MAX, or ZC_LINKS_IDLE;
                                          * 0, ZC_LINKS_OWN where not given */

    struct zc_rule *rules; /* in the order of the file */
    size_t rule_count;     /* elements of rules */
    uint64_t apis;         /* union of the rules' apis: no other request can match */
    unsigned needs;        /* ZC_NEED_* */
    uint64_t hash;         /* FNV-1a, 64 bits, of the file's bytes */
};

/* The memory of one policy: a block that the caller provides, zeroed or not, aligned for any type,
 * and keeps for as long as the policy is used. */
struct zc_policy_memory {
    void *base;  /* the block */
    size_t size; /* bytes */
    size_t used; /* bytes taken by zc_policy_parse(); 0 at first */
};

enum zc_policy_severity { ZC_SEVERITY_ERROR, ZC_SEVERITY_WARNING };

/*
 * Receives one fault. Line and column count from 1, the column in bytes; column 1 where a whole
 * line or rule is meant. The message is one line of printable ASCII that ends with '\0', without
 * file name, valid during the call only.
 */
typedef void (*zc_policy_report_fn)(void *ctx, enum zc_policy_severity severity, unsigned line,
                                    unsigned column, const char *message);

/* Bytes of memory that are always enough to parse a text of n bytes. */
size_t zc_policy_memory_for(size_t n);

/*
 * Parses text[0..n) into *out. A faulty rule is left out whole, a faulty key of [defaults] alone;
 * everything else stays. Accepts CRLF, a UTF-8 byte order mark and a last line without line end.
 * The text is not needed afterwards. `file` is only kept in out->file; NULL is allowed, also for
 * `report`: then nobody is told.
 * Returns the number of errors (warnings are reported, not counted). *out is always usable; after
 * an error it holds what was right, and a caller that wants all or nothing drops it.
 */
int zc_policy_parse(const char *file, const char *text, size_t n, struct zc_policy_memory *mem,
                    zc_policy_report_fn report, void *ctx, struct zc_policy *out);

/* The nearest of n words to one that is none of them, or NULL where none is near; for messages
 * about words outside of policies. */
const char *zc_policy_nearest(const char *word, const char *const *words, size_t n);

/*
 * The first rule that takes the request, or NULL. Counts the request in each rule with `nth` that
 * it reaches and in the rule that takes it.
 */
const struct zc_rule *zc_policy_match(const struct zc_policy *policy,
                                      const struct zc_match *request);

/*
 * How many match keys of the rule do not fit the request, `nth` left out.  The first of them, or
 * `nth` if it alone may not fit, is written to `text` as the file has it, at most n bytes with the
 * 0: "size = 16M.."; it is `place` where none of the rule's places fits.
 */
unsigned zc_rule_misfits(const struct zc_rule *rule, const struct zc_match *request, char *text,
                         size_t n);

enum zc_policy_outcome {
    ZC_OUTCOME_TAKES,  /* the rule takes the request */
    ZC_OUTCOME_FAILS,  /* a key does not fit */
    ZC_OUTCOME_BEHIND, /* it would, but an earlier rule takes the request */
};

/* The verdict of one rule on a request. */
struct zc_verdict {
    const struct zc_rule *rule; /* the rule that is judged */
    enum zc_policy_outcome outcome;
    const struct zc_key *key; /* the first key that fails, or NULL */
    const char *wanted;       /* the key's value in the file, or NULL */
    const char *got;          /* what the request has there, or NULL; valid during the call */
};

typedef void (*zc_policy_emit_fn)(void *ctx, const struct zc_verdict *verdict);

/*
 * Calls emit once for each rule, in order. Returns the rule that takes the request, or NULL.
 * Counts nothing: a rule with `nth` is judged as if the request were the next one to reach it.
 */
const struct zc_rule *zc_policy_explain(const struct zc_policy *policy,
                                        const struct zc_match *request, zc_policy_emit_fn emit,
                                        void *ctx);

enum zc_policy_find_result {
    ZC_POLICY_NONE,    /* there is no policy; nothing was opened */
    ZC_POLICY_FOUND,   /* *fd_out is open */
    ZC_POLICY_REFUSED, /* there is one that must not or cannot be used; why_out says why */
};

/*
 * Opens the policy file for reading: env_path ($ZC_POLICY; NULL or empty where not set, "off" for
 * no policy at all), else ./policy.conf, else ZC_POLICY_SYSTEM_PATH. The first one that exists
 * decides: one that is refused is not replaced by a later one. Only a regular file of at most
 * ZC_POLICY_MAX_BYTES is opened; the last two, and symbolic links there, must belong to the
 * effective user or root, and the file be writable by nobody else. The caller closes *fd_out
 * (O_CLOEXEC). path_out gets the path, also of a refused file, cut to cap bytes; why_out a message
 * without path, "" if not refused. Keeps errno.
 */
enum zc_policy_find_result zc_policy_open(const char *env_path, int *fd_out, char *path_out,
                                          size_t cap, char *why_out, size_t why_cap);

/* The same for a file of zc's own in the user's cache, which must belong to the effective user or
 * root and be writable by nobody else; NONE where there is none. */
enum zc_policy_find_result zc_policy_open_own(const char *path, int *fd_out, char *why_out,
                                              size_t why_cap);

/* A word that a key accepts. Tables end with a NULL name. */
struct zc_word {
    const char *name; /* as written in the file */
    unsigned value;   /* an enumerator, or bits of a set */
};

#define ZC_SCOPE_MATCH (1u << 0)    /* in a rule: which requests */
#define ZC_SCOPE_PLACE (1u << 1)    /* in a rule: what is done with them */
#define ZC_SCOPE_DEFAULTS (1u << 2) /* in [defaults] */

struct zc_parser;
struct zc_slice;
struct zc_key;

/* Reads a value into *field; reports a fault and returns false, or returns true. */
typedef bool (*zc_value_fn)(struct zc_parser *parser, const struct zc_key *key,
                            struct zc_slice value, void *field);

/* A row of keys.def. */
struct zc_key {
    const char *name;            /* as written in the file */
    unsigned scope;              /* ZC_SCOPE_* */
    unsigned places;             /* ZC_FIT_* of the places it has a meaning for; 0: any */
    zc_value_fn parse;           /* reads the value */
    size_t offset;               /* of the field in struct zc_rule or struct zc_policy */
    const struct zc_word *words; /* accepted words, or NULL */
    const char *values;          /* accepted form, for the manual */
    const char *help;            /* one line for the manual */
};

/* All keys, indexed by enum zc_key_id; ZC_KEY_COUNT of them. */
const struct zc_key *zc_policy_keys(void);

/* Names for people. All return "?" for a value out of range. */
const char *zc_place_name(enum zc_place_id place);
const char *zc_api_name(enum zc_api api);
const char *zc_stream_name(enum zc_stream_kind stream);

/* The spellings of a request, NULL at the end; the canonical one first. */
const char *const *zc_api_names(enum zc_api api);

/* ZC_FIT_* mask of the places that a request of this kind can be given. */
unsigned zc_api_places(enum zc_api api);

/* The request that a name of runtime, driver or libc stands for, with or without ABI suffix.
 * False for any other name. */
bool zc_api_from_name(const char *name, enum zc_api *out);

/* "summary", "allocs" or "events". False for any other text. */
bool zc_log_level_from_name(const char *name, enum zc_policy_log_level *out);

/* A size as policy.conf writes it ("64M"), of n bytes. False if it is none or overflows. */
bool zc_size_from_text(const char *text, size_t n, uint64_t *out);

/* Bytes that a limit allows, `whole` being what a percentage is of; UINT64_MAX without limit. */
uint64_t zc_limit_bytes(struct zc_limit limit, uint64_t whole);
