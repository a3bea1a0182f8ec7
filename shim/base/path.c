/* SPDX-License-Identifier: MIT */
/* Path patterns, and files that nobody else can have created. */
#include "base/path.h"

#include "base/clock.h"
#include "base/errno.h"
#include "base/file.h"
#include "base/job.h"
#include "base/message.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool known; /* The program is.  Atomic. */
    char program[NAME_MAX + 1];
    struct utsname host;
} names;

bool zc_log_program_path(char path[PATH_MAX])
{
    ZC_KEEPS_ERRNO;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Not inlined: it needs the stack for a path only once, and a signal stack may be small. */
__attribute__((noinline)) static bool find_program(void)
{
    static const char deleted[] = " (deleted)";
    char exe[PATH_MAX];
    if (!zc_log_program_path(exe))
        return false;
    const char *name = basename(exe);
    size_t length = strnlen(name, NAME_MAX);
    /* The kernel's suffix for an executable that was replaced on disk. */
    if (length > sizeof(deleted) - 1 && strcmp(name + length - (sizeof(deleted) - 1), deleted) == 0)
        length -= sizeof(deleted) - 1;
    /* Several threads may do this at once; each stores the whole name before it goes on. */
    for (size_t i = 0; i < length; i++)
        __atomic_store_n(&names.program[i], name[i], __ATOMIC_RELAXED);
    __atomic_store_n(&names.known, true, __ATOMIC_RELEASE);
    return true;
}

const char *zc_log_program(void)
{
    if (__atomic_load_n(&names.known, __ATOMIC_ACQUIRE) || find_program())
        return names.program;
    return program_invocation_short_name;
}

const char *zc_log_script(char *text, size_t size)
{
    static const char *const interpreters[] = {"python", "pypy", "java", "julia", "node",
                                               "perl",   "ruby", "lua",  NULL};
    bool interprets = false;
    for (const char *const *name = interpreters; *name; name++)
        interprets |= strncmp(zc_log_program(), *name, strlen(*name)) == 0;
    size_t n = zc_file_text("/proc/self/cmdline", text, size);
    const char *word = text, *end = text + n;
    do
        word += strlen(word) + 1;
    while (word < end && *word == '-');
    return interprets && word < end ? word : NULL;
}

const char *zc_log_host(void)
{
    if (names.host.nodename[0] == 0 && uname(&names.host) != 0)
        return "?";
    for (char *p = names.host.nodename; *p != 0; p++)
        if (*p == '/')
            *p = '_';
    return names.host.nodename[0] != 0 ? names.host.nodename : "?";
}

void zc_log_utc(struct zc_text *t, uint64_t seconds)
{
    char text[24];
    struct tm utc;
    time_t time = (time_t)seconds;
    if (gmtime_r(&time, &utc) && strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc))
        zc_text_str(t, text);
}

static void known_or_0(struct zc_text *path, int64_t number)
{
    zc_text_i64(path, number < 0 ? 0 : number);
}

/* The letter is 0 after a percent sign at the end of the pattern. */
static void expand_letter(struct zc_text *path, char letter)
{
    const char code[] = {'%', letter, 0};
    switch (letter) {
    case 'e':
        zc_text_str(path, zc_log_program());
        break;
    case 'p':
        zc_text_i64(path, getpid());
        break;
    case 'h':
        zc_text_str(path, zc_log_host());
        break;
    case 'r':
        known_or_0(path, zc_job()->rank);
        break;
    case 'l':
        known_or_0(path, zc_job()->local_rank);
        break;
    case 'j':
        zc_text_str(path, zc_job()->id[0] ? zc_job()->id : "0");
        break;
    case 't':
        zc_log_utc(path, zc_wall_ns() / 1000000000u);
        break;
    case '%':
        zc_text_raw(path, "%", 1);
        break;
    default:
        zc_text_str(path, code);
        if (zc_message_first("log pattern"))
            zc_message(ZC_WARN, "log pattern",
                       "the log's path has '%s', which means nothing "
                       "(%%e program, %%p process, %%h host, %%r rank, %%l local rank, "
                       "%%j job, %%t time, %%%% itself)",
                       code);
    }
}

bool zc_log_expand(struct zc_text *path, const char *pattern)
{
    for (const char *p = pattern; *p != 0; p++) {
        if (*p != '%') {
            zc_text_raw(path, p, 1);
            continue;
        }
        expand_letter(path, p[1]);
        p += p[1] != 0;
    }
    return !path->truncated;
}

int zc_log_create(const char *path)
{
    ZC_KEEPS_ERRNO;
    int fd;
    do
        fd = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND | O_RDWR, 0600);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

bool zc_log_size_allowed(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}
