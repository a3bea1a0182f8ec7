#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pinned memory that the program asks the driver for, made by libzc: it answers, copies, waits and
# goes as without libzc, to the character.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/host_requests
HOST='api = cudaMallocHost, cudaHostAlloc'

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
}

# Runs a scenario bare and under a policy; what it prints must be the same.  The second run leaves
# its log, and what it said in $stderr: same_as_bare SCENARIO POLICY [FILTER]
same_as_bare() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr timeout 60 "$PROGRAM" "$1"
    local bare=$output
    run -0 --separate-stderr under_policy "$2" timeout 60 "$PROGRAM" "$1"
    diff <("${3:-cat}" <<<"$bare") <("${3:-cat}" <<<"$output")
}

# Prints "PLACE WHY" of the log's requests for pinned memory, each kind once, without sizes.
places() {
    jq -r 'select(.type == "alloc" and .api == "cuMemHostAlloc")
           | "\(.place) \(.real_kind) \(.why // "-")"' "$ZC_LOG" | sort -u
}

@test "pinned blocks answer as the driver's own, whatever the flags and the size" {
    same_as_bare answers "$HOST
place = pinned"
    [[ -z $stderr ]]
    [[ $(places) == "pinned Pinned -
pinned Pinned pinned: only the driver makes write-combined memory
pinned Pinned pinned: the driver packs blocks below 64 KiB" ]]
}

@test "requests that are no good get the driver's codes" {
    same_as_bare odd "$HOST
place = pinned"
}

@test "memory from the pool is zero, has a number of its own, and was registered once" {
    SIM_TRACE=$BATS_TEST_TMPDIR/trace same_as_bare runtime "$HOST
size = 2M
place = pinned"
    [[ $output == *"zero again 1, another number 1"* ]]
    [[ $(grep -c '^cuMemHostRegister_v2 0' "$BATS_TEST_TMPDIR/trace") -eq 1 ]]
}

@test "a free waits for the device, a request does not" {
    same_as_bare waits "$HOST
place = pinned"
    [[ $output == *"asking waits 0"*"freeing waits 1"* ]]
}

@test "a capture refuses requests and frees, and copies at its launches" {
    same_as_bare capture "$HOST
place = pinned"
    [[ $output == *"copied at the launch 1"* ]]
}

@test "a context takes its blocks along, and no other's" {
    same_as_bare contexts "$HOST
place = pinned"
}

@test "libc's memory and the driver's share no registration" {
    for api in '' ', malloc'; do
        same_as_bare neighbours "$HOST$api
place = pinned"
    done
}

@test "a forked child uses what it inherited" {
    same_as_bare forked "$HOST
place = pinned"
}

@test "free(3) of such a block ends the process, as bare" {
    same_as_bare wrong_free "$HOST, malloc
place = pinned"
    [[ $output == *"ended by a signal 1"* ]]
}

@test "threads ask, copy and free at once" {
    same_as_bare threads "$HOST
place = pinned"
}

@test "host memory takes nothing from the device's free memory but what the driver says" {
    same_as_bare figures "$HOST
place = pinned"
}

@test "stream memory operations work on pinned blocks" {
    same_as_bare words "$HOST
place = pinned"
}

@test "limits send requests down the list, and no byte is lost" {
    same_as_bare many "[defaults]
max_pinned = 8M
[rule all]
$HOST
place = pinned"
    places | grep -qx 'pinned Pinned pinned: over max_pinned'
    places | grep -qx 'pinned Pinned -'
}

@test "each driver call that fails leaves the request to the next place" {
    run -0 --separate-stderr "$PROGRAM" many
    local bare=$output
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    for call in cuMemHostRegister_v2 cuMemHostUnregister cuDeviceGetAttribute; do
        for code in 1:0 2:2 2:7; do
            echo "$call:$code in pinned"
            rm -f "$SIM_LEAKS"
            SIM_FAIL=$call:$code run -0 --separate-stderr under_policy "$HOST
place = pinned" timeout 60 "$PROGRAM" many
            diff <(echo "$bare") <(echo "$output")
            [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]]
        done
    done
}

@test "a place that is refused is named in the log" {
    SIM_FAIL=cuMemHostRegister_v2:2:0 same_as_bare many "$HOST
place = pinned"
    [[ $(places) == *'pinned Pinned pinned: cuMemHostRegister refuses'* ]]
}

# By the attribute's number in cuda.h: unified addressing, host pointers of registered memory.
@test "a device without a property passes its place over" {
    for attribute in 41 91; do
        SIM_ATTR=$attribute=0 same_as_bare many "$HOST
place = pinned"
        [[ $(places) == "pinned Pinned pinned: the device can't use host addresses" ]]
    done
}

@test "rules choose requests by their size, module and order" {
    same_as_bare many "$HOST
module = host_requests
size = 3M..
nth = 2..3
place = pinned"
    run jq -c 'select(.type == "alloc" and .rule) | [.size_bytes / 1048576, .rule]' \
        "$ZC_LOG"
    [[ $output == '[4,"all"]
[5,"all"]' ]]
}

@test "registrations of the program are watched, and a rule is named in the log" {
    same_as_bare registered "[rule mine]
api = cudaHostRegister
place = pinned"
    [[ -z $stderr ]]
    run jq -c 'select(.type == "alloc" and .api == "cuMemHostRegister")
               | [.place, .converted, .rule, .size_bytes]' "$ZC_LOG"
    [[ $output == '["pinned",false,"mine",4194304]' ]]
}

@test "places that are not possible for host memory are refused at the start, with the reason" {
    run -0 --separate-stderr under_policy "api = cudaHostAlloc
place = pageable" "$PROGRAM" runtime
    [[ $stderr == *"policy.conf:3:9: no place of the rule is possible for 'cudaHostAlloc'"* ]]
    [[ $stderr == *": its memory has a device address"* ]]
    run -0 --separate-stderr under_policy "api = cudaHostRegister
place = managed" "$PROGRAM" runtime
    [[ $stderr == *"policy.conf:3:9: no place of the rule is possible for 'cudaHostRegister'"* ]]
    [[ $stderr == *"(possible: pinned): the pages are the program's own"* ]]
    run -0 --separate-stderr under_policy "api = malloc, cudaHostAlloc
place = managed, pinned" "$PROGRAM" runtime
    [[ $stderr == *"policy.conf:3:9: place 'managed' is not possible for the requests of"* ]]
}

@test "requests that the rule's globs cover besides are passed over, place by place" {
    same_as_bare many "api = cuda*
place = device, mapped, pinned"
    [[ $(places) == *"pinned Pinned device: not possible for this request; mapped: not possible \
for this request"* ]]
    run -0 jq -r 'select(.type == "alloc" and .api == "cuMemAlloc") | .place' "$ZC_LOG"
    [[ $output == device ]]
}

@test "log and driver agree to the byte on what was moved" {
    unset ZC_LOG
    referee "$HOST
place = pinned" "$PROGRAM" many
}
