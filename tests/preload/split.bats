#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks of which the first parts are device memory and the others host memory (spill = host): what
# calls do across the border is what they do bare, and each part is counted where it is.

load places.bash

setup() {
    placed_by split
    spill=$'place = vmm\nspill = host\nchunk = 2M'
}

# Prints "size spilled why" of each block, in MiB.
split_blocks() {
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    line = json.loads(line)
    if line["type"] == "alloc":
        print(line["size_bytes"] >> 20, line.get("spilled_bytes", 0) >> 20, line["place"],
              line["why"] or "-")' "$ZC_LOG"
}

# Prints "place bytes peak" of the summary, in MiB.
peaks() {
    python3 -c 'import json, sys
for place in json.loads(list(open(sys.argv[1]))[-1])["places"]:
    print(place["place"], place["bytes"] >> 20, place["peak_bytes"] >> 20)' "$ZC_LOG"
}

@test "calls of every shape across the border leave what they leave bare" {
    run -0 timeout 60 "$program" shapes
    local bare=$output keys
    for keys in '' $'\ncommit = lazy'; do
        places_of "$spill"$'\nbudget = 8M'"$keys" shapes
        diff <(echo "$bare") <(echo "$codes")
        [[ $stderr != *refused* && $stderr != *'by rule'* ]]
        run -0 split_blocks
        [[ $output == $'12 4 vmm vmm: over its budget\n12 12 vmm vmm: over its budget'* ]]
    done
    spill+=$'\nbudget = 4M'
    places_of $'[rule p]\nnth = 1\n'"$spill"$'\n[rule q]\n'"$spill" shapes
    diff <(echo "$bare") <(echo "$codes")
    run -0 split_blocks
    [[ $output == $'12 8 vmm vmm: over its budget\n12 8 vmm vmm: over its budget'* ]]
    run -0 peaks
    [[ $output == $'mapped 0 16\nvmm 0 8\npinned 0 12' ]]
}

# What the program asked to move, by direction.
asked_bytes() {
    python3 -c 'import json, sys
for flow in json.loads(list(open(sys.argv[1]))[-1])["flows"]:
    print(*(flow[key] for key in ("dir", "src_kind", "dst_kind", "asked_bytes")))' \
        "$BATS_TEST_TMPDIR/referee.jsonl"
}

@test "each part of a call across a border is in the log, as the driver counts it" {
    local policy bare
    export ZC_LOG_LEVEL=summary
    policy=$'[rule p]\nnth = 1\n'"$spill"$'\nbudget = 4M\n[rule q]\n'"$spill"
    referee 'place = device' "$program" shapes
    bare=$(asked_bytes)
    referee "$policy" "$program" shapes
    diff <(echo "$bare") <(asked_bytes)
}

