#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks that kernels only read (access = read) and that move between the device and host memory
# (spill = move): the next one is copied while kernels run, what leaves is not copied again, and
# every kernel reads what the program wrote last.

load places.bash

setup() {
    placed_by moved_read
    POLICY=$'place = vmm\nspill = move\naccess = read\nchunk = 2M\nbudget = 16M'
}

# scene NAME
scene() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$POLICY" timeout 300 "$program" "$1"
    echo "$output"
    echo "$stderr"
    [[ $output == *$'wrong: 0\nleaks 0' ]]
}

# moved TO WHY: number of such moves.
moved() {
    grep -c "\"type\":\"move\".*\"to\":\"$1\".*\"why\":\"$2" "$ZC_LOG" || true
}

@test "in a cycle most blocks are fetched ahead, and each leaves by a copy once at most" {
    scene cycle
    (( $(moved device 'it was fetched') > 15 && $(moved host) > 15 ))
    run -0 moved_by_kind "$ZC_LOG"
    [[ $output =~ 'DtoH Device Pinned '[0-9]+' '([0-9]+) ]]
    (( BASH_REMATCH[1] <= 6 * 4 << 20 ))
    python3 -c 'import json, sys
places = {p["place"]: p for p in json.loads(list(open(sys.argv[1]))[-1])["places"]}
assert places["vmm"]["peak_bytes"] <= 16 << 20, places
assert places["vmm"]["bytes"] == places["mapped"]["bytes"] == 0, places
lines = [json.loads(line) for line in open(sys.argv[1])]
moved = [line for line in lines if line["type"] == "move"]
assert lines[-1]["moves"] == {
    "to_device_bytes": sum(m["bytes"] for m in moved if m["to"] == "device"),
    "ahead_bytes": sum(m["bytes"] for m in moved if m["why"] == "it was fetched ahead"),
    "to_host_bytes": sum(m["bytes"] for m in moved if m["to"] == "host"),
    "blocked_ns": lines[-1]["moves"]["blocked_ns"],
    "waited_ns": lines[-1]["moves"]["waited_ns"]}, lines[-1]["moves"]
for field in ("blocked_ns", "waited_ns"): # each line rounds
    rounded = sum(m[field] for m in moved)
    assert abs(lines[-1]["moves"][field] - rounded) <= len(moved), field' "$ZC_LOG"
    ZC_SUMMARY=1 scene cycle
    [[ $stderr == *'moves: '*' MiB to the device, '*' MiB of them beside kernels'* ]]
}

@test "a kernel does not wait for the copy of a later one's block" {
    scene ahead
    [[ $output == 'copies begun: '[1-6]$'\n'* ]]
}

@test "what the program writes meanwhile is what kernels read" {
    scene written
    (( $(moved device 'it was fetched') > 5 ))
}

@test "what a call writes that libzc does not know is what kernels read" {
    scene unknown
    [[ $(grep -c 'copy(.*-> 0' <<<"$output") -eq 6 ]]
}

@test "launches in another order than before read the same" {
    scene disorder
}

@test "blocks and contexts go while a block is fetched" {
    scene freed
    scene gone
}

@test "kernels may write what no copy of the program has filled" {
    run -0 --separate-stderr under_policy "$POLICY" timeout 60 "$program" unfilled
    [[ $output == 'leaks 0' && -z $stderr ]]
    [[ $(moved device '') -gt 4 ]]
}

@test "a kernel that writes a block that it may only read fails, and a message names the rule" {
    run -0 --separate-stderr under_policy "$POLICY" timeout 60 "$program" promise
    [[ $output == 'cuCtxSynchronize() -> 700' ]]
    [[ $stderr == *"write to device block"*"'access = read'"*'do not trust the results'* ]]
}

@test "whatever call of the driver fails, kernels read the right bytes" {
    scene fails
}

@test "where host memory is short, what is kept of blocks makes room" {
    POLICY=$'[defaults]\nmax_pinned = 12M\n[rule all]\n'$POLICY
    scene cycle
    [[ $(moved device '') -gt 4 ]]
}
