/* SPDX-License-Identifier: MIT */
/* The log's first line: program, machine and policy. */
#include "log/lines.h"

#include "base/errno.h"
#include "base/file.h"
#include "base/job.h"
#include "base/options.h"
#include "base/path.h"
#include "base/version.h"
#include "ledger/profile.h"
#include "ledger/python.h"

#include <string.h>
#include <unistd.h>

#define SCHEMA 1

/* A list of terminated arguments, proc(5). */
static void argv_field(struct zc_line *line)
{
    char buf[ZC_LINE_MAX]; /* More does not fit in the line, either. */
    size_t n = zc_file_text("/proc/self/cmdline", buf, sizeof(buf));
    ZC_LINE_OPEN(line, "argv", '[');
    for (size_t at = 0; at < n; at += strlen(buf + at) + 1)
        zc_line_str(line, NULL, buf + at);
}

static void number_or_null(struct zc_line *line, const char *name, int64_t v, bool known)
{
    if (known)
        zc_line_i64(line, name, v);
    else
        zc_line_null(line, name);
}

static void job_fields(struct zc_line *line)
{
    const struct zc_job *j = zc_job();
    zc_line_i64(line, "rank", j->rank < 0 ? 0 : j->rank);
    zc_line_str(line, "rank_source", j->launcher);
    number_or_null(line, "local_rank", j->local_rank, j->local_rank >= 0);
    number_or_null(line, "world", j->world, j->world >= 0);
    number_or_null(line, "local_world", j->local_world, j->local_world >= 0);
    zc_line_str(line, "job", j->id[0] ? j->id : NULL);
}

/* As nvidia-smi prints it. */
static void append_uuid(struct zc_text *t, const unsigned char uuid[16])
{
    zc_text_str(t, "GPU-");
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            zc_text_str(t, "-");
        zc_text_hex(t, uuid[i], 2);
    }
}

static void gpus_field(struct zc_line *line, const struct zc_log_meta *meta)
{
    ZC_LINE_OPEN(line, "gpus", '[');
    for (int i = 0; i < meta->devices && i < ZC_LOG_GPUS; i++) {
        char uuid[48];
        struct zc_text t = zc_text_on(uuid, sizeof(uuid));
        append_uuid(&t, meta->gpus[i].uuid);
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_str(line, "pci", meta->gpus[i].pci[0] ? meta->gpus[i].pci : NULL);
        zc_line_str(line, "uuid", meta->gpus[i].known ? zc_text_cstr(&t) : NULL);
    }
}

static void program_path(struct zc_line *line)
{
    char path[PATH_MAX];
    zc_line_str(line, "exe_path", zc_log_program_path(path) ? path : NULL);
}

/* The interpreter that Python functions of sites come from; only with ZC_PYTHON. */
static void python_field(struct zc_line *line)
{
    uint64_t hex = zc_python_version();
    char buf[16];
    struct zc_text t = zc_text_on(buf, sizeof(buf));
    zc_text_fmt(&t, "%U.%U.%U", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff);
    if (zc_python() != ZC_PYTHON_OFF)
        zc_line_str(line, "python", zc_python() >= ZC_PYTHON_FOUND ? zc_text_cstr(&t) : NULL);
}

static void policy_field(struct zc_line *line, const struct zc_log_meta *meta)
{
    if (meta->policy_file == NULL) {
        zc_line_null(line, "policy");
        return;
    }
    ZC_LINE_OPEN(line, "policy", '{');
    zc_line_str(line, "file", meta->policy_file);
    zc_line_hex(line, "hash", meta->policy_hash, 16);
}

static void meta_write(const struct zc_log_meta *meta)
{
    struct zc_line line;
    if (!zc_log_begin(&line, ZC_LOG_SUMMARY, "meta"))
        return;
    zc_line_u64(&line, "schema", SCHEMA);
    zc_line_str(&line, "libzc", ZC_VERSION);
    zc_line_i64(&line, "pid", getpid());
    zc_line_i64(&line, "ppid", getppid());
    zc_line_str(&line, "run", *zc_options()->run ? zc_options()->run : NULL);
    zc_line_str(&line, "host", zc_log_host());
    zc_line_str(&line, "exe", zc_log_program());
    job_fields(&line);
    number_or_null(&line, "driver", meta->driver, meta->driver != 0);
    zc_line_str(&line, "gpu", meta->gpu);
    number_or_null(&line, "devices", meta->devices, meta->devices >= 0);
    gpus_field(&line, meta);
    policy_field(&line, meta);
    if (zc_profile_taught())
        zc_line_str(&line, "profile", zc_profile_taught());
    python_field(&line);
    program_path(&line);
    argv_field(&line); /* Last, because it may be cut. */
    zc_log_write(&line);
}

void zc_log_meta(const struct zc_log_meta *meta)
{
    ZC_KEEPS_ERRNO;
    meta_write(meta);
    zc_message_set_sink(zc_log_warn);
}
