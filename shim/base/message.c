/* SPDX-License-Identifier: MIT */
/* Messages: one line on stderr and one in the log, limited in number. */
#include "base/message.h"

#include "base/errno.h"
#include "base/text.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CODES 64 /* Different codes; all further ones share the last entry. */
#define PRINTED_MAX 16
#define LINE_MAX_BYTES 1024
#define HELD 128 /* As many as a policy has faults, and some. */

struct code {
    const char *name;  /* NULL in a free entry; set once by compare and swap. */
    uint32_t messages; /* Messages of the code so far. */
    bool said;         /* zc_message_first() has returned true for it. */
};

/* A message from before there was a sink. */
struct held {
    enum zc_severity severity;
    uint32_t count;            /* Of its code, with it. */
    const char *code;          /* NULL until the entry is complete. */
    char text[LINE_MAX_BYTES]; /* Terminated. */
};

enum stderr_state { UNKNOWN, OPEN, CLOSED };

static struct {
    zc_message_sink sink; /* Atomic. */
    uint32_t held_count;
    struct held held[HELD];
    struct code codes[CODES];
} messages;

/* Descriptor 2 when libzc was loaded. */
static struct {
    enum stderr_state state;
    dev_t device;
    ino_t inode;
} standard;

static struct code *code_entry(const char *name)
{
    for (int i = 0; i < CODES - 1; i++) {
        const char *there = __atomic_load_n(&messages.codes[i].name, __ATOMIC_ACQUIRE);
        if (there == NULL && __atomic_compare_exchange_n(&messages.codes[i].name, &there, name,
                                                         false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return &messages.codes[i];
        if (strcmp(there, name) == 0)
            return &messages.codes[i];
    }
    return &messages.codes[CODES - 1];
}

void zc_message_init(void)
{
    struct stat s;
    ZC_KEEPS_ERRNO;
    if (fstat(STDERR_FILENO, &s) == 0) {
        standard.device = s.st_dev;
        standard.inode = s.st_ino;
        standard.state = OPEN;
    } else {
        standard.state = CLOSED;
    }
}

/* A program that closed descriptor 2 may have reused it for a file or a socket of its own. */
static bool stderr_is_ours(void)
{
    struct stat s;
    if (standard.state == UNKNOWN)
        zc_message_init();
    if (standard.state == CLOSED || fstat(STDERR_FILENO, &s) != 0)
        return false;
    return (s.st_dev == standard.device && s.st_ino == standard.inode) || S_ISCHR(s.st_mode) ||
           S_ISFIFO(s.st_mode);
}

/* A pipe without a reader, or a file at RLIMIT_FSIZE, would kill the program by a signal.  Both
 * signals go to the calling thread (POSIX, write()), so they can be blocked and taken back. libc's
 * write(2) is a cancellation point, which could leave them blocked. */
static void write_without_signals(const char *bytes, size_t n)
{
    sigset_t ours, old, pending;
    struct timespec now = {0, 0};
    long written;
    sigemptyset(&ours);
    sigpending(&pending);
    if (!sigismember(&pending, SIGPIPE))
        sigaddset(&ours, SIGPIPE);
    if (!sigismember(&pending, SIGXFSZ))
        sigaddset(&ours, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &ours, &old);
    do {
        written = syscall(SYS_write, STDERR_FILENO, bytes, n);
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    } while ((written > 0 && n > 0) || (written < 0 && errno == EINTR));
    if (written < 0 && (errno == EPIPE || errno == EFBIG))
        while (sigtimedwait(&ours, NULL, &now) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void zc_message_raw(const char *bytes, unsigned long n)
{
    ZC_KEEPS_ERRNO;
    if (n > 0 && stderr_is_ours())
        write_without_signals(bytes, n);
}

static void message_print(const char *text, bool last, bool logged)
{
    char buf[LINE_MAX_BYTES + 80];
    struct zc_text line = zc_text_on(buf, sizeof(buf));
    zc_text_fmt(&line, "libzc: %s", text);
    if (last)
        zc_text_str(&line, logged ? " (more of this kind follow only in the log)"
                                  : " (more of this kind are not printed)");
    zc_text_raw(&line, "\n", 1);
    zc_message_raw(buf, line.len);
}

static void message_deliver(zc_message_sink sink, enum zc_severity severity, const char *code,
                            const char *text, uint32_t count)
{
    bool logged = sink != NULL && sink(severity, code, text);
    if (count <= PRINTED_MAX)
        message_print(text, count == PRINTED_MAX, logged);
}

static void deliver_held(zc_message_sink sink)
{
    uint32_t count = __atomic_load_n(&messages.held_count, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < count && i < HELD; i++) {
        struct held *h = &messages.held[i];
        const char *code = __atomic_exchange_n(&h->code, NULL, __ATOMIC_ACQUIRE);
        if (code != NULL)
            message_deliver(sink, h->severity, code, h->text, h->count);
    }
}

/* Until there is a sink. */
static void message_hold(enum zc_severity severity, const char *code, const char *text,
                         uint32_t count)
{
    uint32_t i = __atomic_fetch_add(&messages.held_count, 1, __ATOMIC_RELAXED);
    if (i >= HELD)
        return;
    messages.held[i].severity = severity;
    messages.held[i].count = count;
    strcpy(messages.held[i].text, text);
    __atomic_store_n(&messages.held[i].code, code, __ATOMIC_SEQ_CST);
    zc_message_sink sink = __atomic_load_n(&messages.sink, __ATOMIC_SEQ_CST);
    if (sink != NULL)
        deliver_held(sink);
}

void zc_message(enum zc_severity severity, const char *code, const char *fmt, ...)
{
    zc_message_sink sink = __atomic_load_n(&messages.sink, __ATOMIC_ACQUIRE);
    char buf[LINE_MAX_BYTES];
    struct zc_text text = zc_text_on(buf, sizeof(buf));
    va_list ap;
    va_start(ap, fmt);
    zc_text_vfmt(&text, fmt, ap);
    va_end(ap);
    zc_text_disarm(&text, 0);
    zc_text_cstr(&text);
    uint32_t count = __atomic_add_fetch(&code_entry(code)->messages, 1, __ATOMIC_RELAXED);
    if (sink != NULL || severity == ZC_URGENT)
        message_deliver(sink, severity, code, buf, count);
    else
        message_hold(severity, code, buf, count);
}

bool zc_message_first(const char *code)
{
    return !__atomic_exchange_n(&code_entry(code)->said, true, __ATOMIC_RELAXED);
}

void zc_message_set_sink(zc_message_sink new_sink)
{
    __atomic_store_n(&messages.sink, new_sink, __ATOMIC_SEQ_CST);
    if (new_sink != NULL)
        deliver_held(new_sink);
}

void zc_message_reset(void)
{
    if (messages.sink == NULL)
        return;
    memset(messages.codes, 0, sizeof(messages.codes));
    messages.held_count = 0;
    messages.sink = NULL;
}