# The driver crashes there. A range that is wrong in any memory has no message.
refused_across() {
    run -0 --separate-stderr under_policy "$1" timeout 30 "$program" "$2"
    [[ ${#lines[@]} == 9 ]]
    for line in "${lines[@]}"; do
        [[ $line == *'-> 1' ]]
    done
    for call in Graph{,Exec}{Memcpy,Memset,}NodeSetParams Memcpy2DUnaligned; do
        said="libzc: cu$call"'[_v2]* returned 1 for block [0-9]+ \('"$3[^"$'\n'"]*$4 by rule "
        [[ $stderr =~ $said ]]
    done
    [[ $stderr != *cuMemcpyBatchAsync* && $stderr != *cuMemcpy2D_v2* ]]
}

@test "what leaves nothing to divide across the border is refused in a message" {
    refused_across "$spill"$'\nbudget = 4M' undivided '12 MiB at ' "'vmm'"
}

@test "a block that is larger than the device has host memory behind its first parts" {
    export SIM_MEMORY_MIB=10
    run -0 timeout 30 "$program" larger
    [[ $output == 'allocated 2' ]]
    for keys in '' $'\ncommit = lazy'; do
        places_of "$spill$keys" larger
        run -0 split_blocks
        [[ $output == '12 4 vmm vmm: more than the device has free' ]]
        [[ $codes == $'allocated 0\nfilled '* ]]
    done
    places_of "${spill/vmm/device, vmm}" larger
    run -0 split_blocks
    [[ $output == '12 4 vmm device: out of memory; vmm: more than the device has free' ]]
    scripts/zc report --json "$ZC_LOG" | python3 -c 'import json, sys
over_time = json.load(sys.stdin)["memory_over_time"]["places"]
assert {k: max(v) >> 20 for k, v in over_time.items()} == {"mapped": 4, "vmm": 8}, over_time'
    scripts/zc report --trace "$BATS_TEST_TMPDIR/trace.json" "$ZC_LOG" >/dev/null
    grep -q '"memory: mapped".*"bytes": *4194304' "$BATS_TEST_TMPDIR/trace.json"
    SIM_MEMORY_MIB=32 places_of "$spill" larger
    run -0 split_blocks
    [[ $output == '12 0 vmm -' ]]
}

@test "memory that lazy blocks were promised is not given to others, however sizes are rounded" {
    local lazy=$spill$'\ncommit = lazy'
    export SIM_MEMORY_MIB=40
    for policy in "$lazy" $'[rule a]\nnth = odd\n'"$lazy"$'\n[rule b]\n'"$spill"; do
        places_of "$policy" many
        run -0 split_blocks
        [[ ${#lines[@]} == 12 && $output == *'vmm: more than the device has free'* ]]
    done
    placed_by requests
    places_of "$lazy" 3.1 5.1 3.1 3.1 5.1 3.1 3.1 5.1 3.1 3.1 3.1 3.1
}

@test "parts are whole, and limits count each where it is" {
    placed_by requests
    places_of "$spill"$'\nbudget = 7M' 9 3 1
    run -0 split_blocks
    [[ $output == $'9 3 vmm vmm: over its budget\n3 3 vmm vmm: over its budget\n1 0 vmm -' ]]
    places_of "${spill/vmm/vmm, mapped}"$'\nbudget = 7M' -f 9 9
    run -0 split_blocks
    [[ $output == $'9 3 vmm vmm: over its budget\n9 3 vmm vmm: over its budget' ]]
    places_of $'[defaults]\nmax_device = 5M\nmax_pinned = 6M\n[rule all]\n'"$spill" 9 4
    run -0 split_blocks
    [[ ${lines[0]} == '9 5 vmm vmm: over max_device' ]]
    [[ ${lines[1]} == '4 0 device vmm: over max_pinned' ]]
    run -0 peaks
    [[ ${lines[*]} == *'mapped 0 5 '*'vmm 0 4'* ]]
    places_of $'place = vmm, mapped\nspill = host\nbudget = 33M' 40 31
    run -0 split_blocks
    [[ $output == $'40 8 vmm vmm: over its budget\n31 0 mapped vmm: over its budget' ]]
    SIM_FAIL=cuMemCreate:2:3 places_of "${spill/vmm/vmm, mapped}"$'\nbudget = 2M' 4
    run -0 split_blocks
    [[ $output == '4 0 mapped vmm: the driver refuses host memory for its last part' ]]
}

@test "a block that would move, but never can, is split" {
    placed_by requests
    local move=${spill/host/move}
    places_of $'[defaults]\nmax_device = 11M\nmax_pinned = 8M\n[rule all]\n'"$move" 12
    run -0 split_blocks
    [[ $output == '12 2 vmm vmm: over max_device' ]]
    places_of "$move"$'\nbudget = 11M\ncommit = lazy' 8 8
    run -0 split_blocks
    [[ $output == $'8 0 vmm -\n8 6 vmm vmm: over its budget' ]]
    places_of "$move"$'\nbudget = 11M' 8 8
    run -0 split_blocks
    [[ $output == $'8 0 vmm -\n8 8 vmm vmm: over its budget' ]]
}

# Runs a program that takes all memory that it is told of; `told` is what that is, in MiB, and what
# is in use then: sized DEFAULTS RULE
sized() {
    places_of $'[defaults]\nmax_pinned = 40M\n'"$1"$'\n[rule all]\n'"$2" sized
    told=$(sed -nE 's/^at first: ([0-9]+) MiB free, 0 in use$/\1/p
        s/^with a block of that: .* free, ([0-9]+) in use$/\1/p' <<<"$codes")
    [[ ${codes##*without it} == "$(sed -n 's/^at first//p' <<<"$codes")" ]]
    run -0 split_blocks
}

@test "a program that sizes its block by cudaMemGetInfo gets one where the policy has room" {
    local policy='report_free = policy'
    export SIM_MEMORY_MIB=64
    sized '' "$spill"
    [[ $told == $'64\n64' && $output == '64 0 vmm -' ]]
    sized "$policy" "$spill"
    [[ $told == $'102\n102' && $output == '102 40 vmm vmm: more than the device has free' ]]
    sized "$policy" "$spill"$'\nbudget = 8M'
    [[ $told == $'48\n48' && $output == '48 40 vmm vmm: over its budget' ]]
    sized "$policy" "${spill/host/move}"$'\nbudget = 8M'
    [[ $told == $'48\n48' && $output == '48 40 vmm vmm: over its budget' ]]
    sized "$policy" "${spill/host/move}"$'\nbudget = 50M'
    [[ $told == $'90\n90' && $output == '90 40 vmm vmm: over its budget' ]]
    sized "$policy" "${spill/host/move}"$'\nbudget = 8M\ncommit = lazy'
    [[ $told == $'48\n48' && $output == '48 40 vmm vmm: over its budget' ]]
    sized "$policy"$'\nmax_device = 12M' $'place = device\nnth = 1'
    [[ $told == $'12\n12' && $output == '12 0 device -' ]]
    # The rule is not for a block of that size.
    sized "$policy" $'place = mapped\nsize = ..40M'
    [[ $told == $'64\n64' && $output == '64 0 device -' ]]
}
