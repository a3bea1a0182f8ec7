/* SPDX-License-Identifier: MIT */
/* Finds the memory that a system call writes, and opens the protected pages in it. */
#include "fault/prefault.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "fault/fault.h"

/* The kernel transfers at most this much in one call (read(2), NOTES). */
#define MOST ((size_t)0x7ffff000)
#define MESSAGES_MOST 1024 /* UIO_MAXIOV: the most that sendmmsg(2) and recvmmsg(2) read. */

static bool open_range(const void *buf, size_t n, bool refused)
{
    const struct zc_fault_ops *ops = __atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE);
    uintptr_t low = (uintptr_t)buf;
    uintptr_t high = low + n < low ? UINTPTR_MAX : low + n;
    return n && (ops->owns(low) || ops->owns(high - 1)) && ops->open(low, high, refused);
}

bool zc_prefault(const void *buf, size_t n, bool refused)
{
    int error = errno;
    bool changed = open_range(buf, n, refused);
    errno = error;
    return changed;
}

bool zc_prefault_vector(const struct iovec *vec, size_t count, bool refused)
{
    bool changed = false;
    struct iovec one;
    if (count > IOV_MAX)
        return false;
    for (size_t i = 0; i < count && zc_fault_peek(&one, &vec[i], sizeof(one)); i++)
        changed |= zc_prefault(one.iov_base, one.iov_len < MOST ? one.iov_len : MOST, refused);
    return changed;
}

bool zc_prefault_message(const struct msghdr *message, bool refused)
{
    struct msghdr copy;
    bool changed = zc_prefault(message, sizeof(*message), refused);
    if (!zc_fault_peek(&copy, message, sizeof(copy)))
        return changed;
    changed |= zc_prefault(copy.msg_name, copy.msg_namelen, refused);
    changed |= zc_prefault(copy.msg_control, copy.msg_controllen, refused);
    changed |= zc_prefault_vector(copy.msg_iov, copy.msg_iovlen, refused);
    return changed;
}

bool zc_prefault_messages(const struct mmsghdr *messages, size_t count, bool refused)
{
    if (count > MESSAGES_MOST)
        count = MESSAGES_MOST;
    bool changed = zc_prefault(messages, count * sizeof(*messages), refused);
    for (size_t i = 0; i < count; i++)
        changed |= zc_prefault_message(&messages[i].msg_hdr, refused);
    return changed;
}

bool zc_prefault_name(const void *name, const socklen_t *length, bool refused)
{
    socklen_t room;
    if (!name || !zc_fault_peek(&room, length, sizeof(room)))
        return false;
    bool changed = zc_prefault(length, sizeof(*length), refused);
    return zc_prefault(name, room, refused) || changed;
}

bool zc_prefault_sets(int count, void *in, void *out, void *other, bool refused)
{
    void *sets[] = {in, out, other};
    bool changed = false;
    /* Whole words, as the kernel counts them. */
    size_t bytes = count > 0 ? ((size_t)count + 63) / 64 * 8 : 0;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        changed |= sets[i] && zc_prefault(sets[i], bytes, refused);
    return changed;
}

/* Reads the target of a link in /proc, and terminates it. */
static bool leads_to(const char *link, char *to, size_t room)
{
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, to, room - 1);
    to[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* True for /proc/PID/mem and /proc/PID/task/TID/mem of this process. */
static bool is_own_memory(int fd)
{
    char link[32], path[64], self[16];
    struct zc_text text = zc_text_on(link, sizeof(link));
    zc_text_fmt(&text, "/proc/self/fd/%d", fd);
    if (!leads_to(zc_text_cstr(&text), path, sizeof(path)) ||
        !leads_to("/proc/self", self, sizeof(self)) || strncmp(path, "/proc/", 6) != 0)
        return false;
    size_t digits = strlen(self), length = strlen(path);
    const char *rest = path + 6 + digits;
    return strncmp(path + 6, self, digits) == 0 && strcmp(path + length - 4, "/mem") == 0 &&
           (rest == path + length - 4 || strncmp(rest, "/task/", 6) == 0);
}

bool zc_prefault_at(int fd, off64_t at, size_t n, bool refused)
{
    const struct zc_fault_ops *ops = __atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE);
    uintptr_t low = (uintptr_t)at;
    int error = errno;
    if (n > MOST)
        n = MOST;
    bool changed = (ops->owns(low) || ops->owns(low + n - 1)) && is_own_memory(fd) &&
                   open_range((const void *)low, n, refused);
    errno = error;
    return changed;
}

bool zc_prefault_each_at(int fd, off64_t at, const struct iovec *vec, size_t count, bool refused)
{
    struct iovec one;
    size_t n = 0;
    if (count > IOV_MAX)
        return false;
    for (size_t i = 0; i < count && n < MOST && zc_fault_peek(&one, &vec[i], sizeof(one)); i++)
        n += one.iov_len < MOST ? one.iov_len : MOST;
    return zc_prefault_at(fd, at, n, refused);
}
