#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Host blocks and device blocks that are one: the program computes what it does with two memories,
# and copies between both sides have nothing to move.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_pairs

setup() {
    pairs_setup
}

# The bytes of copies to the device that the driver moved.
moved_in() {
    moved_by_kind "$ZC_LOG" | awk '$1 == "HtoD" { sum += $5 } END { print sum + 0 }'
}

@test "vector addition copies no input, and only its output takes device memory" {
    both vecadd
    [[ $stderr == *"device memory: 0 blocks, 1 mappings"* ]]
    [[ $(ended one) -eq 2 && $(ended own 'no host block') -eq 1 ]]
    [[ $(sum elided_copies) -eq 2 && $(sum elided_bytes) -eq $((12 << 20)) && $(moved_in) -eq 0 ]]
    [[ $(sum copied_bytes) -eq 0 ]]
}

@test "inputs that kernels only read and an output that they write have a rule each" {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "$host_rule
[rule inputs]
api = cudaMalloc
size = 1M..
nth = 1..2
place = shared
access = read
[rule output]
api = cudaMalloc
size = 1M..
place = shared" "$PROGRAM" vecadd
    [[ $stderr == *"device memory: 1 blocks, 0 mappings"* ]]
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG")
    [[ $(ended one) -eq 2 && $(sum elided_copies) -eq 2 ]]
    grep -q '"rule":"output".*"why":"shared: its rule does not say .access = read' "$ZC_LOG"
}

@test "of an input that the CPU keeps and changes, what was changed is copied" {
    both kept
    [[ $(ended one) -eq 1 && $(sum copied_bytes) -eq $((4 << 20)) ]]
    # The first copy, and the part of the second one that was not changed.
    [[ $(sum elided_bytes) -eq $((8 << 20)) && $(moved_in) -eq 0 ]]
    # The summary has the parts of a copy by what came of them.
    python3 - "$ZC_LOG" <<'PYTHON'
import json, sys
summary = [json.loads(line) for line in open(sys.argv[1])][-1]
assert summary["asked_bytes"] == 6 * 6 << 20, summary
assert summary["elided_bytes"] == 8 << 20, summary
PYTHON
}

@test "what the CPU has overwritten is copied back" {
    both copied_back
    [[ $(ended one) -eq 1 && $(sum elided_copies) -eq 1 && $(sum copied_bytes) -eq $((6 << 20)) ]]
}

@test "ten copies of an unchanged block move nothing" {
    both unchanged
    [[ $(sum elided_copies) -eq 10 && $(sum copied_bytes) -eq 0 && $(moved_in) -eq 0 ]]
}

@test "a block that is rewritten before each copy gets device memory of its own" {
    both rewritten
    [[ $(ended own 'rewrites the host block') -eq 1 ]]
    [[ $(sum copied_bytes) -eq $((12 << 20)) ]] # Twice.
}

@test "a host block is one with each device block that follows, until rewriting it costs more" {
    both again_and_again
    [[ $(ended one) -eq 3 && $(sum elided_copies) -eq 1 ]]
    [[ $(ended own 'rewrites the host block') -eq 1 && $(moved_in) -eq $((6 << 20)) ]]
}

@test "the second device block of a host block has memory of its own" {
    both twice
    [[ $(ended one) -eq 1 && $(ended own) -eq 1 && $(sum copied_bytes) -eq $((6 << 20)) ]]
}

@test "a device block that another host block is copied into has memory of its own" {
    both another
    [[ $(ended one) -eq 0 && $(ended own 'something else than its host block') -eq 1 ]]
    [[ $(sum elided_copies) -eq 1 && $(sum copied_bytes) -eq 0 ]]
}

@test "blocks become one whatever the order in which they were asked for" {
    both device_first
    [[ $(sum elided_copies) -eq 1 ]]
    both many
    [[ $(sum elided_copies) -eq 6 ]]
}

@test "blocks that two threads asked for become one, in either order" {
    both by_two_threads
    [[ $(ended one) -eq 2 && $(sum elided_copies) -eq 2 ]]
}

@test "a host block that is older than CUDA becomes one with a device block" {
    both older
    [[ $(ended one) -eq 1 && $(sum elided_copies) -eq 1 ]]
}

@test "a block that is copied piece by piece is shared, a part of a larger one is not" {
    both pieces
    [[ $(ended one) -eq 1 && $(sum elided_copies) -eq 6 && $(moved_in) -eq $((6 << 20)) ]]
}

@test "rows are copied at their pitch" {
    both pitched
    [[ $(ended own) -eq 2 ]]
}

@test "sizes that a program rounded up are shared, and others are not" {
    both rounded
    [[ $(sum elided_copies) -eq 1 && $(ended own 'does not fit') -eq 1 ]]
}

@test "a host block that is copied behind a padding is not shared" {
    both padded
    [[ $(ended own 'does not fit') -eq 1 ]]
}

@test "a device block that was written before its host block came keeps that" {
    both device_written_first
    [[ $(ended own) -eq 1 ]]
}

@test "a device block keeps what a kernel wrote before the first copy, where that brings no other" {
    both kernel_first
    [[ $(ended own 'a kernel may have written more') -eq 1 ]]
}

@test "calloc is zero in memory that a device block used before" {
    both zeroed
    [[ $(sum elided_copies) -eq 1 ]]
}

@test "a host block whose copy was refused for want of memory is one with the next device block" {
    run -0 --separate-stderr under_policy "$host_rule
[rule empty]
api = cudaMalloc
nth = 1
place = vmm
commit = lazy
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read" timeout 60 "$PROGRAM" copied_in_vain read
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG")
    [[ $(ended one) -eq 1 ]]
}

@test "a host block outlives its device block" {
    both device_freed_first
    [[ $(ended one) -eq 1 && $(ended own) -eq 1 ]]
}

@test "a device block outlives its host block, whose memory nobody else gets" {
    both host_freed_first
    [[ $(sum elided_copies) -eq 1 ]]
}

@test "realloc keeps the content of both sides" {
    both resized
    [[ $(sum elided_copies) -eq 1 ]]
    both resized_apart
}

@test "a result that is copied elsewhere leaves the host block as it was" {
    both result_elsewhere
    [[ $(ended own 'something else') -eq 1 ]]
}

@test "copies reach host blocks beside one that the program registered" {
    both registered_beside
}
