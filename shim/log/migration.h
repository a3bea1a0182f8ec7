/* What the log tells of managed memory's migrations and page faults. */
#ifndef ZC_LOG_MIGRATION_H
#define ZC_LOG_MIGRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "log/line.h"

/* What can be counted; named as Nsight Systems names it. */
enum zc_migration_kind {
    ZC_MIGRATION_HTOD,       /* Bytes that pages were moved by to a device. */
    ZC_MIGRATION_DTOH,       /* Bytes that pages were moved by to the host. */
    ZC_MIGRATION_CPU_FAULTS, /* Page faults of the CPU's. */
    ZC_MIGRATION_GPU_FAULTS, /* Groups of page faults of a device's. */
    ZC_MIGRATION_KINDS
};

/* Counting begins, or can't: `why` is a constant text of at most 60 bytes. */
void zc_migration_begin(void);
void zc_migration_fail(const char *why);

/* From any thread. */
void zc_migration_add(enum zc_migration_kind kind, uint64_t value);

/* True if the summary has to speak of migrations: they were asked for, or blocks were managed. */
bool zc_migration_told(bool any_managed);

/* The field `unified_memory` of the log's last line.  What was not reported is null, never 0. */
void zc_migration_line(struct zc_line *line);

/* The same for people, one line. */
void zc_migration_text(struct zc_text *text);

void zc_migration_reset(void); /* For the child of fork(2). */

#endif
