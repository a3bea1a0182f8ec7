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

@test "blocks that results come into piece by piece, of which none is filled" {
    little_more pieces
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

@test "where the kernel counts what was asked for, what is freed goes back to it" {
    unshare --mount true || skip "no mount namespaces"
    local mode program=${PROGRAM%/*}/links
    declare -A registered
    need_built "$program"
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    write_policy $'api = malloc\nplace = pinned'
    for mode in 0 2; do
        echo "$mode" >"$BATS_TEST_TMPDIR/mode"
        rm -f "$SIM_TRACE"
        # shellcheck disable=SC2016 # The inner shell's own.
        run -0 unshare --mount bash -c 'mount --bind "$1" /proc/sys/vm/overcommit_memory &&
            exec "${@:2}"' - "$BATS_TEST_TMPDIR/mode" env LD_PRELOAD="$LIBZC" \
            ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" timeout 60 "$program" staged
        registered[$mode]=$(grep -c '^cuMemHostRegister' "$SIM_TRACE")
    done
    ((registered[0] > 0 && registered[2] > registered[0]))
}
