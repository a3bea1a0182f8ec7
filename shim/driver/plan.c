/* SPDX-License-Identifier: MIT */
/* The plan of a copy: the first row of the table that its facts fit. */
#include "driver/plan.h"

#define F(fact) (uint32_t)(ZC_FACT_##fact)

enum zc_way zc_plan(uint32_t facts)
{
    static const struct {
        uint32_t needs, lacks;
        enum zc_way way;
    } rows[] = {
#define ZC_ROW(way, needs, lacks) {needs, lacks, ZC_WAY_##way},
#include "driver/plan.def"
#undef ZC_ROW
    };
    unsigned i = 0; /* The last row fits all. */
    while ((facts & rows[i].needs) != rows[i].needs || facts & rows[i].lacks)
        i++;
    return rows[i].way;
}
