# SPDX-License-Identifier: MIT
# Programs that use libc's memory in the place `pinned`: a file says `host_setup PROGRAM...` in its
# setup().

load common.bash

FAMILY='malloc, calloc, realloc, reallocarray, aligned_alloc, posix_memalign'
PINNED="api = $FAMILY, memalign, valloc, pvalloc
place = pinned"
PROGRAMS=$PWD/$ZC_BUILD/tests/preload/programs

# host_setup PROGRAM... of tests/preload/programs
host_setup() {
    need_built "$LIBZC" "${@/#/$PROGRAMS/}"
    sim_env vecadd
    export ZC_SUMMARY=0
}
