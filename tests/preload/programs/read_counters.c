/* SPDX-License-Identifier: MIT */
/* Prints the totals of a counters file that a process left: "dir calls bytes outcome", one line
 * each, then what the blocks' cells and the sites hold together as "cells dir calls bytes". */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ledger/counters.h"

static const char *const dirs[] = {
#define DIR_NAME(name, text) text,
    ZC_DIRS(DIR_NAME)
#undef DIR_NAME
};
static const char *const outcomes[ZC_OUTCOME_COUNT] = {"moved", "cpu", "elided"};

static void print_totals(const struct zc_counters *c)
{
    for (unsigned dir = 0; dir < ZC_DIR_COUNT; dir++)
        for (unsigned o = 0; o < ZC_OUTCOME_COUNT; o++) {
            struct zc_count sum = {0, 0};
            for (unsigned s = 0; s < ZC_COUNTERS_SLOTS; s++)
                for (unsigned k = 0; k < ZC_KIND_COUNT * ZC_KIND_COUNT; k++) {
                    unsigned flow = dir * ZC_KIND_COUNT * ZC_KIND_COUNT + k;
                    sum.calls += c->slot[s].asked[flow][o].calls;
                    sum.bytes += c->slot[s].asked[flow][o].bytes;
                }
            if (sum.calls)
                printf("%s %llu %llu %s\n", dirs[dir], (unsigned long long)sum.calls,
                       (unsigned long long)sum.bytes, outcomes[o]);
        }
}

static void add(struct zc_count *sum, const struct zc_cell *cell)
{
    for (unsigned o = 0; o < ZC_OUTCOME_COUNT; o++) {
        sum->calls += cell->by[o].calls;
        sum->bytes += cell->by[o].bytes;
    }
}

static void print_cells(const struct zc_counters *c)
{
    struct zc_count sum[ZC_DIR_COUNT] = {{0, 0}};
    for (unsigned i = 0; i < ZC_COUNTERS_CELLS; i++)
        if (c->cell[i].block && c->cell[i].dir < ZC_DIR_COUNT)
            add(&sum[c->cell[i].dir], &c->cell[i]);
    for (unsigned s = 0; s < ZC_COUNTERS_SITES; s++)
        for (unsigned dir = 0; dir < ZC_DIR_COUNT; dir++)
            add(&sum[dir], &c->site[s].total[dir]);
    for (unsigned dir = 0; dir < ZC_DIR_COUNT; dir++)
        if (sum[dir].calls)
            printf("cells %s %llu %llu\n", dirs[dir], (unsigned long long)sum[dir].calls,
                   (unsigned long long)sum[dir].bytes);
}

int main(int argc, char **argv)
{
    struct stat info;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &info) != 0 || (size_t)info.st_size < sizeof(struct zc_counters))
        return 1;
    const struct zc_counters *c = mmap(NULL, sizeof(*c), PROT_READ, MAP_SHARED, fd, 0);
    if (c == MAP_FAILED || memcmp(c->header.magic, ZC_COUNTERS_MAGIC, sizeof(c->header.magic)))
        return 1;
    printf("schema %u closed %llu exe %.64s\n", c->header.schema,
           (unsigned long long)c->header.closed, c->header.exe);
    print_totals(c);
    print_cells(c);
    return 0;
}
