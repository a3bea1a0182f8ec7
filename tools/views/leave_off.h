/* SPDX-License-Identifier: MIT */
/* HMM, left off for a process. */
#pragma once

#include <stdbool.h>

/* The driver that is started from here on is told to leave HMM off (the flag
 * UVM_INIT_FLAGS_DISABLE_HMM of UVM_INITIALIZE, open-gpu-kernel-modules, uvm_types.h). */
void view_leave_off(void);

/* True if it has been told. */
bool view_left_off(void);
