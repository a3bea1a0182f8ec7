#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks that the device or a limit has no room for: in `mapped` (spill = host), or in host memory
# behind the addresses of their place (spill = move), with what has no room there on the device.

load places.bash

setup() {
    placed_by spill
    spill=$'place = vmm\nspill = host\nchunk = 2M'
    move=${spill/host/move}
}

@test "a block that is larger than the device is in host memory, or in both" {
    export SIM_MEMORY_MIB=10
    run -0 timeout 30 "$program" larger
    [[ $output == 'allocated 2' ]]
    local spilled=4
    for keys in '' $'\ncommit = lazy'; do
        places_of "$spill$keys" larger
        run -0 spilled_blocks
        [[ $output == '12 0 mapped vmm: '* && $codes == 'allocated 0' ]]
        places_of "$move$keys" larger
        run -0 spilled_blocks
        [[ $codes == 'allocated 0' ]]
        [[ $output == "12 $spilled vmm vmm: more than "* ]]
        spilled=12 # Lazily it is in one memory.
    done
    places_of "${spill/vmm/device, vmm}" larger
    run -0 spilled_blocks
    [[ $output == '12 0 mapped device: out of memory; vmm: '* ]]
    places_of "${move/vmm/device, vmm}" larger
    run -0 spilled_blocks
    [[ $output == '12 4 vmm device: out of memory; vmm: more than it may have of the device' ]]
    scripts/zc report --json "$ZC_LOG" | python3 -c 'import json, sys
over_time = json.load(sys.stdin)["memory_over_time"]["places"]
assert {k: max(v) >> 20 for k, v in over_time.items()} == {"mapped": 4, "vmm": 8}, over_time'
    scripts/zc report --trace "$BATS_TEST_TMPDIR/trace.json" "$ZC_LOG" >/dev/null
    grep -q '"memory: mapped".*"bytes": *4194304' "$BATS_TEST_TMPDIR/trace.json"
    SIM_MEMORY_MIB=32 places_of "$move" larger
    run -0 spilled_blocks
    [[ $output == '12 0 vmm -' ]]
}

@test "memory that lazy blocks were promised is not given to others, however sizes are rounded" {
    local lazy=$spill$'\ncommit = lazy'
    export SIM_MEMORY_MIB=40
    for policy in "$lazy" $'[rule a]\nnth = odd\n'"$lazy"$'\n[rule b]\n'"$spill" \
        $'[rule a]\nnth = odd\n'"$lazy"$'\n[rule b]\n'"$move"; do
        places_of "$policy" many
        run -0 spilled_blocks
        [[ ${#lines[@]} == 12 && $output == *'vmm: more than the device has free'* ]]
    done
    placed_by requests
    places_of "$lazy" 3.1 5.1 3.1 3.1 5.1 3.1 3.1 5.1 3.1 3.1 3.1 3.1
}

@test "limits count each part of a block where it is" {
    placed_by requests
    places_of "$spill"$'\nbudget = 7M' 9 5 2
    run -0 spilled_blocks
    [[ $output == $'9 0 mapped vmm: over its budget\n5 0 vmm -\n2 0 vmm -' ]]
    places_of "$move"$'\nbudget = 7M' 9 5 2 3
    run -0 spilled_blocks
    [[ ${lines[0]} == '9 5 vmm vmm: more than it may have of the device' ]]
    [[ ${lines[1]} == '5 0 vmm -' && ${lines[2]} == '2 0 vmm -' ]]
    [[ ${lines[3]} == '3 3 vmm vmm: over its budget' ]]
    places_of "$move"$'\nbudget = 7M' 5 9 3 2
    run -0 spilled_blocks
    [[ ${lines[0]} == '5 0 vmm -' && ${lines[1]} == '9 9 vmm vmm: more than it may have'* ]]
    [[ ${lines[2]} == '3 3 vmm vmm: over its budget' && ${lines[3]} == '2 0 vmm -' ]]
    places_of "$move"$'\nbudget = 7M\ncommit = lazy' 9 5
    run -0 spilled_blocks
    [[ $output == $'9 9 vmm vmm: over its budget\n5 0 vmm -' ]]
    places_of "${move/vmm/vmm, mapped}"$'\nbudget = 7M' -f 9 9
    run -0 spilled_blocks
    [[ ${lines[0]} == '9 5 vmm vmm: more than it may have'* && ${lines[1]} == '9 5 vmm '* ]]
    for policy in "$spill" "$move"; do
        places_of $'[defaults]\nmax_device = 5M\nmax_pinned = 6M\n[rule all]\n'"$policy" 6 4 4
        run -0 spilled_blocks
        [[ ${lines[0]} == '6 '?' '*' vmm: '* && ${lines[1]} == '4 0 vmm -' ]]
        [[ ${lines[2]} == '4 0 device vmm: over max_'* ]]
        run -0 peaks
        [[ ${lines[*]} == *'mapped 0 6 '*'vmm 0 4'* ]]
    done
    places_of $'place = vmm, mapped\nspill = move\nbudget = 33M' 40 31 31
    run -0 spilled_blocks
    [[ ${lines[0]} == '40 14 vmm vmm: more than it may have'* && ${lines[1]} == '31 0 vmm -' ]]
    [[ ${lines[2]} == '31 0 mapped vmm: over its budget' ]]
    SIM_FAIL=cuMemCreate:2:2,cuMemCreate:2:4 \
        places_of "${move/vmm/vmm, mapped}"$'\nbudget = 2M' 4
    run -0 spilled_blocks
    [[ $output == '4 0 mapped vmm: cuMemCreate refuses' ]]
}

@test "where the driver refuses either part of a block, all of it is host memory" {
    placed_by requests
    for call in cuMemCreate:2:2 cuMemCreate:2:3 cuMemMap:1:2 cuMemMap:1:3 cuMemSetAccess:1:1 \
        cuMemSetAccess:1:2; do
        SIM_FAIL=$call places_of "$move"$'\nbudget = 6M' 9
        run -0 spilled_blocks
        [[ $output == '9 9 vmm vmm: more than it may have of the device' ]]
    done
    SIM_FAIL=cuMemAddressReserve:2:1 places_of "${move/vmm/vmm, mapped}"$'\nbudget = 6M' 9
    run -0 spilled_blocks
    [[ $output == '9 9 vmm vmm: more than it may have of the device' ]]
    run -0 peaks
    [[ ${lines[*]} == 'mapped 0 9'* ]]
}
