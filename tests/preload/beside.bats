#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Addresses just before and behind a block are nobody's, whatever its place has there: calls that
# name them, nodes of graphs among them, give in every place what they give without libzc, and blame
# no rule.  Nor do calls that are wrong in something else.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/beside

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
}

# Runs a scene bare and with its blocks in each place: same_in SCENE PLACE...
same_in() {
    local bare place
    run -0 --separate-stderr timeout 30 "$PROGRAM" "$1"
    bare=$output
    [[ $bare == *'cuMemGetAddressRange(&base, &size, at) -> 500'* ]]
    for place in "${@:2}"; do
        echo "$place"
        rm -f "$ZC_LOG"
        run -0 --separate-stderr under_policy "[rule host]
api = malloc
size = 1M..
place = shared
[rule device]
api = cudaMalloc
place = $place" timeout 60 "$PROGRAM" "$1"
        diff <(echo "$bare") <(echo "$output")
        [[ -z $stderr ]]
        grep -q "\"place\":\"${place%%[,$'\n']*}\"" "$ZC_LOG"
    done
}

@test "around a block of device memory" {
    same_in device device mapped managed vmm $'vmm\ncommit = lazy' $'vmm\ngrow = yes'
}

@test "behind a block that is smaller than a page of the device's" {
    same_in small device mapped managed
}

@test "around a block without a host block to share" {
    same_in device $'shared\naccess = read'
}

@test "around a block that is one with a host block" {
    same_in paired $'shared\naccess = read'
    [[ $(grep -c '^{"type":"pair".*"elided_copies":1,' "$ZC_LOG") -eq 5 ]]
}

@test "around a block of a pool" {
    same_in pool device mapped managed
}

@test "a value that is refused because its block is managed memory names the rule" {
    run -0 --separate-stderr under_policy 'place = managed' timeout 30 "$PROGRAM" value
    [[ $output == *'cuStreamWriteValue32('*'-> 1'*'cuStreamBatchMemOp('*'-> 1' ]]
    for call in cuStreamWriteValue32_v2 cuStreamBatchMemOp_v2; do
        [[ $stderr == *"$call returned 1 for block "*"in 'managed' by rule all ("* ]]
    done
}
