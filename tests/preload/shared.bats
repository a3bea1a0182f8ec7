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

@test "vector addition finds three pairs, copies nothing and takes no device memory" {
    same vecadd ''
    [[ $stderr == *"device blocks 0, same address 1 1 1"* ]]
    [[ $(sum elided_copies) -eq 3 && $(sum elided_bytes) -eq $((18 << 20)) ]]
    # The output's, which the kernel wrote while the host block was still zero.
    [[ $(sum parted_pages) -eq 3 && $(sum faults) -eq 0 ]]
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
place = shared
access = write" "$PROGRAM" vecadd
    [[ $stderr == *"device blocks 0, same address 1 1 1"* ]]
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG")
    [[ $(sum elided_copies) -eq 3 ]]
}

@test "a result that goes back into its input keeps every round" {
    same in_place ''
    [[ $(sum elided_copies) -ge 3 ]]
}

@test "a host block meets the device block that was there first" {
    both device_first
    [[ $stderr == *"same address 1"* ]]
}

@test "a device block keeps what it had when a host block joins it" {
    both device_written_first
    [[ $stderr == *"same address 1"* ]]
}

@test "calloc is zero in memory that a device block used before" {
    both zeroed
    [[ $stderr == *"same address 1"* ]]
}

@test "a host block whose copy was refused for want of memory meets the next device block" {
    run -0 --separate-stderr under_policy "$host_rule
[rule empty]
api = cudaMalloc
nth = 1
place = vmm
commit = lazy
[rule device]
api = cudaMalloc
size = 1M..
place = shared" timeout 60 "$PROGRAM" copied_in_vain
    [[ $stderr == *"same address 1"* ]]
}

@test "a host block outlives its device block, and meets the next" {
    both device_freed_first
    [[ $(wc -l <<<"$pairs") -eq 2 ]]
}

@test "a device block outlives its host block" {
    both host_freed_first
}

@test "a device block keeps what kernels wrote when its host block is overwritten from elsewhere" {
    same overwritten_from_elsewhere ''
    [[ $(sum elided_copies) -eq 2 ]]
}

@test "realloc keeps the content of both sides" {
    both resized
    both resized_apart
}

@test "blocks of one size meet in the order in which they were asked for" {
    both many
    [[ $stderr == *"111111"* && $(sum elided_copies) -eq 12 ]]
}

@test "blocks that two threads asked for meet, in either order" {
    both by_two_threads
    [[ $(grep -c "same address 1" <<<"$stderr") -eq 2 ]]
}

@test "wrong pairs compute the same, and the log has the rule that pairs rightly" {
    both crossed
    [[ $stderr == *"same address 0 0"* && $stderr == *"a host block (6 MiB) that is not its own"* ]]
    # The rule of the message, for the device block of the message.
    local right block site
    right=$(sed -nE "s/.*'(pair = site:[0-9a-f]{8}:1)'.*/\1/p" <<<"$stderr")
    block=$(sed -nE "s/.*device block ([0-9]+) .* is copied from a host block.*/\1/p" <<<"$stderr")
    site=$(sed -nE "s/.*device block $block \([^)]*site ([0-9a-f]{8})\).*/\1/p" <<<"$stderr")
    [[ -n $right && -n $site ]]
    same crossed "site = $site
$right"
    [[ $stderr != *"a host block (6 MiB) that is not its own"* ]]
    [[ $stderr == *"same address 1 0"* || $stderr == *"same address 0 1"* ]]
    [[ $(sum elided_copies) -ge 3 ]]
}

@test "a result that is copied elsewhere leaves the host block as it was" {
    both result_elsewhere
}

@test "a launch passes by host blocks of which a part is lost with their device blocks" {
    both many_results_kept_in_part
    [[ $(wc -l <<<"$pairs") -eq 41 ]]
}

@test "sizes meet that a program rounded, and others do not" {
    both rounded
    [[ $stderr == *"same address 1 0"* ]]
}

@test "a padded device block does not meet a host block whose pages end before it does" {
    same padded ''
    [[ $stderr == *"same address 0"* ]]
}

@test "ten copies of an unchanged block move nothing" {
    both unchanged
    [[ $(sum elided_copies) -eq 10 && $(sum parted_pages) -eq 0 ]]
}

@test "a block that is rewritten before each copy stops sharing" {
    both rewritten
    [[ $pairs == *'"cold":true'* && $(sum parted_pages) -le 9 && $(sum faults) -le 12 ]]
}

@test "copies reach host blocks beside one that the program registered" {
    both registered_beside
}
