/* SPDX-License-Identifier: MIT */
/* Names of memory kinds, directions and sources. */
#include "ledger/flow.h"

#include <stddef.h>

#define TEXT(name, text) text,
static const char *const kinds[] = {ZC_KINDS(TEXT)};
static const char *const dirs[] = {ZC_DIRS(TEXT)};
static const char *const sources[] = {NULL, ZC_SOURCES(TEXT)};

const char *zc_kind_name(enum zc_kind kind)
{
    return (unsigned)kind < ZC_KIND_COUNT ? kinds[kind] : "?";
}

const char *zc_dir_name(enum zc_dir dir)
{
    return (unsigned)dir < ZC_DIR_COUNT ? dirs[dir] : "?";
}

const char *zc_source_name(enum zc_source source)
{
    return (unsigned)source < ZC_SOURCE_COUNT ? sources[source] : "?";
}
