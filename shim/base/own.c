/* SPDX-License-Identifier: MIT */
/* State that a child of fork(2) does not inherit. */
#include "base/own.h"

/* From the linker: the section's bounds, NULL where nothing is in it. */
extern char __start_zc_own[] __attribute__((visibility("hidden"), weak));
extern char __stop_zc_own[] __attribute__((visibility("hidden"), weak));

void zc_own_forget(void)
{
    for (char *at = __start_zc_own; at != __stop_zc_own; at++)
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
}
