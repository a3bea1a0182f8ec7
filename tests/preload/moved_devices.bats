#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks of several devices that move (spill = move, fetch): each device has its own room, order and
# budget, and every byte is what it is bare, whichever device reaches it.

load places.bash

setup() {
    placed_by moved_devices
    export SIM_DEVICES=2
    MOVE=$'place = vmm\nspill = move\nchunk = 2M\nbudget = '
}

# scene POLICY NAME: runs a scene, whose results are those without libzc.
scene() {
    run_moving "$1" 60 "$program" "$2"
    [[ $output == *'wrong 0, leaks 0' && $stderr != *'by rule'* ]]
}

# Prints for each device what moved there and to the host, and the most that it had, in MiB.
moved_on() {
    python3 -c 'import collections, json, sys
device, rows = {}, collections.defaultdict(collections.Counter)
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] == "alloc":
        device[line["block"]] = line["device"], line["size_bytes"] - line.get("spilled_bytes", 0)
        row, change = rows[line["device"]], device[line["block"]][1]
    elif line["type"] == "move":
        row = rows[device[line["block"]][0]]
        row[line["to"]] += line["bytes"] >> 20
        change = line["bytes"] if line["to"] == "device" else -line["bytes"]
    else:
        continue
    row["now"] += change
    row["most"] = max(row["most"], row["now"])
for at in sorted(rows):
    print(at, *(rows[at][key] for key in ("device", "host")), rows[at]["most"] >> 20)' "$ZC_LOG"
}

@test "blocks of each device come and leave within that device's budget, over its link" {
    local limit
    for limit in "${MOVE}8M" $'[defaults]\nmax_device = 8M\n[rule all]\n'"${MOVE%budget*}"; do
        scene "$limit" phases
        [[ ${lines[0]} == 'made: 0 DDHH 1 DDHH' && ${lines[1]} == 'second, first: 0 HHDD 1 DDHH' ]]
        [[ ${lines[2]} == 'first, second: 0 DDHH 1 HHDD' ]]
        [[ ${lines[3]} == 'over the link of 0: 40 MiB' ]]
        [[ ${lines[4]} == 'over the link of 1: 24 MiB' ]]
        run -0 moved_on
        [[ $output == $'0 20 20 8\n1 12 12 8' ]]
        referee "$limit" "$program" phases
    done
}

@test "a budget in percent is of what that device has free" {
    # Device 1 has half of device 0's.
    SIM_MEMORY_MIB=40 SIM_TAKEN_MIB=20 scene "${MOVE}40 %" phases
    [[ ${lines[0]} == 'made: 0 DDDD 1 DDHH' && ${lines[2]} == 'first, second: 0 DDDD 1 HHDD' ]]
    run -0 moved_on
    [[ $output == $'0 0 0 16\n1 8 8 8' ]]
}

@test "threads and processes that have a device each find every byte" {
    local way
    for way in move fetch; do
        scene "${MOVE/move/$way}8M" threads
        run -0 moved_on
        [[ $output == '0 '[1-9]*' 8'$'\n1 '[1-9]*' 8' ]]
        run -0 under_policy "${MOVE/move/$way}8M" timeout 60 "$program" processes
    done
}

@test "blocks move while another device is busy" {
    scene "${MOVE}8M" busy
    [[ ${lines[0]} == 'one is busy: 0 HHDD 1 DDHH' ]]
}

@test "blocks that are fetched come to the device whose kernels read them, also once copied" {
    scene "${MOVE/move/fetch}8M" fetched
    [[ ${lines[0]} == 'looks over the link: 0, 0' ]]
    run -0 moved_on
    [[ $output == '0 '[1-9]*' 8'$'\n1 '[1-9]*' 8' ]]
}

@test "a block goes on moving once another device has copied it, whichever call that was" {
    local i
    scene "${MOVE}8M" copied
    for ((i = 0; i < 10; i += 2)); do
        [[ ${lines[i]} == 'cuMemcpy'*': 0 HHDD 1 HHDD' ]]
        [[ ${lines[i + 1]} == 'back: 0 DDHH 1 DDHH' ]]
    done
    run -0 moved_on
    [[ $output == '0 '[1-9]*' 8'$'\n1 '[1-9]*' 8' ]]
    referee "${MOVE}8M" "$program" copied
}

@test "a block stays until copies by another device have ended, and moves whatever that does then" {
    scene "${MOVE}8M" copied_late
    [[ ${lines[0]} == 'copies wait: 0 DDHH 1 DDHH' && ${lines[1]} == 'copied: 0 HHDD 1 DDHH' ]]
    [[ ${lines[2]} == 'busy again: 0 DDHH 1 DDHH' ]]
}

@test "what another device reaches, by kernels or copies, has every byte" {
    local way scene
    scene "${MOVE}8M" peers
    [[ ${lines[0]} == 'apart: 0 HHDD 1 HHDD' ]]
    for way in move fetch; do
        for scene in peers far_copies copied_meanwhile; do
            scene "${MOVE/move/$way}8M" $scene
        done
    done
}

@test "a device whose context goes begins anew, and the other one goes on" {
    scene "${MOVE}8M" gone
    [[ ${lines[0]} == 'before: 0 HHDD 1 HHDD' && ${lines[1]} == 'anew: 0 DDHH 1 DDHH' ]]
    [[ ${lines[2]} == 'after: 0 HHDD 1 DDHH' ]]
}

@test "another context of a device ends moves there alone, until the first one goes" {
    scene "${MOVE}8M" beside
    [[ ${lines[0]} == 'beside: 0 DDHH 1 HHDD' && ${lines[1]} == 'first gone: 0 HHDD 1 HHDD' ]]
}
