/* SPDX-License-Identifier: MIT */
/*
 * A thread that blocks SIGSEGV is killed by a fault in a protected page before any handler runs.
 * Worker threads often block all signals, even those of the driver.  So existing threads are sent a
 * signal whose handler changes the mask that they return to.  The signal is SIGSETXID, by which
 * glibc itself asks all threads for something, and which no libc function blocks (glibc,
 * nptl/nptl_setxid.c).
 */
#include "fault/sigmask_repair.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/text.h"
#include "fault/sigsegv.h"
#include "fault/signal.h"

#define ASKING 33  /* SIGSETXID. */
#define TRIES 1000 /* Each takes a millisecond. */
#define MOST 256   /* Most threads to look at and ask at once. */

uint64_t zc_repair_masks;

static bool same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
           zc_sigword(&a->sa_mask) == zc_sigword(&b->sa_mask);
}

/* Another thread may set a later action meanwhile; that one wins. */
static void open_action(int sig, struct sigaction act)
{
    struct sigaction expected, open = act, was;
    do {
        expected = open;
        open = act;
        if (zc_sigword(&act.sa_mask) & ZC_SIGSEGV)
            __atomic_fetch_or(&zc_repair_masks, ZC_SIGBIT(sig), __ATOMIC_RELAXED);
        zc_sigword_put(&open.sa_mask, zc_sigword(&act.sa_mask) & ~ZC_SIGSEGV);
        if (zc_libc_signal.sigaction(sig, &open, &was) != 0)
            return;
        act = was;
    } while (!same(&was, &expected));
}

/* SIGKILL and SIGSTOP have no action that could have a mask. */
void zc_repair_actions(void)
{
    for (int sig = 1; sig <= 64; sig++) {
        struct sigaction act;
        if (sig != SIGSEGV && zc_libc_signal.sigaction(sig, NULL, &act) == 0 &&
            (zc_sigword(&act.sa_mask) & ZC_SIGSEGV))
            open_action(sig, act);
    }
}

/* The kernel's struct sigaction; libc translates it, and refuses this signal. */
struct kernel_action {
    void *handler;
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
static struct kernel_action before; /* glibc's own action, for signals that glibc sends. */

/* Threads that were asked while they served a fault, at the index of their request.  Atomics. */
static uint32_t serving[MOST];

static bool sent_by_us(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE &&
           (uintptr_t)info->si_value.sival_ptr - (uintptr_t)serving < sizeof(serving);
}

/* Code that faults does not block SIGSEGV, so its thread is open once the fault is served.  Until
 * then no signal may interrupt libzc's handler. */
static void asked(int sig, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    int error = errno;
    if (!sent_by_us(info)) {
        if (before.handler != (void *)SIG_DFL && before.handler != (void *)SIG_IGN)
            ((void (*)(int, siginfo_t *, void *))before.handler)(sig, info, context);
        return;
    }
    uint64_t mask = zc_sigword(&interrupted->uc_sigmask);
    if (zc_sigsegv_serving(mask)) {
        __atomic_store_n((uint32_t *)info->si_value.sival_ptr, zc_thread_id(), __ATOMIC_RELEASE);
    } else if (mask & ZC_SIGSEGV) {
        zc_sigword_put(&interrupted->uc_sigmask, mask & ~ZC_SIGSEGV);
        bool timers = mask & ZC_SIGBIT(ZC_SIGSEGV_SERVING_BIT);
        if (!timers && !zc_sigsegv_blocked(mask))
            zc_sigsegv_block(mask & ~ZC_SIGSEGV);
    }
    errno = error;
}

/* Handlers return by the address that libc uses for another signal. */
static bool listen_in(void)
{
    struct kernel_action now, act;
    if (syscall(SYS_rt_sigaction, ASKING, NULL, &now, 8) != 0 ||
        syscall(SYS_rt_sigaction, SIGSEGV, NULL, &act, 8) != 0)
        return false;
    if (now.handler == (void *)asked)
        return true;
    before = now;
    act.handler = (void *)asked;
    act.flags = (act.flags & ~(unsigned long)SA_ONSTACK) | SA_RESTART | SA_SIGINFO;
    act.mask = ~(uint64_t)0;
    return syscall(SYS_rt_sigaction, ASKING, &act, NULL, 8) == 0;
}

static void ask(pid_t thread, uint32_t *entry)
{
    siginfo_t info;
    memset(&info, 0, sizeof(info));
    info.si_signo = ASKING;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_ptr = entry;
    __atomic_store_n(entry, 0, __ATOMIC_RELAXED);
    syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, ASKING, &info);
}

