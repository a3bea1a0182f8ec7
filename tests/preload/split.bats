#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks larger than what their rule may have of the device (spill = move, fetch): device memory in
# front, and behind it host memory. What calls do across the border is what they do bare, and each
# part is counted where it is.

load places.bash

setup() {
    placed_by split
    move=$'place = vmm\nspill = move\nchunk = 2M'
    apart=$'[rule p]\nnth = 1\n'"$move"$'\nbudget = 6M\n[rule q]\n'"$move"$'\nbudget = 6M'
}

@test "calls of every shape across the border leave what they leave bare" {
    run -0 timeout 60 "$program" shapes
    local bare=$output keys
    places_of "$move"$'\nbudget = 6M' shapes
    diff <(echo "$bare") <(echo "$codes")
    [[ $stderr != *refused* && $stderr != *'by rule'* ]]
    run -0 spilled_blocks
    [[ $output == $'12 8 vmm vmm: more than it may have of the device\n12 12 vmm vmm: more'* ]]
    for keys in "$apart" "${apart//move/fetch}"; do
        places_of "$keys" shapes
        diff <(echo "$bare") <(echo "$codes")
        run -0 spilled_blocks
        [[ $output == $'12 8 vmm vmm: more than it may have of the device\n12 8 vmm vmm: more'* ]]
        run -0 peaks
        [[ $output == $'mapped 0 16\nvmm 0 8\npinned 0 12' ]]
    done
}

# Bytes that the program asked to move, by direction.
asked_bytes() {
    python3 -c 'import json, sys
for flow in json.loads(list(open(sys.argv[1]))[-1])["flows"]:
    print(*(flow[key] for key in ("dir", "src_kind", "dst_kind", "asked_bytes")))' \
        "$BATS_TEST_TMPDIR/referee.jsonl"
}

@test "each part of a call across a border is in the log, as the driver counts it" {
    local bare
    export ZC_LOG_LEVEL=summary
    referee 'place = device' "$program" shapes
    bare=$(asked_bytes)
    referee "$apart" "$program" shapes
    diff <(echo "$bare") <(asked_bytes)
}

@test "what leaves nothing to divide across the border is refused in a message" {
    run -0 --separate-stderr under_policy "$move"$'\nbudget = 6M' timeout 30 "$program" undivided
    for line in "${lines[@]}"; do
        [[ $line == *'-> 1' ]]
    done
    for call in Graph{,Exec}{Memcpy,Memset,}NodeSetParams Memcpy2DUnaligned; do
        said="libzc: cu$call"'[_v2]* returned 1 for block [0-9]+ \(12 MiB at '
        said+="[^"$'\n'"]*'vmm' by rule "
        [[ $stderr =~ $said ]]
    done
}

# Runs a scenario of the program, which must print what it prints bare: same_as_bare SCENARIO
same_as_bare() {
    run -0 timeout 30 "$program" "$1"
    local bare=$output
    places_of "$move"$'\nbudget = 6M' "$1"
    diff <(echo "$bare") <(echo "$codes")
    run -0 spilled_blocks
}

@test "a block in both memories gives way to others, and goes whole to host memory" {
    local once=$'12 8 vmm vmm: more than it may have of the device\n5 0 vmm -'
    same_as_bare gives_way
    [[ $output == "$once"$'\n'"$once" ]]
    grep -q '"type":"move",.*"block":1,"to":"host","bytes":12582912,' "$ZC_LOG"
    run -0 peaks
    [[ ${lines[*]} == 'mapped 0 12 vmm 0 '* ]]
    scripts/zc report --json "$ZC_LOG" | python3 -c 'import json, sys
over_time = json.load(sys.stdin)["memory_over_time"]["places"]
assert {k: max(v) >> 20 for k, v in over_time.items()} == {"mapped": 12, "vmm": 5}, over_time'
    scripts/zc report --trace "$BATS_TEST_TMPDIR/trace.json" "$ZC_LOG" >/dev/null
    grep -q '"memory: mapped".*"bytes": *12582912' "$BATS_TEST_TMPDIR/trace.json"
}

@test "while streams are captured, and once a graph copies it, it stays where it is" {
    same_as_bare captured
    [[ ${lines[0]} == '12 8 vmm vmm: more than it may have of the device' ]]
    [[ ${lines[1]} == '5 0 device a stream is being captured' && ${lines[2]} == '5 5 vmm '* ]]
    run ! grep '"type":"move"' "$ZC_LOG"
}

@test "it does not give way where that helps nobody" {
    local own=$'[rule own]\nsize = ..1M\nplace = managed, mapped\nbudget = 2M\n[rule p]\n'
    places_of "$own$move"$'\nbudget = 6M' others
    run ! grep '"type":"move"' "$ZC_LOG"
    [[ $(grep -c ^mapped: <<<"$places") == 2 ]]
    places_of "$move"$'\nbudget = 6M' in_vain
    run ! grep '"type":"move"' "$ZC_LOG"
    run -0 spilled_blocks
    [[ ${lines[1]} == '12 10 vmm '* && ${lines[2]} == '5 5 vmm vmm: over its budget' ]]
}

@test "it does not try to where host memory may not have it" {
    places_of $'[defaults]\nmax_pinned = 9M\n[rule p]\n'"${move/vmm/vmm, device}"$'\nbudget = 6M' \
        gives_way
    run ! grep '"type":"move"' "$ZC_LOG"
    [[ $stderr != *'stays on the device'* ]]
}

@test "a block of a context whose blocks do not move is whole in host memory" {
    SIM_DEVICES=2 same_as_bare elsewhere
    [[ $output == $'3 0 vmm -\n12 12 vmm vmm: over its budget' ]]
}

@test "a request does not wait for a kernel that waits for the program" {
    same_as_bare beside
    [[ $stderr != *'wait no more'* ]]
    [[ ${lines[1]} == '5 5 vmm vmm: over its budget' && ${lines[-1]} == '5 0 vmm -' ]]
    [[ $(grep -c '"type":"move"' "$ZC_LOG") == 1 ]]
}

# Memory that the driver does not unmap stays.
@test "where any step of that fails, each block has the content that it had" {
    local call nth bare
    run -0 timeout 30 "$program" gives_way
    bare=$output
    for call in cuMemCreate:2 cuMemMap:1 cuMemSetAccess:1 cuMemAddressReserve:2 cuMemUnmap:1 \
        cuMemcpyDtoDAsync_v2:1 cuStreamCreate:2 cuEventCreate:2 cuEventRecord:1; do
        for nth in 1 2 3 4 5 6; do
            [[ $call$nth != cuMemUnmap:1[3-6] ]] || continue # Those are of the program's frees.
            echo "$call:$nth"
            SIM_FAIL=$call:$nth run -0 --separate-stderr under_policy "$move"$'\nbudget = 6M' \
                timeout 30 "$program" gives_way
            diff <(echo "$bare") <(echo "$output")
            [[ $call == cuMemUnmap* || ! -s $SIM_LEAKS ]]
            rm "$SIM_LEAKS"
        done
    done
}
