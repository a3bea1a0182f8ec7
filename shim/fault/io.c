/* SPDX-License-Identifier: MIT */
/*
 * System calls that write protected pages do not fault: they fail with EFAULT or stop short.  So
 * libc's functions open the program's buffers first.  While nothing is protected they pass straight
 * through.
 *
 * System calls by other ways are not seen: syscall(2), statically linked code, io_uring, and libc's
 * internal calls, such as those of stdio into a buffer of setvbuf(3).  Other calls that fill memory
 * (ioctl, stat, process_vm_readv, aio_read) are not hooked, and fail with EFAULT on a protected
 * page.
 */
#undef _FORTIFY_SOURCE /* It would define some of these functions in the headers. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "fault/io.h"
#include "driver/real.h"
#include "fault/fault.h"
#include "fault/prefault.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW __attribute__((noinline)) static

struct _IO_FILE; /* FILE, without stdio.h. */
int ferror_unlocked(struct _IO_FILE *stream);
void clearerr_unlocked(struct _IO_FILE *stream);

/* Declared here, too, because no header has the fortified forms.  Functions of stdio have other
 * names in C, because compilers know their types from the header. */
#define ZC_IO_CALL(name, result, params, args, touched) EXPORT result name params;
#define ZC_IO_STDIO(name, params, args, touched) EXPORT size_t zc_io_##name params __asm__(#name);
#include "fault/io.def"

#define FAILURE(type) _Generic((type){0}, char * : NULL, default : -1)
#define FAILED(got) _Generic(got, char * : !(got), default : (intptr_t)(got) == -1)

/* For functions that an older libc lacks: fail as for a system call that the kernel lacks. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ZC_IO_CALL(name, result, params, args, touched)                                            \
    static result absent_##name params                                                             \
    {                                                                                              \
        errno = ENOSYS;                                                                            \
        return FAILURE(result);                                                                    \
    }
#define ZC_IO_STDIO(name, params, args, touched)
#include "fault/io.def"
#pragma GCC diagnostic pop

/* The functions behind libzc's.  Until the first call each pointer leads to a stub that looks up
 * all of them. */
#define ZC_IO_CALL(name, result, params, args, touched) static result first_##name params;
#define ZC_IO_STDIO(name, params, args, touched) static size_t first_##name params;
#include "fault/io.def"

static struct __attribute__((aligned(64))) {
#define ZC_IO_CALL(name, result, params, args, touched) result(*name) params;
#define ZC_IO_STDIO(name, params, args, touched) size_t(*name) params;
#include "fault/io.def"
} next = {
#define ZC_IO_CALL(name, result, params, args, touched) .name = first_##name,
#define ZC_IO_STDIO(name, params, args, touched) .name = first_##name,
#include "fault/io.def"
};

