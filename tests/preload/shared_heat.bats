#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The place `shared`: kernels that use a block for long give it device memory.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/kernels/bfs-shared

setup() {
    pairs_setup
    need_built "$SIM/kernels/bfs.so"
    sim_env bfs
}

# search MICROSECONDS: a graph search whose kernels take that long each.  They read 4 MiB of lists.
search() {
    local bare
    bare=$("$PROGRAM" 16 16 | json_field checksum)
    export SIM_KERNEL_US=$1
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "$host_rule
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read" "$PROGRAM" 16 16
    [[ $(json_field checksum <<<"$output") == "$bare" ]]
    pairs=$(grep '"type":"pair"' "$ZC_LOG")
    echo "$stderr$pairs"
}

@test "a block that kernels use for a moment stays the host block's memory" {
    search 1
    [[ $(json_field backing <<<"$pairs") == one && $(sum elided_copies) -eq 1 ]]
}

@test "a block that kernels use for longer than its change takes gets device memory, once" {
    search 900
    [[ $(json_field backing <<<"$pairs") == own && $(json_field why <<<"$pairs") == *"for long" ]]
    [[ $(sum elided_copies) -eq 1 ]]
    # The copy of the change was nobody's, and crossed the link all the same.
    moved_by_kind "$ZC_LOG" | grep "^HtoD Pinned Device 1 4194304$"
}

@test "without device memory for it a block stays as it is, and no call fails" {
    export SIM_FAIL=cuMemCreate:2:1,cuMemCreate:2:2,cuMemCreate:2:3,cuMemCreate:2:4
    search 900
    [[ $(json_field backing <<<"$pairs") == one && $(sum elided_copies) -eq 1 ]]
}

@test "the second launch waits for the first to know its time, so that queued launches gain" {
    PROGRAM=$PWD/$ZC_BUILD/kernels/pagerank-shared
    need_built "$PROGRAM" "$SIM/kernels/pagerank.so"
    export SIM_KERNELS=$SIM/kernels/pagerank.so SIM_KERNEL_US=150000 SIM_DELAY_US=60000
    run -0 --separate-stderr under_policy "$host_rule
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read" "$PROGRAM" 16 16 1 3
    pairs=$(grep '"type":"pair"' "$ZC_LOG")
    [[ $(json_field why <<<"$pairs") == "kernels used it for long" ]]
}

@test "where one block of a site was used for long, the next ones begin with device memory" {
    PROGRAM=$PWD/$ZC_BUILD/tests/gpu/pair_model-shared
    need_built "$PROGRAM" "$SIM/kernels/pair_model.so"
    export SIM_KERNELS=$SIM/kernels/pair_model.so SIM_KERNEL_US=2000
    run -0 --separate-stderr under_policy "$host_rule
[rule device]
api = cudaMalloc
size = 1M..
place = shared
access = read" "$PROGRAM" 15000 3
    [[ $output == *'"verified":true'* ]]
    grep -q '"why":"kernels used it for long"' "$ZC_LOG"
    later='"why":"kernels used an earlier block of its site for long"'
    grep "$later" "$ZC_LOG" | grep -q '"elided_copies":0'
}
