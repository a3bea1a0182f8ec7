#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory that is freed in stream order stays what it is until the stream has passed the free, and
# nothing of it stays afterwards.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/async_free
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
}

@test "another stream gets no memory that its stream has not passed" {
    in_every_place "$program" other_stream
    SIM_DELAY_US=300 in_every_place "$program" other_stream
}

@test "a freed block is refused by every call, whether its stream has passed or not" {
    for place in mapped managed; do
        run -0 --separate-stderr under_policy "place = $place" \
            timeout 30 "$program" misuse
        [[ ${#lines[@]} == 18 ]]
        # Codes as measured on a real driver: invalid value, and "not found" for the address range.
        run -0 sed -E 's/.* -> //' <<<"$output"
        [[ $(tr '\n' ' ' <<<"$output") == '1 0 1 1 1 1 1 500 0 1 0 1 1 1 1 1 500 0 ' ]]
    done
}

@test "blocks are freed by the call of the other kind as the driver allows it" {
    for place in bare device mapped managed vmm; do
        if [[ $place == bare ]]; then
            run -0 "$program" crossed
        else
            run -0 under_policy "place = $place" "$program" crossed
        fi
        run -0 sed -E 's/.* -> //' <<<"$output"
        [[ $(tr '\n' ' ' <<<"$output") == '0 1 0 1 0 ' ]]
    done
}

@test "blocks that are freed in another stream than their own keep their bytes until then" {
    in_every_place "$program" many
    SIM_DELAY_US=100 in_every_place "$program" many
}

@test "a destroyed context takes its live and deferred blocks with it" {
    in_every_place "$program" destroyed
    in_every_place "$program" detached
    in_every_place "$program" block_destroyed
    in_every_place "$program" stream_destroyed
    in_every_place "$program" left_behind
}

@test "requests in stream order stay in their pool, and a rule that names them says so" {
    need_built "$ZC_BUILD/tests/preload/programs/requests"
    program=$ZC_BUILD/tests/preload/programs/requests
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    run -0 --separate-stderr under_policy $'api = cudaMallocAsync\nplace = mapped, managed' \
        "$program" -a 12
    [[ $stderr == *"requests by cuMemAllocAsync are not placed by this version; they stay "* ]]
    grep -q '"api":"cuMemAllocAsync".*"place":"device".*"stream_ordered":true' "$ZC_LOG"
}
