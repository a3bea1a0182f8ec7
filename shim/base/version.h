/* SPDX-License-Identifier: MIT */
/* The library's version, as in the log and the installed files. */
#pragma once

#define ZC_VERSION "0.3.0"