/* Several threads may run this at once; all store the same values. */
void zc_io_find(void)
{
    zc_libc_find();
#define ZC_IO_CALL(name, result, params, args, touched)                                            \
    result(*found_##name) params = (result(*) params)zc_real_dlsym(RTLD_NEXT, #name);              \
    __atomic_store_n(&next.name, found_##name ? found_##name : absent_##name, __ATOMIC_RELEASE);
#define ZC_IO_STDIO(name, params, args, touched)                                                   \
    __atomic_store_n(&next.name, (size_t(*) params)zc_real_dlsym(RTLD_NEXT, #name),                \
                     __ATOMIC_RELEASE);
#include "fault/io.def"
}

#define FIRST(name, result, params, args)                                                          \
    static result first_##name params                                                              \
    {                                                                                              \
        zc_io_find();                                                                              \
        return next.name args;                                                                     \
    }
#define ZC_IO_CALL(name, result, params, args, touched) FIRST(name, result, params, args)
#define ZC_IO_STDIO(name, params, args, touched) FIRST(name, size_t, params, args)
#include "fault/io.def"

static bool nothing_protected(void)
{
    return __builtin_expect(!__atomic_load_n(&zc_fault_ops, __ATOMIC_RELAXED), 1);
}

/* Bytes as stdio counts them.  If the product overflows, the call fails anyway. */
static size_t product(size_t size, size_t count)
{
    size_t bytes;
    return __builtin_mul_overflow(size, count, &bytes) ? 0 : bytes;
}

static bool either(bool one, bool other)
{
    return one || other;
}

#define BOTH(one, other) either(one, other)
#define INTO(buf, n) zc_prefault(buf, n, tries > 0)
#define INTO_ONE(one) zc_prefault(one, sizeof(*(one)), tries > 0)
#define INTO_ARRAY(array, count) zc_prefault(array, product(sizeof(*(array)), count), tries > 0)
#define INTO_EVENTS(events, count) ((count) > 0 && INTO_ARRAY(events, (size_t)(count)))
#define INTO_SETS(count, in, out, other) zc_prefault_sets(count, in, out, other, tries > 0)
#define INTO_EACH(vec, count) zc_prefault_vector(vec, (size_t)count, tries > 0)
#define INTO_NAME(name, length) zc_prefault_name(name.__sockaddr__, length, tries > 0)
#define INTO_MESSAGE(message) zc_prefault_message(message, tries > 0)
#define INTO_MESSAGES(messages, count) zc_prefault_messages(messages, count, tries > 0)
#define WRITE_AT(fd, at, n) zc_prefault_at(fd, at, n, tries > 0)
#define WRITE_EACH_AT(fd, at, vec, count) zc_prefault_each_at(fd, at, vec, (size_t)count, tries > 0)

/*
 * EFAULT is possible even after opening: another thread may have copied the buffer to the device
 * and so protected it again; from the second time on such a thread is waited for, which may sleep
 * with a page closed.  A call that failed has transferred nothing, except that a datagram
 * may be lost (recv(2) into memory that another thread copies from is the program's own race).  One
 * that stopped short goes on where that can't block: files, streams.  After TRIES without any
 * progress the fault is the program's own.
 */
#define TRIES 1000
#define AGAIN(touched) (errno == EFAULT && tries < TRIES && (touched))
#define ZC_IO_CALL(name, result, params, args, touched)                                            \
    SLOW result opening_##name params                                                              \
    {                                                                                              \
        unsigned tries = 0;                                                                        \
        int error = errno;                                                                         \
        (void)(touched);                                                                           \
        for (;; tries++, errno = error) {                                                          \
            result got = next.name args;                                                           \
            if (!FAILED(got) || !AGAIN(touched))                                                   \
                return got;                                                                        \
        }                                                                                          \
    }                                                                                              \
    EXPORT result name params                                                                      \
    {                                                                                              \
        return nothing_protected() ? next.name args : opening_##name args;                         \
    }
#define ZC_IO_READ(name, params, args, touched, moved)                                             \
    SLOW ssize_t opening_##name params                                                             \
    {                                                                                              \
        ssize_t done = 0;                                                                          \
        bool again = true;                                                                         \
        unsigned tries = 0;                                                                        \
        int error = errno;                                                                         \
        (void)(touched);                                                                           \
        for (; again; tries++, errno = error) {                                                    \
            ssize_t got = next.name args;                                                          \
            if (got < 0 && !AGAIN(touched))                                                        \
                return done ? done : got;                                                          \
            if (got < 0)                                                                           \
                continue;                                                                          \
            tries = 0;                                                                             \
            done += got;                                                                           \
            buf = (char *)buf + got;                                                               \
            n -= (size_t)got;                                                                      \
            moved;                                                                                 \
            again = got && n && (touched) && lseek(fd, 0, SEEK_CUR) >= 0;                          \
        }                                                                                          \
        return done;                                                                               \
    }                                                                                              \
    EXPORT ssize_t name params                                                                     \
    {                                                                                              \
        return nothing_protected() ? next.name args : opening_##name args;                         \
    }
#define ZC_IO_STDIO(name, params, args, touched)                                                   \
    SLOW size_t opening_##name params                                                              \
    {                                                                                              \
        size_t all = product(size, count), item = size, done = 0;                                  \
        unsigned tries = 0;                                                                        \
        (void)(touched);                                                                           \
        if (!all || ferror_unlocked(stream))                                                       \
            return next.name args;                                                                 \
        size = 1, count = all;                                                                     \
        int error = errno;                                                                         \
        for (;; tries++, errno = error) {                                                          \
            size_t got = next.name args;                                                           \
            tries = got ? 0 : tries;                                                               \
            done += got;                                                                           \
            buf = (char *)buf + got;                                                               \
            count -= got;                                                                          \
            if (!count || !ferror_unlocked(stream) || !AGAIN(touched))                             \
                return done / item;                                                                \
            clearerr_unlocked(stream);                                                             \
        }                                                                                          \
    }                                                                                              \
    EXPORT size_t zc_io_##name params                                                              \
    {                                                                                              \
        return nothing_protected() ? next.name args : opening_##name args;                         \
    }
#include "fault/io.def"
