#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory that programs take under the preset for any program, and under what was learned of them: at
# most a tenth more than without libzc, or 256 MiB.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/resident

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG=$BATS_TEST_TMPDIR/log
}

# Runs a scene of $PROGRAM with and without libzc; the last word of what it prints is MiB.
little_more() {
    local bare most policy=${2:-policy/presets/everyday.conf}
    run -0 --separate-stderr timeout 120 "$PROGRAM" "$1"
    bare=${output##* }
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_POLICY="$policy" \
        timeout 120 "$PROGRAM" "$1"
    most=$((bare / 10 > 256 ? bare + bare / 10 : bare + 256))
    echo "$output MiB, without libzc $bare, at most $most; $stderr"
    ((${output##* } <= most))
}

@test "blocks of many sizes, one after the other" {
    little_more sizes
}

@test "blocks that no device ever read, freed" {
    little_more never_copied
}

@test "blocks that were copied once and freed, while the program goes on" {
    little_more copied_once
}

@test "a block of which the program uses a part" {
    little_more untouched
}

@test "small blocks that fill half of the pages that they would be registered with, once learned" {
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR
    run -0 scripts/zc run --auto -q -o "$BATS_TEST_TMPDIR/logs" "$PROGRAM" small
    run -0 scripts/zc auto --show resident
    [[ $output == *"[rule learned-small]"* ]]
    little_more small auto
}

@test "forked workers that allocate what their parent copies" {
    little_more workers
}

@test "forked workers that start just after what was copied was freed" {
    little_more workers_after
}

@test "forked workers that read what their parent has copied and goes on to copy" {
    little_more workers_read
}
