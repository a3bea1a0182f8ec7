/* SPDX-License-Identifier: MIT */
/* The log's first line: program, machine and policy. */
#include "log/jsonl.h"

#include "base/options.h"
#include "base/path.h"
#include "base/version.h"
#include "log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA 1

/* Reads /proc/self/cmdline (proc(5)), a list of terminated arguments.  Returns the bytes read, and
 * whether there are more. */
static size_t read_arguments(char *buf, size_t cap, bool *more)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    ssize_t n = 1;

    *more = false;
    if (fd < 0)
        return 0;
    while (have < cap && (n > 0 || (n < 0 && errno == EINTR))) {
        n = read(fd, buf + have, cap - have);
        if (n > 0)
            have += (size_t)n;
    }
    *more = have == cap;
    close(fd);
    return have;
}

static void arguments(struct zc_line *line)
{
    char buf[ZC_LINE_MAX];
    bool more;
    size_t n = read_arguments(buf, sizeof(buf) - 1, &more);

    buf[n] = 0;
    zc_line_open(line, "argv", '[');
    for (size_t at = 0; at < n; at += strlen(buf + at) + 1)
        zc_line_str(line, NULL, buf + at);
    zc_line_close(line, ']');
    line->cut |= more;
}

static void number_or_null(struct zc_line *line, const char *name, int v, bool known)
{
    if (known)
        zc_line_i64(line, name, v);
    else
        zc_line_null(line, name);
}

static void rank(struct zc_line *line)
{
    uint64_t v = 0;

    for (const char *p = zc_option_rank(); *p != 0; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    zc_line_u64(line, "rank", v);
}

static void program_path(struct zc_line *line)
{
    char path[PATH_MAX];

    zc_line_str(line, "exe_path", zc_log_program_path(path) ? path : NULL);
}

static void policy(struct zc_line *line, const struct zc_log_meta *meta)
{
    if (meta->policy_file == NULL) {
        zc_line_null(line, "policy");
        return;
    }
    zc_line_open(line, "policy", '{');
    zc_line_str(line, "file", meta->policy_file);
    zc_line_hex(line, "hash", meta->policy_hash, 16);
    zc_line_close(line, '}');
}

void zc_log_meta(const struct zc_log_meta *meta)
{
    int saved = errno;
    char buf[ZC_LINE_MAX];
    struct zc_line line;

    if (zc_log_level() == ZC_LOG_OFF)
        return;
    zc_line_begin(&line, buf, sizeof(buf), "meta");
    zc_line_u64(&line, "schema", SCHEMA);
    zc_line_str(&line, "libzc", ZC_VERSION);
    zc_line_i64(&line, "pid", getpid());
    zc_line_i64(&line, "ppid", getppid());
    zc_line_str(&line, "host", zc_log_host());
    zc_line_str(&line, "exe", zc_log_program());
    rank(&line);
    number_or_null(&line, "driver", meta->driver, meta->driver != 0);
    zc_line_str(&line, "gpu", meta->gpu);
    number_or_null(&line, "devices", meta->devices, meta->devices >= 0);
    policy(&line, meta);
    program_path(&line);
    arguments(&line); /* Last, because it may be cut. */
    zc_log_write(&line);
    zc_message_set_sink(zc_log_warn);
    errno = saved;
}
