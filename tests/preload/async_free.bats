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

@test "no stream gets it that has the same handle in another thread or context" {
    for scenario in other_thread other_context; do
        in_every_place "$program" $scenario
        SIM_FAIL=cuStreamGetId:801:0 in_every_place "$program" $scenario
    done
}

@test "the same stream may reuse at once what it freed" {
    in_every_place "$program" same_stream
    for place in mapped managed vmm; do
        run -0 under_policy "place = $place" "$program" same_stream
        [[ $output == reused ]]
    done
}

@test "memory that its stream has passed is used again, not hoarded" {
    for place in mapped managed; do
        run -0 under_policy "place = $place" "$program" passed
        [[ $output == *': 1' ]]
    done
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

@test "a request from a pool of another device than the current is made there" {
    export SIM_DEVICES=2
    run -0 "$program" other_device
    local bare=$output
    [[ $(grep -c '^on device 1$' <<<"$bare") -eq 3 ]]
    for place in device mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" timeout 30 "$program" other_device
        [[ $output == "$bare" && -z $stderr ]]
    done
}

@test "blocks that are freed in another stream than their own keep their bytes until then" {
    in_every_place "$program" many
    SIM_DELAY_US=100 in_every_place "$program" many
}

@test "a block of a pool outlives the context that asked for it" {
    run -0 "$program" outlives
    local bare=$output
    [[ ${lines[1]} == 1 ]]
    for place in device mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" "$program" outlives
        [[ $output == "$bare" && -z $stderr ]]
    done
}

@test "a block of a pool outlives the primary context's last release, or is said to be gone" {
    for place in device vmm; do
        run -0 --separate-stderr under_policy "place = $place" "$program" released
        [[ ${lines[*]} == *'-> 0 1' && -z $stderr ]]
    done
    run -0 --separate-stderr under_policy 'place = mapped' "$program" released
    [[ ${lines[0]} == *'-> 1' ]]
    [[ $stderr == *" goes with its context, because it lies in 'mapped' "* ]]
}

@test "pinned memory of a pool that goes with its context, without a primary one, is told" {
    run -0 --separate-stderr under_policy 'place = mapped' "$program" outlives_alone
    [[ $stderr == "libzc: block 1 (64 KiB at "* ]]
    [[ $stderr == *" goes with its context, because it lies in 'mapped' "* ]]
}

@test "a block may be freed after its pool is destroyed, and no later pool's figures show it" {
    in_every_place "$program" pool_destroyed
}

@test "a destroyed context takes its live and deferred blocks with it" {
    in_every_place "$program" destroyed
    in_every_place "$program" detached
    in_every_place "$program" block_destroyed
    in_every_place "$program" stream_destroyed
    in_every_place "$program" left_behind
}

@test "freed memory of a pool is not missing for the next request, and its bytes are the limit's" {
    need_built "$ZC_BUILD/tests/preload/programs/requests"
    program=$ZC_BUILD/tests/preload/programs/requests
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs SIM_MEMORY_MIB=64
    run -0 under_policy $'[defaults]\nmax_managed = 20M\n[rule all]\nplace = managed, mapped' \
        "$program" -a -f 12 16 20 12
    [[ $(grep -c '"type":"alloc".*"place":"managed"' "$ZC_LOG") == 4 ]]
    rm "$ZC_LOG"
    run -0 under_policy $'[defaults]\nmax_managed = 20M\n[rule all]\nplace = managed, mapped' \
        "$program" -a 12 12 8 1
    [[ $(grep -c '"type":"alloc".*"place":"managed"' "$ZC_LOG") == 2 ]]
}
