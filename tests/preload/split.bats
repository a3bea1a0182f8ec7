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

# Peaks of 12 MiB mapped and $1 MiB vmm in the report, and $2 bytes mapped in the trace.
reports_show() {
    scripts/zc report --json "$ZC_LOG" | python3 -c 'import json, sys
over_time = json.load(sys.stdin)["memory_over_time"]["places"]
peaks = {k: max(v) >> 20 for k, v in over_time.items()}
assert peaks == {"mapped": 12, "vmm": int(sys.argv[1])}, over_time' "$1"
    scripts/zc report --trace "$BATS_TEST_TMPDIR/trace.json" "$ZC_LOG" >/dev/null
    grep -q '"memory: mapped".*"bytes": *'"$2" "$BATS_TEST_TMPDIR/trace.json"
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

# Prints "block to MiB" of each move.
moves() {
    python3 -c 'import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] == "move": print(line["block"], line["to"], line["bytes"] >> 20)' "$ZC_LOG"
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
    run -0 moves
    [[ ${lines[0]} == '1 host 4' ]]
    run -0 peaks
    [[ ${lines[*]} == 'mapped 0 12 vmm 0 '* ]]
    reports_show 5 12582912
}

@test "it gives way as far as others need, and the rest of it stays on the device" {
    local how
    for how in "$move"$'\nbudget = 6M' $'[defaults]\nmax_device = 6M\n[rule p]\n'"$move"; do
        places_of "$how" by_and_by
        run -0 timeout 30 "$program" by_and_by
        diff <(echo "$output") <(echo "$codes")
        run -0 spilled_blocks
        [[ $output == $'12 8 vmm vmm: more than it may have of the device\n3 0 vmm -\n3 0 vmm -' ]]
        run -0 moves
        [[ $output == $'1 host 2\n1 host 2' ]]
        run -0 peaks
        [[ ${lines[*]} == 'mapped 0 12 vmm 0 6' ]]
    done
    reports_show 6 10485760
}

@test "half of it at a time gives way to what the driver has no memory for" {
    run -0 timeout 30 "$program" gives_way
    local bare=$output
    SIM_MEMORY_MIB=10 places_of $'[rule p]\nsize = 12M..\n'"$move" gives_way
    diff <(echo "$bare") <(echo "$codes")
    run -0 spilled_blocks
    [[ ${lines[0]} == '12 4 vmm vmm: more than it may have of the device' ]]
    [[ ${lines[1]} == '5 0 device -' ]]
    run -0 moves
    [[ $output == $'1 host 4\n3 host 4' ]]
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
    [[ ${lines[1]} == '12 12 vmm vmm: over its budget' && ${lines[0]} == '3 0 vmm -' ]]
    # On the second device it is the first one.
    [[ ${lines[2]} == '12 8 vmm vmm: more than it may have of the device' ]]
}

@test "a request does not wait for a kernel that waits for the program" {
    same_as_bare beside
    [[ $stderr != *'wait no more'* ]]
    [[ ${lines[1]} == '5 5 vmm vmm: over its budget' && ${lines[-1]} == '5 0 vmm -' ]]
    [[ $(grep -c '"type":"move"' "$ZC_LOG") == 1 ]]
}

# Memory that the driver does not unmap stays.
@test "where any step of that fails, each block has the content that it had" {
    local call nth bare scenario
    for scenario in gives_way by_and_by; do
        run -0 timeout 30 "$program" $scenario
        bare=$output
        for call in cuMemCreate:2 cuMemMap:1 cuMemSetAccess:1 cuMemAddressReserve:2 cuMemUnmap:1 \
            cuMemcpyDtoDAsync_v2:1 cuStreamCreate:2 cuEventCreate:2 cuEventRecord:1; do
            for nth in 1 2 3 4 5 6 7 8 9; do
                # Those are of the program's frees.
                [[ $scenario$call$nth =~ (way.*Unmap:1[3-9]|Unmap:1[5-9])$ ]] && continue
                echo "$scenario $call:$nth"
                rm -f "$SIM_LEAKS"
                SIM_FAIL=$call:$nth run --separate-stderr under_policy \
                    "$move"$'\nbudget = 6M' timeout 30 "$program" $scenario
                if (( status )); then # A copy may not reach what the driver does not open.
                    [[ $call == cuMemSetAccess:1 && $stderr == *'do not trust the results'* ]]
                    continue
                fi
                diff <(echo "$bare") <(echo "$output")
                [[ $call == cuMemUnmap* || ! -s $SIM_LEAKS ]]
            done
        done
    done
}
