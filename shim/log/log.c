/* SPDX-License-Identifier: MIT */
/* Opens the log and writes whole lines to it. */
#include "log/log.h"

#include "base/clock.h"
#include "base/errno.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/path.h"
#include "ledger/counters.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define ENDING ".jsonl"
#define FIRST_DESCRIPTOR 200 /* Above the numbers that programs expect in order. */

static ZC_LOCK(log_lock, ZC_RANK_LOG);
int zc_log_level_now = ZC_LOG_OFF; /* Not OFF only while the descriptor is the log. */
static int fd = -1;                /* Under the lock. */
static struct {
    dev_t device; /* The file, under the lock: the program may reuse the descriptor. */
    ino_t inode;
    int ended_by;        /* The errno value that ended the log. */
    uint64_t lost;       /* Atomic. */
    char path[PATH_MAX]; /* Empty if there was no file. */
} file;

const char *zc_log_path(void)
{
    return file.path[0] != 0 ? file.path : NULL;
}

uint64_t zc_log_lost(void)
{
    return __atomic_load_n(&file.lost, __ATOMIC_RELAXED);
}

int zc_log_error(void)
{
    return file.ended_by;
}

/* Bytes of the log; -1 if the descriptor is not the log.  Does not ask for the file's times, as
 * fstat(2) does: since Linux 6.13 (multigrain timestamps) that makes the next write update the
 * inode as well, which takes a microsecond more. */
static int64_t log_size(void)
{
    struct statx x;
    struct stat s;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE, &x) == 0)
        return makedev(x.stx_dev_major, x.stx_dev_minor) == file.device && x.stx_ino == file.inode
                   ? (int64_t)x.stx_size
                   : -1;
    /* Container runtimes may forbid system calls that are newer than their list. */
    return fstat(fd, &s) == 0 && s.st_dev == file.device && s.st_ino == file.inode ? s.st_size : -1;
}

/* Writes all bytes or none.  Returns 0 or the errno value. */
static int log_append(const char *bytes, size_t n)
{
    int64_t size = log_size();
    long written;
    if (size < 0)
        return EBADF;
    if (!zc_log_size_allowed((uint64_t)size + n))
        return EFBIG;
    /* libc's write(2) is a cancellation point, and could end the thread with the lock held. */
    do
        written = syscall(SYS_write, fd, bytes, n);
    while (written < 0 && errno == EINTR);
    if (written == (long)n)
        return 0;
    if (written < 0)
        return errno;
    /* The file system took only a part, so it is full.  Half a line would break the file for
     * readers. */
    return ftruncate(fd, size) == 0 ? ENOSPC : errno;
}

static void end_log(int error)
{
    file.ended_by = error;
    __atomic_store_n(&zc_log_level_now, ZC_LOG_OFF, __ATOMIC_RELAXED);
    if (fd >= 0 && error != EBADF)
        syscall(SYS_close, fd);
    fd = -1;
    if (error != 0)
        zc_counters_keep();
}

static void write_one(struct zc_line *line, bool last)
{
    ZC_KEEPS_ERRNO;
    int error = 0;
    zc_line_end(line);
    if (!zc_lock_take(&log_lock)) {
        __atomic_fetch_add(&file.lost, 1, __ATOMIC_RELAXED);
        return;
    }
    if (fd >= 0)
        error = log_append(line->text.buf, line->text.len);
    if (error != 0 || last)
        end_log(error);
    zc_lock_drop(&log_lock);
    if (error != 0)
        zc_message(ZC_WARN, "log", "the log '%s' ends here: %e", file.path, error);
}

bool zc_log_begin(struct zc_line *line, enum zc_log_level least, const char *type)
{
    if (zc_log_level() < least)
        return false;
    zc_line_begin(line, line->own, sizeof(line->own), type);
    return true;
}

void zc_log_write(struct zc_line *line)
{
    write_one(line, false);
}

void zc_log_write_last(struct zc_line *line)
{
    write_one(line, true);
}

