/* SPDX-License-Identifier: MIT */
/* The library's version, as in the log and the installed files. */
#ifndef ZC_BASE_VERSION_H
#define ZC_BASE_VERSION_H

#define ZC_VERSION "0.2.0"

#endif
