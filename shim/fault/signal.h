/* SPDX-License-Identifier: MIT */
/* libc's own functions behind the hooks on signals. */
#pragma once

#include <pthread.h>
#include <signal.h>

typedef void (*zc_sighandler)(int sig);

/* One pointer for each row of signal.def.  Until the first call each leads to a function that looks
 * up all of them; threads that do so at once write the same values. */
#define ZC_SIGNAL(name, result, params, args) result(*name) params;
struct zc_libc_signal {
#include "fault/signal.def"
};
extern struct zc_libc_signal zc_libc_signal;
