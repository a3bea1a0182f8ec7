#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Weights that don't fit (spill = fetch): which of them lie in host memory at first, what comes
# ahead of its launch, and what leaves for blocks that kernels write.

load places.bash

setup() {
    placed_by moved_ahead
}

# scene NAME [BUDGET]: runs a scene, whose kernels read what they must.
scene() {
    run_moving "[rule all]
place = vmm
spill = fetch
chunk = 2M
${2:+budget = $2}" 300 "$program" "$1"
    [[ $output == *$'wrong: 0\n'*'leaks 0' ]]
}

@test "of weights that are filled one after the other those in host memory lie between others" {
    scene spread 16M
    [[ $output == 'loaded: '* && ! $output =~ DDD && ! $output =~ HHH ]]
}

@test "the blocks of the next two launches come ahead of them" {
    scene next_two 64M
    [[ $output == $'late: 0\n'* ]]
}

@test "a block that kernels write gets its memory from weights that come again" {
    scene beside 16M
    [[ $output == $'DDDDDDDD\n'* ]]
}

@test "of weights that come again the one that is due last makes room for a block" {
    scene between 16M
    [[ $output == $'late: 0\n'* ]]
}

@test "no weights leave for a block that is much smaller" {
    BLOCK_MIB=32 scene small 64M
    [[ $output == *$'made: D\n'* ]]
    BLOCK_MIB=34 scene small 68M
    [[ $output == *$'made: H\n'* ]]
}

@test "where a device is full weights leave as where a budget is" {
    SIM_MEMORY_MIB=26 scene beside
    [[ $output == $'DDDDDDDD\n'* ]]
}
