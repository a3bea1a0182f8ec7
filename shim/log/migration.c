/* What the log tells of managed memory's migrations and page faults. */
#include "log/migration.h"

#include "base/text.h"

static const struct {
    const char *field; /* In the log. */
    const char *text;  /* For people, behind the number. */
    bool bytes;        /* A size. */
} kinds[ZC_MIGRATION_KINDS] = {
    [ZC_MIGRATION_HTOD] = {"htod_bytes", "HtoD", true},
    [ZC_MIGRATION_DTOH] = {"dtoh_bytes", "DtoH", true},
    [ZC_MIGRATION_CPU_FAULTS] = {"cpu_faults", "CPU faults", false},
    [ZC_MIGRATION_GPU_FAULTS] = {"gpu_fault_groups", "GPU fault groups", false},
};

static bool measured;
static const char *reason;                   /* Why they are not; NULL: nobody asked for them. */
static uint64_t sum[ZC_MIGRATION_KINDS];     /* Atomic. */
static uint64_t records[ZC_MIGRATION_KINDS]; /* Atomic. */

void zc_migration_begin(void)
{
    measured = true;
}

void zc_migration_fail(const char *why)
{
    measured = false;
    reason = why;
}

void zc_migration_add(enum zc_migration_kind kind, uint64_t value)
{
    __atomic_fetch_add(&sum[kind], value, __ATOMIC_RELAXED);
    __atomic_fetch_add(&records[kind], 1, __ATOMIC_RELAXED);
}

bool zc_migration_told(bool any_managed)
{
    return any_managed || measured || reason;
}

static const char *why(void)
{
    return reason ? reason : "um_counters = yes is not set";
}

void zc_migration_line(struct zc_line *line)
{
    zc_line_open(line, "unified_memory", '{');
    zc_line_bool(line, "measured", measured);
    zc_line_str(line, "why", measured ? NULL : why());
    for (int i = 0; measured && i < ZC_MIGRATION_KINDS; i++) {
        if (__atomic_load_n(&records[i], __ATOMIC_RELAXED))
            zc_line_u64(line, kinds[i].field, __atomic_load_n(&sum[i], __ATOMIC_RELAXED));
        else
            zc_line_null(line, kinds[i].field);
    }
    zc_line_close(line, '}');
}

void zc_migration_text(struct zc_text *text)
{
    unsigned told = 0;
    zc_text_str(text, "unified memory: ");
    if (!measured) {
        zc_text_fmt(text, "not measured: %s\n", why());
        return;
    }
    for (int i = 0; i < ZC_MIGRATION_KINDS; i++) {
        uint64_t value = __atomic_load_n(&sum[i], __ATOMIC_RELAXED);
        if (!__atomic_load_n(&records[i], __ATOMIC_RELAXED))
            continue;
        zc_text_fmt(text, kinds[i].bytes ? "%s%B %s" : "%s%U %s", told++ ? ", " : "at least ",
                    value, kinds[i].text);
    }
    zc_text_str(text, told ? "\n" : "nothing was reported\n");
}

void zc_migration_reset(void)
{
    measured = false;
    for (int i = 0; i < ZC_MIGRATION_KINDS; i++)
        sum[i] = records[i] = 0;
}
