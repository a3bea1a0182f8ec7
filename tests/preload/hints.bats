#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The prefetches that the use of managed blocks asks for; by both versions of the calls, and never
# at the program's cost.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/hints
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scenario under a rule for managed memory, and compares what it prints:
# told 'KEYS' SCENARIO LINE...
told() {
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy $'place = managed\n'"$1" timeout 30 "$program" "$2"
    diff <(printf '%s\n' "${@:3}") <(echo "$output")
    [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "a rule that wants no prefetch gets none" {
    told 'prefetch = none' copied_whole 'made: -2' 'copied: -2' 'launched: -2'
}

@test "a block gets the prefetch that its use asks for" {
    for key in '' 'prefetch = auto'; do
        told "$key" copied_whole 'made: -2' 'copied: 0' 'launched: 0'
        told "$key" copied_part 'made: -2' 'copied: -2' 'launched: -2'
        told "$key" launched 'made: -2' 'launched: 0'
    done
}

@test "pages that were sent are not sent again" {
    told '' again 'prefetches 1'
}

@test "a prefetch goes into the stream of its launch" {
    told '' in_its_stream 'launched: 0'
}

@test "nothing is sent during a capture; the graph's launch sends it" {
    told '' captured 'captured: -2' 'launched: 0'
}

@test "a driver that has only the older call is told the same" {
    export SIM_FAIL=cuMemPrefetchAsync_v2:801:0
    told '' launched 'made: -2' 'launched: 0'
}

@test "a prefetch that the driver refuses costs the program nothing" {
    for code in 1 2 999; do
        export SIM_FAIL=cuMemPrefetchAsync_v2:$code:0
        told '' copied_whole 'made: -2' 'copied: -2' 'launched: -2'
    done
}
