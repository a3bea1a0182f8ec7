/* SPDX-License-Identifier: MIT */
/* System calls that a security filter refuses. */
#ifndef TESTS_UNIT_FORBID_TEST_H
#define TESTS_UNIT_FORBID_TEST_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* From here on the call gives an error in this process where its second argument is so large; false
 * where there are no such filters. */
static inline bool forbid_from(unsigned call, unsigned second, int error)
{
    const unsigned low = offsetof(struct seccomp_data, args[1]), high = low + 4;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* The call gives EPERM always. */
static inline bool forbid(unsigned call)
{
    return forbid_from(call, 0, EPERM);
}

#endif
