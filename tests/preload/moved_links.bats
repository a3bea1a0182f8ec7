#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks move over the links of two devices as over one: every byte is what it is, and half of them
# go over the link of the other device.

load places.bash

setup() {
    placed_by moved
    folder=${program%/*}
    export SIM_DEVICES=2 BLOCK_MIB=32
}

# scene LINKS SPILL BUDGET PROGRAM ARGUMENT...: with blocks of 32 MiB
scene() {
    run_moving "[defaults]
links = $1
[rule all]
size = ..64M
place = vmm
spill = $2
chunk = 2M
budget = $3" 120 "$folder/$4" "${@:5}"
}

# MiB that blocks moved, by the log.
moved_mib() {
    jq -s 'map(select(.type == "move").bytes) | add / 1048576 | floor' "$ZC_LOG"
}

@test "half of what moves goes over the other device's link, either way" {
    local mib
    for mib in 32 64; do # In one piece, and in two.
        BLOCK_MIB=$mib scene 2 move $((2 * mib))M moved phases
        [[ $output == $'made: DDHH\nfirst: DDHH\nsecond: HHDD\nfirst again: DDHH\n'* ]]
        [[ $output == *$'\n'"over the other: $((mib * 5)) MiB"* && -z $stderr ]]
        [[ $(moved_mib) == $((mib * 10)) ]]
        run -0 moved_by_kind "$ZC_LOG"
        [[ $output == *"PtoP Device Device $((mib * 5 / 4)) $((mib * 5 << 20))"* ]]
        [[ $output == *"HtoD Pinned Device $((mib * 5 / 32)) $((mib * 5 << 20))"* ]]
    done
    scene own move 64M moved phases
    [[ $output == *$'\nover the other: 0 MiB\nleaks 0' ]]
}

@test "half of what is fetched does, and what leaves again is not copied" {
    scene 2 fetch 128M moved_fetch cycle
    [[ $output == $'made: DDDDHH\nwrong: 0\nover the other: '* && -z $stderr ]]
    local over=${output#*other: }
    run -0 moved_by_kind "$ZC_LOG"
    [[ $output =~ 'HtoD Pinned Device '[0-9]+' '([0-9]+) ]]
    local in=${BASH_REMATCH[1]}
    [[ $output =~ 'DtoH Device Pinned '[0-9]+' '([0-9]+) ]]
    (( ${over%% *} == (in + BASH_REMATCH[1]) / 2 >> 20 ))
}

@test "copies, graphs, captures, forks and frees meanwhile see every byte" {
    local name
    for name in copies gone; do
        scene 2 move 64M moved "$name"
        [[ $output == *'over the other: '[1-9]* && -z $stderr ]]
    done
    for name in hidden written graphs freed forked threads; do
        scene 2 fetch 128M moved_fetch "$name"
        [[ $output == *'wrong: 0'*'over the other: '[1-9]* ]]
    done
}

@test "threads' copies over the same links and moves keep every byte" {
    for delay in 0 300; do
        SIM_DELAY_US=$delay scene 2 move 64M moved_links beside_copies
        (( $(moved_mib) >= 64 ))
    done
}

@test "an idle device's link is taken once copies have paid for it, a busy one's never" {
    scene idle move 64M moved_links idle
    [[ $output == $'unpaid: the own link\npaid: both links\nbusy: the own link\nidle: both links' ]]
}

# One call in turn; the own link makes up for what the other one does not carry.
@test "whatever call about the other device fails, blocks keep their bytes, and it is said" {
    local call nth hurt
    for call in cuCtxCreate_v2 cuMemAlloc_v2 cuStreamCreate cuEventCreate cuEventRecord \
        cuEventQuery cuStreamWaitEvent cuMemcpyDtoDAsync_v2 cuMemSetAccess \
        cuCtxPushCurrent_v2 cuDeviceCanAccessPeer cuDeviceGetP2PAttribute cuDeviceGetCount; do
        hurt=0
        for nth in 1 4; do
            scene 2 move 64M moved_links call_fails "$call" "$nth"
            [[ -z $stderr || $stderr == 'libzc: '* ]]
            [[ -z $stderr ]] || hurt=1
        done
        [[ $hurt == 1 ]] || { echo "no effect: $call"; return 1; }
    done
}

@test "where no other device can help, moves take the own link, and it is said" {
    SIM_PEERS=none scene 2 move 64M moved phases
    [[ $stderr == *'its own link: it reaches no peer' && $output == *'other: 0 MiB'* ]]
    SIM_DEVICES=1 scene idle move 64M moved phases
    [[ $stderr == *'the process sees no other GPU' ]]
}
