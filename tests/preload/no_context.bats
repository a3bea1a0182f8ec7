#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A free in a thread without a current context frees the block, as the driver does (measured on an
# H200): in every place the same output as without libzc, and nothing leaks.  A release that the
# driver refuses leaves the block to the program.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/no_context

host_rule='[rule host]
api = malloc
size = 1M..
place = shared'

PLACES=('place = device' 'place = mapped' 'place = managed' 'place = vmm'
    $'place = vmm\ncommit = lazy' $'place = vmm\ngrow = yes')
SHARED=$'place = shared\naccess = read'

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs a scene bare and under each of some policies: same_in SCENE POLICY...
same_in() {
    local bare policy
    run -0 --separate-stderr timeout 30 "$PROGRAM" "$1"
    bare=$output
    [[ $1 =~ ^(ordered|registering|asked)$ || $bare != *' -> 201'* ]]
    for policy in "${@:2}"; do
        echo "$policy"
        rm -f "$ZC_LOG" "$SIM_LEAKS"
        run -0 --separate-stderr under_policy "$policy" timeout 60 "$PROGRAM" "$1"
        diff <(echo "$bare") <(echo "$output")
        [[ -z $stderr ]]
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]] || { cat "$SIM_LEAKS"; return 1; }
        # A release that the driver refuses makes a new block of one that it has.
        [[ $1 =~ ^(ordered|wrong)$ ]] || diff <(blocks_of alloc) <(blocks_of free)
    done
}

# The blocks of the log's records of one type, but for those of libc's.
blocks_of() {
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
print(sorted(line["block"] for line in lines
             if line["type"] == sys.argv[2] and line["api"] != "malloc"))' \
        "$ZC_LOG" "$1"
}

# Sets `rules` to policies for each of these places: device_rules PLACE...
device_rules() {
    rules=()
    local place
    for place in "$@"; do
        rules+=("$host_rule
[rule device]
api = cudaMalloc
$place")
    done
}

@test "questions without a context are refused as bare, also while a stream captures" {
    same_in asked "${PLACES[@]}"
    [[ $output == *' -> 0'*' -> 201' ]]
}

@test "a thread without a context frees device memory in every place" {
    device_rules "${PLACES[@]}" "$SHARED"
    same_in device "${rules[@]}"
    (($(grep -c '"pair".*"elided_copies":[1-9]' "$ZC_LOG") == 4))
}

@test "a program that has popped its context frees what it has copied, and goes on" {
    device_rules "${PLACES[@]}" "$SHARED"
    same_in popped "${rules[@]}"
    grep -q '"pair".*"elided_copies":[1-9]' "$ZC_LOG"
}

@test "a thread without a context frees blocks of a pool" {
    device_rules "${PLACES[@]}"
    same_in pool "${rules[@]}"
    same_in ordered "${rules[@]}"
}

@test "what waits for a free that waits may go with one that has no context" {
    device_rules "${PLACES[@]}" "$SHARED"
    same_in left_over "${rules[@]}"
}

@test "a context that is released once of twice keeps its blocks" {
    device_rules "${PLACES[@]}" "$SHARED"
    same_in released "${rules[@]}"
}

@test "a thread without a context frees pinned memory" {
    same_in host 'place = pinned' 'place = managed' \
        $'api = cudaMallocHost, cudaHostAlloc\nplace = pinned'
}

@test "wrong addresses of frees are refused as bare, with a context and without" {
    device_rules "${PLACES[@]}" "$SHARED"
    same_in wrong "${rules[@]}"
}

@test "memory is registered in a context alone" {
    device_rules 'place = device' "$SHARED" $'place = mapped\n[rule pinned]
api = cudaHostAlloc\nplace = pinned'
    same_in registering "${rules[@]}"
}

@test "a block whose release the driver refuses is the program's still" {
    local place call
    while read -r place call; do
        rm -f "$SIM_LEAKS"
        run -0 --separate-stderr under_policy "place = $place" timeout 30 "$PROGRAM" refused
        grep "refused by $call" <<<"$stderr"
        grep "cuMemFree_v2 returned 999 for block .*'$place' by rule all" <<<"$stderr"
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
    done <<-END
	mapped cuMemHostUnregister
	mapped cuMemFreeHost
	managed cuMemFree_v2
	END
}

@test "a free whose wait the driver refuses leaves the block to the program" {
    local place
    export SIM_DEVICES=2
    for place in mapped managed vmm; do
        rm -f "$SIM_LEAKS"
        run -0 --separate-stderr under_policy "place = $place" timeout 30 "$PROGRAM" refused_wait
        [[ $(grep -c "cuMemFree_v2 returned 999 .*'$place' by rule all" <<<"$stderr") == 2 ]]
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
    done
}
