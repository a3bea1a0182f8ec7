/* SPDX-License-Identifier: MIT */
/* HMM, left off for a process: the driver's call of ioctl(2) comes here, because libraries take a
 * function of the program's before that of libc's. */
#include "tools/views/leave_off.h"

#include <stdarg.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UVM_INITIALIZE 0x30000001ul /* Its argument begins with the flags, 64 bits. */
#define UVM_DISABLE_HMM 1u

static bool leaves_off, told;

void view_leave_off(void)
{
    leaves_off = true;
}

bool view_left_off(void)
{
    return told;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (request == UVM_INITIALIZE && leaves_off) {
        *(uint64_t *)argument |= UVM_DISABLE_HMM;
        told = true;
    }
    return (int)syscall(SYS_ioctl, fd, request, argument);
}
