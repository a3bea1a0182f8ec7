/* SPDX-License-Identifier: MIT */
/* Included behind a fake of zc_driver_unlock(), which the end of a block then calls. */
#ifndef TESTS_UNIT_HELD_TEST_H
#define TESTS_UNIT_HELD_TEST_H

static void leave_driver(const bool *held)
{
    if (*held)
        zc_driver_unlock();
}
#define zc_driver_leave leave_driver

#endif
