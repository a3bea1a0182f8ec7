#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Threads of the library's own code, and of programs that it is preloaded into, under valgrind's
# helgrind.

bats_require_minimum_version 1.5.0

setup() {
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
    export ZC_STRESS_SECONDS=1
}

# Builds for helgrind, which knows nothing of atomics but what tests/stress/helgrind.h tells it.
make_for_helgrind() {
    command -v valgrind >/dev/null || skip "no valgrind"
    make -s -j"$(nproc)" B=build/helgrind CFLAGS="-O1 -g -include $PWD/tests/stress/helgrind.h" \
        "${@/#/build/helgrind/}"
}

# Runs a program under helgrind.  No thread may end before the last one began, because helgrind does
# not see how glibc uses a stack again (Valgrind manual, "no-nptl-pthread-stackcache").
# $1 library to preload or nothing, $2... options and program
helgrind() {
    run -0 env LD_PRELOAD="$1" timeout 100 valgrind --tool=helgrind --fair-sched=yes \
        --child-silent-after-fork=yes --default-suppressions=no \
        --suppressions=tests/stress/helgrind.supp "${@:2}"
    grep -q "ERROR SUMMARY: 0 errors from 0 contexts" <<<"$output" || {
        grep -m 3 -A 30 "Possible data race" <<<"$output"
        return 1
    }
}

# The ledger's stress test is not for valgrind: its signals come faster than handlers run there.
@test "the host heap's stress test shows helgrind no data race" {
    make_for_helgrind tests/stress/host_threads
    helgrind "" build/helgrind/tests/stress/host_threads
}

# With its own malloc out of the way, valgrind sees the preloaded library's.
@test "sixteen threads, all of the malloc family and forks show helgrind no data race" {
    program=tests/preload/programs/host_stress
    make_for_helgrind libzc.so "$program"
    printf '[rule all]\napi = malloc, calloc, realloc, reallocarray, aligned_alloc, %s\n%s\n' \
        'posix_memalign, memalign, valloc, pvalloc' 'place = pinned' >"$BATS_TEST_TMPDIR/all.conf"
    export ZC_POLICY=$BATS_TEST_TMPDIR/all.conf ZC_LOG=off
    helgrind "$PWD/build/helgrind/libzc.so" --soname-synonyms=somalloc=nouserintercepts \
        "build/helgrind/$program" 150
}
