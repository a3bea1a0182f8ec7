/* Walks what a system call names, and opens the protected pages in it. */
#include "place/touch.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

#include "place/fault.h"

/* The most that one call of the kernel transfers (read(2), NOTES). */
#define MOST ((size_t)0x7ffff000)
#define MESSAGES_MOST 1024 /* UIO_MAXIOV: what sendmmsg(2) and recvmmsg(2) look at. */

static bool open_range(bool write, const void *buf, size_t n)
{
    const struct zc_fault_ops *ops = __atomic_load_n(&zc_fault_ops, __ATOMIC_ACQUIRE);
    uintptr_t low = (uintptr_t)buf;
    uintptr_t high = low + n < low ? UINTPTR_MAX : low + n;
    return n && (ops->owns(low) || ops->owns(high - 1)) && ops->open(low, high, write);
}

bool zc_touch(bool write, const void *buf, size_t n)
{
    int error = errno;
    bool changed = open_range(write, buf, n);
    errno = error;
    return changed;
}

bool zc_touch_vector(bool write, const struct iovec *vec, size_t count)
{
    bool changed = false;
    struct iovec one;
    if (count > IOV_MAX)
        return false;
    changed |= zc_touch(false, vec, count * sizeof(*vec));
    for (size_t i = 0; i < count && zc_fault_peek(&one, &vec[i], sizeof(one)); i++)
        changed |= zc_touch(write, one.iov_base, one.iov_len < MOST ? one.iov_len : MOST);
    return changed;
}

bool zc_touch_message(bool write, const struct msghdr *message)
{
    struct msghdr copy;
    bool changed = zc_touch(write, message, sizeof(*message));
    if (!zc_fault_peek(&copy, message, sizeof(copy)))
        return changed;
    changed |= zc_touch(write, copy.msg_name, copy.msg_namelen);
    changed |= zc_touch(write, copy.msg_control, copy.msg_controllen);
    changed |= zc_touch_vector(write, copy.msg_iov, copy.msg_iovlen);
    return changed;
}

bool zc_touch_messages(bool write, const struct mmsghdr *messages, size_t count)
{
    if (count > MESSAGES_MOST)
        count = MESSAGES_MOST;
    bool changed = zc_touch(true, messages, count * sizeof(*messages));
    for (size_t i = 0; i < count; i++)
        changed |= zc_touch_message(write, &messages[i].msg_hdr);
    return changed;
}

bool zc_touch_name(const void *name, const socklen_t *length)
{
    socklen_t room;
    if (!name || !zc_fault_peek(&room, length, sizeof(room)))
        return false;
    bool changed = zc_touch(true, length, sizeof(*length));
    return zc_touch(true, name, room) || changed;
}
