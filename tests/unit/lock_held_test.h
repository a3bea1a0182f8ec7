/* SPDX-License-Identifier: MIT */
/* Included behind a fake of zc_lock_drop(), which the end of a block then calls. */
#ifndef TESTS_UNIT_LOCK_HELD_TEST_H
#define TESTS_UNIT_LOCK_HELD_TEST_H

#include "base/lock.h"

static void leave_lock(struct zc_lock *const *held)
{
    if (*held)
        zc_lock_drop(*held);
}
#define zc_lock_leave leave_lock

#endif