/* A log named after a device node would be created next to it, in /dev. */
static bool is_device(const char *name)
{
    struct stat s;
    return stat(name, &s) == 0 && (S_ISCHR(s.st_mode) || S_ISBLK(s.st_mode));
}

/* Bytes of a path before its ending ".jsonl"; all, without one. */
static size_t path_stem(const char *name)
{
    size_t n = strlen(name), m = strlen(ENDING);
    return n > m && strcmp(name + n - m, ENDING) == 0 ? n - m : n;
}

/* Creates the file, under a name with the process id where there is one of its name, and under one
 * with the time as well where another host had the same id.  The name that was free is in `path`.
 */
static int create_file(void)
{
    char asked[PATH_MAX];
    size_t n = path_stem(file.path);
    struct zc_text name = zc_text_on(file.path, sizeof(file.path));
    int created = zc_log_create(file.path);
    strcpy(asked, file.path);
    name.len = n;
    for (unsigned i = 0; created == -EEXIST && i < 2; i++) {
        zc_text_str(&name, ".");
        zc_text_u64(&name, i == 0 ? (uint64_t)getpid() : zc_wall_ns());
        size_t with_number = name.len;
        zc_text_str(&name, asked + n);
        zc_text_cstr(&name);
        created = name.truncated ? -ENAMETOOLONG : zc_log_create(file.path);
        name.len = with_number;
    }
    if (created == -EEXIST)
        strcpy(file.path, asked);
    return created;
}

/* Programs and shells expect the lowest descriptor to be free.  If the limit (RLIMIT_NOFILE) is
 * low, at least none of the first three may be libzc's, because programs print to them without
 * asking. */
static int move_up(int low)
{
    int high = fcntl(low, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high < 0)
        high = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (high < 0)
        return low;
    close(low);
    return high;
}

static bool open_file(const char *pattern)
{
    struct zc_text name = zc_text_on(file.path, sizeof(file.path));
    struct stat made;
    if (!zc_log_expand(&name, pattern)) {
        zc_message(ZC_WARN, "log", "the log's path is longer than %d bytes: no log", PATH_MAX - 1);
        return false;
    }
    if (is_device(zc_text_cstr(&name))) {
        zc_message(ZC_WARN, "log", "'%s' is a device: no log (ZC_LOG=off asks for none)",
                   file.path);
        return false;
    }
    int created = create_file();
    if (created < 0) {
        zc_message(ZC_WARN, "log",
                   "the log '%s' could not be created: %e; ZC_LOG names another path", file.path,
                   -created);
        return false;
    }
    created = move_up(created);
    fstat(created, &made);
    file.device = made.st_dev;
    file.inode = made.st_ino;
    fd = created;
    return true;
}

/* The counters' name is derived from the log's, but differs, so that readers can tell them
 * apart. */
static void open_counters_beside(void)
{
    char name[PATH_MAX];
    struct zc_text t = zc_text_on(name, sizeof(name));
    zc_text_raw(&t, file.path, path_stem(file.path));
    zc_text_str(&t, ".counters");
    zc_counters_open(t.truncated ? NULL : zc_text_cstr(&t));
}

void zc_log_open(const char *pattern, enum zc_log_level wanted)
{
    ZC_KEEPS_ERRNO;
    if (getauxval(AT_SECURE) != 0)
        return;
    if (pattern != NULL && *pattern != 0 && strcmp(pattern, "off") != 0 && wanted != ZC_LOG_OFF &&
        open_file(pattern)) {
        open_counters_beside();
        __atomic_store_n(&zc_log_level_now, (int)wanted, __ATOMIC_RELAXED);
    } else {
        file.path[0] = 0;
        zc_counters_open(NULL);
    }
}

void zc_log_reset(void)
{
    ZC_KEEPS_ERRNO;
    if (fd >= 0 && log_size() >= 0)
        close(fd);
    fd = -1;
    zc_log_level_now = ZC_LOG_OFF;
    memset(&file, 0, sizeof(file));
}

const struct zc_module zc_module_log = {.inherit = zc_log_reset};
