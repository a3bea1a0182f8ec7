/* SPDX-License-Identifier: MIT */
/* State that a child of fork(2) does not inherit. */
#pragma once

/* A static variable that the child finds zero again: what it says is the parent's alone. */
#define ZC_OWN __attribute__((section("zc_own")))

/* For the child of fork(2), whose other threads do not exist: zeroes all these variables. */
void zc_own_forget(void);
