#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Registrations of the program's own: every address in, before and behind one has the driver's
# answers, whether libzc had registered the memory before or not.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/registered
PINNED=$'[rule host]\napi = malloc, posix_memalign\nplace = pinned'
SHARED=$'[rule host]\napi = malloc, posix_memalign\nplace = shared
[rule device]\napi = cudaMalloc\nplace = shared\naccess = read'
MAPPED=$'[rule device]\napi = cudaMalloc\nplace = mapped'

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
}

# Runs a scenario bare, under the preset everyday, and under policies; what it prints must be the
# same: same SCENARIO POLICY...
same() {
    local bare=$BATS_TEST_TMPDIR/bare rules
    timeout 60 "$PROGRAM" "$1" >"$bare"
    [[ $(grep -c 'still registered: 1 1' "$bare") -eq ${asked:-192} ]]
    for rules in "$(sed -n '/^\[/,$p' policy/presets/everyday.conf)" "${@:2}"; do
        echo "$rules"
        run -0 --separate-stderr under_policy "$rules" timeout 60 "$PROGRAM" "$1"
        diff "$bare" <(cat <<<"$output")
        [[ -z $stderr ]]
    done
}

@test "addresses in and beside a registered variable have the driver's answers" {
    same variable "$PINNED" "$PINNED"$'\nasync = overlap' "$SHARED" "$MAPPED"
}

# A block of `shared` has another place in its page than libc's.
@test "addresses in and beside a registered block of malloc's have the driver's answers" {
    same malloc "$PINNED" "$PINNED"$'\nasync = overlap' "$MAPPED"
}

@test "addresses in and beside a registered block of pages have the driver's answers" {
    same aligned "$PINNED" "$PINNED"$'\nasync = overlap' "$SHARED" "$MAPPED"
}

@test "calls that a registration refuses end a capture as bare" {
    asked=2 same captured "$PINNED"$'\n[rule all]\napi = cudaHostAlloc\nplace = pinned' "$SHARED" \
        "$MAPPED"
}
