#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Pinned memory that libzc registers in parts of 256 MiB: the program sees one block, whatever
# crosses the borders, and all of it or nothing.

load common.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/pinned_parts
HOST='api = cudaMallocHost, cudaHostAlloc
place = pinned'

setup() {
    need_built "$LIBZC" "$PROGRAM"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 SIM_TRACE=$BATS_TEST_TMPDIR/trace
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
}

# Runs a scenario bare and in the place `pinned`, or by RULE; what it prints must be the same: same
# SCENARIO [RULE]
same() {
    run -0 --separate-stderr timeout 120 "$PROGRAM" "$1"
    local bare=$output
    rm -f "$ZC_LOG" "$SIM_TRACE"
    run -0 --separate-stderr under_policy "${2:-$HOST}" timeout 120 "$PROGRAM" "$1"
    diff <(cat <<<"$bare") <(cat <<<"$output")
    [[ -z $stderr ]]
}

# Prints the place of the request, and why it is not the first one of the list.
place() {
    jq -r 'select(.type == "alloc" and .api == "cuMemHostAlloc") | "\(.place) \(.why // "-")"' \
        "$ZC_LOG"
}

# How often the driver was asked: calls NAME
calls() {
    grep -c "^$1 " "$SIM_TRACE" || true
}

@test "the driver gets a block in parts, and copies cross them whole" {
    same whole
    [[ $(place) == 'pinned -' ]]
    [[ $(calls cuMemHostRegister_v2) -eq 3 ]]
}

@test "blocks come that the driver can't pin in one piece" {
    export SIM_PIN_MIB=300
    run -1 timeout 120 "$PROGRAM" whole
    [[ $output == *"cuMemHostAlloc"*"2"* ]]
    rm -f "$ZC_LOG" "$SIM_TRACE"
    run -0 under_policy "$HOST" timeout 120 "$PROGRAM" whole
    [[ $output == *"it is right: 1"* && $(place) == 'pinned -' ]]
}

@test "where the driver refuses a part, it has none, and the request is as bare" {
    export SIM_FAIL=cuMemHostRegister_v2:2:3
    same whole
    [[ $(place) == *' pinned: cuMemHostRegister refuses' ]]
    [[ $(calls cuMemHostRegister_v2) -eq 3 && $(calls cuMemHostUnregister) -eq 2 ]]
}

@test "questions about a block are answered for the whole, wherever in it they point" {
    same answers
}

@test "copies and sets over a border do what they do inside of a part" {
    same copies
}

@test "batches over a border have an order for each copy, and tell which one has failed" {
    same batches
    [[ $output == *$'\n1\n'* ]]
}

@test "a source is read during a call that says so, where it crosses a border as well" {
    SIM_DELAY_US=20000 same overwritten
    [[ $output == *"on the device 7, in the range 9 1"* ]]
}

@test "a node that gets a range over a border later is refused in a message" {
    run -0 --separate-stderr under_policy "$HOST" timeout 120 "$PROGRAM" changed
    [[ $output == *'SetParams'*'-> 1'*'-> 1'*'-> 1'*'-> 1'* ]]
    run -0 grep -c 'SetParams.* returned 1 for block .*registered in parts' <<<"$stderr"
    [[ $output -eq 4 ]]
}

# The driver is made to fail before it looks at the pages, so that what is there is libzc's work.
@test "with a rule the program's own pages come in before they are registered" {
    local rule=$'api = cudaHostRegister\nplace = pinned'
    run -0 --separate-stderr timeout 120 "$PROGRAM" own
    local bare=$output
    run -0 --separate-stderr under_policy "$rule" timeout 120 "$PROGRAM" own
    [[ $output == "$bare" && $output == *"it was written: 1"* ]]
    export SIM_FAIL=cuMemHostRegister_v2:2:1
    run --separate-stderr timeout 120 "$PROGRAM" own
    [[ $stderr == *"0 pages"* ]]
    run --separate-stderr under_policy "$rule" timeout 120 "$PROGRAM" own
    [[ $stderr == *"10240 pages"* ]]
    rule=$'api = cudaMalloc\nplace = device'
    run --separate-stderr under_policy "$rule" timeout 120 "$PROGRAM" own
    [[ $stderr == *"0 pages"* && $stderr != *"10240 pages"* ]]
}

