#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The cost of a call depends on its block, not on how many others there are.  Instructions
# are counted, not time.

load common.bash

LARGE=1100000 # Bytes: more than half a granule of vmm.

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/scale
    need_built "$LIBZC" "$program"
    [[ $(uname -m) == x86_64 ]] || skip "the program steps through x86-64 code"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_MEMORY_MIB=2048
}

# Calls among four times as many blocks take at most a quarter more of libzc's instructions:
# stays_level POLICY BLOCKS [ARGUMENT OF THE PROGRAM]
stays_level() {
    local few many
    run -0 --separate-stderr under_policy "$1" timeout 120 "$program" "$2" "${@:3}"
    few=$output
    run -0 --separate-stderr under_policy "$1" timeout 120 "$program" $(($2 * 4)) "${@:3}"
    many=$output
    paste <(echo "$few") <(echo "$many")
    paste <(echo "$few") <(echo "$many") | awk '$4 > 1.25 * $2 + 100 {bad = 1} END {exit bad}'
}

@test "a call among many blocks of the device's and in mapped memory costs as among few" {
    stays_level 'place = device' 100
    stays_level 'place = mapped' 100
}

@test "a call among many managed blocks costs as among few" {
    stays_level 'place = managed' 100
}

@test "a call among many blocks that are attached lazily, or may grow, costs as among few" {
    export MORE=$LARGE
    stays_level $'place = vmm\ncommit = lazy' 50
    stays_level $'place = vmm\ngrow = yes' 50
}

@test "a call among many freed blocks that wait for their stream costs as among few" {
    stays_level 'place = mapped' 100 deferred
    stays_level 'place = managed' 100 deferred
    MORE=$LARGE stays_level 'place = vmm' 50 deferred
}

# Bytes of libzc's own for each live block: takes_for_each POLICY BLOCKS [MOST]
takes_for_each() {
    run -0 --separate-stderr under_policy "$1" timeout 120 "$program" "$2" memory
    echo "$1: $output"
    ((output <= ${3:-200}))
}

@test "a live block takes at most 200 bytes of libzc's own memory" {
    takes_for_each 'place = device' 10000
    takes_for_each 'place = managed' 10000
    takes_for_each 'place = mapped' 10000
    takes_for_each 'place = vmm' 10000
    takes_for_each $'place = vmm\ncommit = lazy' 10000
    takes_for_each $'place = vmm\ngrow = yes' 10000
    takes_for_each $'place = shared\naccess = read' 10000
}

@test "of a block of vmm with granules of its own libzc keeps at most 440 bytes" {
    export MORE=$LARGE
    takes_for_each $'place = vmm\ncommit = lazy' 10000 440
    takes_for_each $'place = vmm\ngrow = yes' 10000 440
}

@test "copies of many sizes that wait for their stream leave nothing of libzc's behind" {
    run -0 under_policy 'place = mapped' "$program" 100 staged
    echo "bytes: $output"
    ((output <= 262144))
}
