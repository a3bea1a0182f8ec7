#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The pages of managed blocks are sent to the device by the request, by both versions of the call,
# and never at the program's cost.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/prefetch
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scenario under a rule for managed memory, and compares what it prints:
# told 'KEYS' SCENARIO LINE
told() {
    rm -f "$SIM_LEAKS"
    run -0 --separate-stderr under_policy $'place = managed\n'"$1" timeout 30 "$program" "$2"
    diff <(echo "$3") <(echo "$output")
    [[ -z $stderr && -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
}

@test "a rule that wants no prefetch gets none" {
    told 'prefetch = none' made 'made: -2'
    told 'prefetch = none' again 'prefetches 0'
}

@test "pages are sent to the device by the request, and not again" {
    for key in '' 'prefetch = alloc'; do
        told "$key" made 'made: 0'
        told "$key" again 'prefetches 1'
    done
}

@test "pages come while the legacy stream waits for the program" {
    told '' beside 'beside: 0'
}

@test "a driver that has only the older call is told the same" {
    export SIM_FAIL=cuMemPrefetchAsync_v2:801:0
    told '' made 'made: 0'
}

@test "a prefetch that the driver refuses costs the program nothing" {
    for code in 1 2 999; do
        export SIM_FAIL=cuMemPrefetchAsync_v2:$code:0
        told '' made 'made: -2'
    done
}
