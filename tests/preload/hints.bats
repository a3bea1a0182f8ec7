#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the driver is told about managed blocks: the rule's advice and prefetches, or what the
# block's use asks for; by both versions of the calls, and never at the program's cost.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/hints
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    nothing='0 -2 -2 -2 -2'
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
    told 'prefetch = none' copied_whole "made: $nothing" "copied: $nothing" "launched: $nothing"
}

@test "pages are sent to the device when the rule says" {
    local sent='0 -2 -2 -2 0'
    told 'prefetch = alloc' copied_part "made: $sent" "copied: $sent" "launched: $sent"
    told 'prefetch = copy' copied_part "made: $nothing" "copied: $sent" "launched: $sent"
    told 'prefetch = launch' copied_part "made: $nothing" "copied: $nothing" "launched: $sent"
}

@test "without a hint a block gets the prefetch that its use asks for, and the log says which" {
    local sent='0 -2 -2 -2 0'
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    while IFS='|' read -r scenario copied launched line; do
        rm -f "$ZC_LOG"
        told '' "$scenario" "made: $nothing" ${copied:+"copied: $copied"} "launched: $launched"
        grep -qF '"type":"hint",' "$ZC_LOG"
        grep -qF "\"block\":1,$line" "$ZC_LOG"
    done <<-END
	copied_whole|$sent|$sent|"prefetch":"copy","why":"copies fill half of it or more"
	copied_part|$nothing|$nothing|"prefetch":"none","why":"copies filled less than half of it"
	launched||$sent|"prefetch":"launch","why":"a kernel is the first to use it"
	END
}

@test "pages that were sent are not sent again" {
    for key in '' 'prefetch = launch' 'prefetch = copy' 'prefetch = alloc, copy, launch'; do
        told "$key" again 'prefetches 1'
    done
}

@test "a prefetch goes into the stream of its launch" {
    told 'prefetch = launch' in_its_stream 'launched: 0 -2 -2 -2 0'
}

@test "nothing is sent during a capture; the graph's launch sends it" {
    told '' captured "captured: $nothing" 'launched: 0 -2 -2 -2 0'
}

@test "a driver that has only the older call is told the same" {
    export SIM_FAIL=cuMemPrefetchAsync_v2:801:0
    told 'prefetch = launch' launched "made: $nothing" 'launched: 0 -2 -2 -2 0'
}

@test "a hint that the driver refuses costs the program nothing" {
    for code in 1 2 999; do
        export SIM_FAIL=cuMemPrefetchAsync_v2:$code:0
        told 'prefetch = copy, launch' copied_whole "made: $nothing" \
            "copied: $nothing" "launched: $nothing"
    done
}
