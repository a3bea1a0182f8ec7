#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Calls that CUDA 13.1 to 13.5 brought mean the same in all memory, and are accounted.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/newer

setup() {
    pairs_setup
}

# Bare, in every place, under the presets that place without being told, and with pairs.
everywhere() {
    in_every_place "$PROGRAM" "$1"
    for policy in 'place = vmm
commit = lazy' 'place = vmm
grow = yes' $'[defaults]\nmax_device = 4M\n[rule all]\nplace = vmm\nspill = move' \
        $'[rule host]\napi = malloc\nplace = pinned'; do
        echo "$policy"
        run -0 --separate-stderr under_policy "$policy" timeout 60 "$PROGRAM" "$1"
    done
    both "$1"
}

@test "copies with attributes reach device blocks of all kinds, and their host block" {
    everywhere to_device
}

@test "what a copy with attributes brings to pageable memory is there when it returns" {
    everywhere to_pageable
}

@test "a source is read when the call's attributes say" {
    everywhere source
}

@test "boxes are copied with attributes, also from and to arrays" {
    everywhere boxes
}

@test "batches over a fabric find all memory of rules prepared, and a message names them" {
    everywhere fabric
    run -0 --separate-stderr under_policy 'place = vmm
commit = lazy' "$PROGRAM" fabric
    [[ $stderr == *'does not know cuFabricCpyBatchAsync, so it prepares all memory'* ]]
    [[ $stderr != *value* ]]
}

@test "a host function with a mode may wait for the program" {
    everywhere host_function
}

@test "locations are told of the memory that was asked for" {
    for SIM_DRIVER in 13000 13050; do
        export SIM_DRIVER
        everywhere locations
        [[ $output == *'UNIT, 0, at) -> 1'*'UNIT, 0, at) -> 0'* ]]
    done
}

@test "blocks are not lent to objects of several devices, and the rule is named" {
    run -0 --separate-stderr under_policy 'place = vmm' "$PROGRAM" lends
    [[ $output == *' -> 1'*' -> 1' ]]
    for call in cuMulticastBindAddr cuLogicalEndpointBindAddr; do
        [[ $stderr == *"$call returned 1 for block 1 (6 MiB"*"'vmm' by rule all"* ]]
    done
}

@test "blocks are decompressed into, whose memory is made for that" {
    export SIM_ATTR=136=1
    run -0 timeout 60 "$PROGRAM" unpack
    for policy in 'place = device' 'place = vmm' $'place = vmm\ncommit = lazy' \
        $'place = vmm\ngrow = yes'; do
        echo "$policy"
        run -0 under_policy "$policy" timeout 60 "$PROGRAM" unpack
    done
    both unpack
    run -1 --separate-stderr under_policy 'place = mapped' "$PROGRAM" unpack
    [[ $stderr == *"cuMemBatchDecompressAsync returned 1 for block"*"'mapped' by rule all"* ]]
}

@test "copies whose attributes there are not are refused as in any memory" {
    everywhere malformed
    [[ $output == *'-> 1'* && $output != *'-> 0'* && $stderr != *returned* ]]
}
