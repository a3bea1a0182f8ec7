#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Signals and system calls of programs that share nothing pass through.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/signals

setup() {
    need_built "$LIBZC" "$PROGRAM"
}

@test "signals and system calls do under libzc what they do without it" {
    run -0 "$PROGRAM"
    bare=$output
    run -0 env LD_PRELOAD="$LIBZC" "$PROGRAM"
    diff <(echo "$bare") <(echo "$output")
}

@test "a crash ends the program by SIGSEGV under libzc" {
    run -139 "$PROGRAM" crash
    bare=$output
    run -139 env LD_PRELOAD="$LIBZC" "$PROGRAM" crash
    diff <(echo "$bare") <(echo "$output")
}

@test "SIGSEGV keeps the action that the program gave it while nothing is shared" {
    command -v strace >/dev/null || skip "no strace"
    strace -o /dev/null /bin/true 2>/dev/null || skip "strace may not trace here"
    for with in '' "$LIBZC"; do
        strace -e trace=rt_sigaction,rt_sigprocmask -o "$BATS_TEST_TMPDIR/calls${with:+.with}" \
            env ${with:+LD_PRELOAD="$with"} "$PROGRAM" >/dev/null
    done
    # Addresses and process numbers differ from run to run.
    local -r varying='s/0x[0-9a-f]+|si_pid=[0-9]+//g'
    diff <(sed -E "$varying" "$BATS_TEST_TMPDIR/calls") \
        <(sed -E "$varying" "$BATS_TEST_TMPDIR/calls.with")
}