@test "blocks that come where a larger one was are registered, all of each" {
    same smaller
}

@test "the preset everyday makes large pinned memory, and leaves small to the driver" {
    run -0 --separate-stderr timeout 120 "$PROGRAM" whole
    local bare=$output
    rm -f "$SIM_TRACE"
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" ZC_POLICY=policy/presets/everyday.conf \
        timeout 120 "$PROGRAM" whole
    diff <(cat <<<"$bare") <(cat <<<"$output")
    [[ -z $stderr && $(place) == 'pinned -' && $(calls cuMemHostRegister_v2) -eq 3 ]]
    rm -f "$ZC_LOG" "$SIM_TRACE"
    run -0 env LD_PRELOAD="$LIBZC" ZC_POLICY=policy/presets/everyday.conf \
        "${PROGRAM%/*}/host_requests" many
    [[ $(calls cuMemHostRegister_v2) -eq 0 && $(calls cuMemHostAlloc) -gt 0 ]]
}

@test "the driver registers the program's own memory as asked, in one piece" {
    same own_whole $'api = cudaHostRegister\nplace = pinned'
    [[ $(calls cuMemHostRegister_v2) -eq 1 ]]
}

@test "a block of malloc's that libzc has registered is one to the program that registers it" {
    local scene
    for scene in copied_answers copied_copies copied_changed copied_whole; do
        same "$scene" $'api = posix_memalign\nplace = pinned'
    done
    [[ $(calls cuMemHostRegister_v2) -eq 1 ]]
}

@test "signals, forks, RLIMIT_MEMLOCK and memory bound to a node change nothing" {
    same disturbed
    [[ $(place) == 'pinned -' ]]
}

@test "what the host has not left is not brought in, and the driver says no" {
    export SIM_PIN_MIB=300
    same too_much
    [[ $output == *"-> 2"* && $output == *"small: 1"* && $(place) == "" ]]
}

# A refused block's pages go back before the driver is asked, which brings in as many.
@test "whichever part the driver refuses, the block is as bare, and no memory of it stays" {
    local name=cuMemHostRegister_v2
    export SIM_FAIL=$name:2:4,$name:1:6,$name:999:9 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    same three_more
    [[ $(calls "$name") -eq 9 && $(calls cuMemHostUnregister) -eq 3 ]]
    [[ $(grep -c "resident is one: 1" <<<"$output") -eq 3 ]]
    [[ $output == *"mappings as behind the first: 1"* ]]
    [[ $(grep -c . "$SIM_LEAKS") -eq 0 ]]
    run -0 place
    [[ $(grep -c 'pinned: cuMemHostRegister refuses' <<<"$output") -eq 3 ]]
}

@test "where the process may have no addresses for a block, it fails as bare" {
    same no_addresses
    [[ $output == *"-> 2"* ]]
}

@test "without huge pages, and without threads, pinned memory is the same" {
    same no_huge_pages
    same no_threads
    [[ $(place) == $'pinned -\npinned -' ]]
}

@test "what a control group has not left is not brought in, and the driver is asked" {
    in_group 1 true || skip "no mount namespaces"
    local mib
    write_policy "$HOST"
    run -0 --separate-stderr timeout 120 "$PROGRAM" whole
    local bare=$output
    for mib in 551 1500; do
        rm -f "$ZC_LOG" "$SIM_TRACE"
        run -0 --separate-stderr in_group $((mib << 20)) env LD_PRELOAD="$LIBZC" \
            ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" "$PROGRAM" whole
        diff <(cat <<<"$bare") <(cat <<<"$output")
        [[ $mib -eq 551 || $(place) == 'pinned -' ]]
        [[ $mib -ne 551 || $(place) == *'the host has not so much memory left' ]]
        [[ $(calls cuMemHostRegister_v2) -eq $((mib == 551 ? 0 : 3)) ]]
    done
}
