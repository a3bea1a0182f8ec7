/* SPDX-License-Identifier: MIT */
/*
 * The table of keys and the words that they accept.
 */
#include "internal.h"

_Static_assert(ZC_KEY_COUNT <= 64, "zc_rule.given and zc_policy.given have a bit for each key");
_Static_assert(sizeof(enum zc_access) == sizeof(unsigned), "words are stored as unsigned");

const struct zc_word zc_place_words[] = {
    [ZC_PLACE_DEVICE] = {"device", ZC_PLACE_DEVICE},
    [ZC_PLACE_MAPPED] = {"mapped", ZC_PLACE_MAPPED},
    [ZC_PLACE_MANAGED] = {"managed", ZC_PLACE_MANAGED},
    [ZC_PLACE_VMM] = {"vmm", ZC_PLACE_VMM},
    [ZC_PLACE_SHARED] = {"shared", ZC_PLACE_SHARED},
    [ZC_PLACE_PAGEABLE] = {"pageable", ZC_PLACE_PAGEABLE},
    [ZC_PLACE_PINNED] = {"pinned", ZC_PLACE_PINNED},
    {NULL, 0},
};

const struct zc_word zc_access_words[] = {
    {"read", ZC_ACCESS_READ},
    {"readwrite", ZC_ACCESS_READWRITE},
    {NULL, 0},
};

const struct zc_word zc_async_words[] = {
    {"staged", ZC_ASYNC_STAGED},
    {"overlap", ZC_ASYNC_OVERLAP},
    {NULL, 0},
};

const struct zc_word zc_prefetch_words[] = {
    {"none", ZC_PREFETCH_NONE},
    {"auto", ZC_PREFETCH_AUTO},
    {NULL, 0},
};

const struct zc_word zc_commit_words[] = {
    {"eager", ZC_COMMIT_EAGER},
    {"lazy", ZC_COMMIT_LAZY},
    {NULL, 0},
};

const struct zc_word zc_yes_words[] = {
    {"no", 0},
    {"yes", 1},
    {NULL, 0},
};

const struct zc_word zc_spill_words[] = {
    {"none", ZC_SPILL_NONE},
    {"host", ZC_SPILL_HOST},
    {"move", ZC_SPILL_MOVE},
    {"fetch", ZC_SPILL_FETCH},
    {NULL, 0},
};

const struct zc_word zc_rdma_words[] = {
    {"yes", ZC_RDMA_YES},
    {"no", ZC_RDMA_NO},
    {NULL, 0},
};

const struct zc_word zc_pageable_copy_words[] = {
    {"driver", ZC_PAGEABLE_COPY_DRIVER},
    {"parallel", ZC_PAGEABLE_COPY_PARALLEL},
    {NULL, 0},
};

/* The least number of each. */
const struct zc_word zc_parity_words[] = {
    {"odd", 1},
    {"even", 2},
    {NULL, 0},
};

const struct zc_word zc_log_level_words[] = {
    {"summary", ZC_LOG_LEVEL_SUMMARY},
    {"allocs", ZC_LOG_LEVEL_ALLOCS},
    {"events", ZC_LOG_LEVEL_EVENTS},
    {NULL, 0},
};

#define RULE(member) offsetof(struct zc_rule, member)
#define DEFAULTS(member) offsetof(struct zc_policy, member)
static const struct zc_key keys[ZC_KEY_COUNT] = {
#define ZC_KEY(id, name, scope, places, parse, field, words, values, help, more)                   \
    [ZC_KEY_##id] = {name, scope, places, zc_value_##parse, field, words, values, help},
#include "keys.def"
#undef ZC_KEY
};

const struct zc_key *zc_policy_keys(void)
{
    return keys;
}

/* The key of that name that may stand in one of the scopes, or NULL. */
const struct zc_key *zc_key_find(struct zc_slice name, unsigned scope)
{
    for (size_t i = 0; i < ZC_KEY_COUNT; i++) {
        if ((keys[i].scope & scope) != 0 && zc_slice_is(name, keys[i].name))
            return &keys[i];
    }
    return NULL;
}

const char *zc_key_nearest(struct zc_slice name, unsigned scope)
{
    struct zc_nearest nearest;

    zc_nearest_start(&nearest, name);
    for (size_t i = 0; i < ZC_KEY_COUNT; i++) {
        if ((keys[i].scope & scope) != 0)
            zc_nearest_offer(&nearest, keys[i].name);
    }
    return nearest.best;
}

/* The row of a word, or NULL. */
const struct zc_word *zc_word_find(const struct zc_word *words, struct zc_slice name)
{
    for (; words->name != NULL; words++) {
        if (zc_slice_is(name, words->name))
            return words;
    }
    return NULL;
}

const char *zc_place_name(enum zc_place_id place)
{
    return (unsigned)place < ZC_PLACE_COUNT ? zc_place_words[place].name : "?";
}

const char *zc_stream_name(enum zc_stream_kind stream)
{
    static const char *const names[] = {"none", "default", "legacy", "per-thread", "created"};
    return (unsigned)stream <= ZC_STREAM_CREATED ? names[stream] : "?";
}

bool zc_log_level_from_name(const char *name, enum zc_policy_log_level *out)
{
    const struct zc_word *word = zc_word_find(zc_log_level_words, zc_slice_of(name));

    if (word != NULL)
        *out = (enum zc_policy_log_level)word->value;
    return word != NULL;
}