/* The thread id in a directory name of /proc, or 0. */
static pid_t number(const char *digits)
{
    pid_t n = 0;
    while (*digits >= '0' && *digits <= '9')
        n = n * 10 + (*digits++ - '0');
    return *digits ? 0 : n;
}

/* Field 3 of its stat file is the state, field 32 the blocked signals up to 31.  A thread that has
 * ended, or is a zombie, blocks nothing. */
static bool blocks(pid_t thread)
{
    char path[64], text[1024];
    struct zc_text name = zc_text_on(path, sizeof(path));
    uint64_t mask = 0;
    zc_text_fmt(&name, "/proc/self/task/%d/stat", (int)thread);
    if (!zc_file_text(zc_text_cstr(&name), text, sizeof(text)))
        return false;
    const char *state = zc_stat_field(text, 3), *blocked = zc_stat_field(text, 32);
    return state && *state != 'Z' && *state != 'X' && blocked &&
           zc_number_behind(blocked, "", &mask) && (mask & ZC_SIGSEGV);
}

static bool among(const pid_t *threads, int count, pid_t thread)
{
    for (int i = 0; i < count; i++)
        if (threads[i] == thread)
            return true;
    return false;
}

/* Adds other threads that block SIGSEGV behind the first `known`, up to MOST. */
static int list_blocking(int fd, pid_t *threads, int known)
{
    /* getdents64(2), because readdir(3) allocates. */
    struct entry {
        uint64_t inode, offset;
        unsigned short length;
        unsigned char type;
        char name[];
    };
    char buffer[2048] __attribute__((aligned(8)));
    pid_t self = (pid_t)syscall(SYS_gettid);
    int count = known;
    long n;
    lseek(fd, 0, SEEK_SET);
    while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
        for (long at = 0; at < n;) {
            const struct entry *entry = (const void *)(buffer + at);
            pid_t thread = number(entry->name);
            at += entry->length;
            if (thread && thread != self && count < MOST && !among(threads, known, thread) &&
                blocks(thread))
                threads[count++] = thread;
        }
    return count;
}

/* Removes threads that are open or have answered; returns how many are left. */
static int still_closed(pid_t *threads, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (__atomic_load_n(&serving[i], __ATOMIC_ACQUIRE) == (uint32_t)threads[i] ||
            !blocks(threads[i]))
            threads[i] = 0;
        left += threads[i] != 0;
    }
    return left;
}

/* Asks threads until each has been seen open once, or in a fault.  A thread may block all signals
 * for a moment for other reasons, too, so all tries may be needed.  False if they were not
 * enough. */
static bool open_threads(const pid_t *threads, int count, int *tries)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pid_t closed[MOST];
    int left = count;
    memcpy(closed, threads, (size_t)count * sizeof(*threads));
    for (int i = 0; left && *tries > 0; i++, --*tries) {
        for (int t = 0; t < count && i % 128 == 0; t++)
            if (closed[t])
                ask(closed[t], &serving[t]);
        syscall(SYS_nanosleep, &pause, NULL); /* No cancellation point: a lock may be held. */
        left = still_closed(closed, count);
    }
    return !left;
}

void zc_repair_self(void)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    zc_libc_signal.pthread_sigmask(SIG_UNBLOCK, &set, &old);
    if (zc_sigword(&old) & ZC_SIGSEGV)
        zc_sigsegv_block(zc_sigword(&old) & ~ZC_SIGSEGV);
}

const char *zc_repair_threads(void)
{
    zc_repair_self();
    int fd = zc_file_open("/proc/self/task", O_DIRECTORY);
    if (fd < 0)
        return "the threads of the process cannot be listed (/proc/self/task)";
    pid_t threads[MOST];
    int known = 0, count, tries = TRIES;
    bool open_all = true;
    /* Again, until there is no new thread: one that was not asked yet may have started another,
     * which inherits its mask. */
    while (open_all && (count = list_blocking(fd, threads, known)) > known) {
        open_all = listen_in() && open_threads(threads + known, count - known, &tries);
        known = count < MOST ? count : 0;
    }
    zc_file_close(fd);
    return open_all ? NULL : "a thread of the program blocks SIGSEGV and every other signal";
}
