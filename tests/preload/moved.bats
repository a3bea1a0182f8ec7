#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks that move between the device and host memory as kernels use them (spill = move): every
# byte is what it is bare, each is counted where it is, and nothing moves that may be in use.

load places.bash

setup() {
    placed_by moved
    MOVE=$'place = vmm\nspill = move\nchunk = 2M\nbudget = '
}

# Prints "block to" of each move; moves_of BYTES those of blocks of one size.
moves_of() {
    jq -r --argjson size "$1" \
        'select(.type == "move" and .bytes == $size) | "\(.block) \(.to)"' "$ZC_LOG"
}
moves() {
    python3 -c 'import json, sys
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] == "move":
        assert line["bytes"] == 4 << 20 and line["blocked_ns"] > 0 and line["why"]
        print(line["block"], line["to"])' "$ZC_LOG"
}

# scene BUDGET NAME: runs a scene, whose results are those without libzc.
scene() {
    run_moving "$MOVE$1" 60 "$program" "$2"
    [[ $output == *'leaks 0' && $stderr != *'by rule'* ]]
}

# The same of the program in which others begin to use the blocks.
beside() {
    program=${program}_beside scene "$@"
}

@test "blocks come to the device when kernels need them, and others leave" {
    scene 8M phases
    [[ $output == $'made: DDHH\nfirst: DDHH\nsecond: HHDD\nfirst again: DDHH\nleaks 0' ]]
    run -0 moves
    # Two for each phase, and one changes places once more at the beginning of the last one, where
    # the order of the first one is not yet known to come again.
    [[ ${#lines[@]} == 10 ]]
    run -0 moved_by_kind "$ZC_LOG"
    [[ $output == *"DtoH Device Pinned 10 $((20 << 20))"* ]] # two pieces a block
    [[ $output == *"HtoD Pinned Device 10 $((20 << 20))"* ]]
    run -0 scripts/zc report "$ZC_LOG"
    [[ $output =~ ' 5  moved to the device: a kernel reads it more than once' ]]
    [[ $output =~ ' 5  moved to host memory: others are used before it' ]]
    python3 -c 'import json, sys
places = {p["place"]: p for p in json.loads(list(open(sys.argv[1]))[-1])["places"]}
assert places["vmm"]["peak_bytes"] <= 8 << 20, places
assert places["vmm"]["bytes"] == places["mapped"]["bytes"] == 0, places' "$ZC_LOG"
}

@test "the summary tells how much moved, and how long launches waited" {
    ZC_SUMMARY=1 scene 8M phases
    [[ $stderr == *'moves: 20 MiB to the device (0 B beside kernels), 20 MiB to the host; '* ]]
    python3 -c 'import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
moved, sums = [line for line in lines if line["type"] == "move"], lines[-1]["moves"]
assert sums["to_device_bytes"] == sum(m["bytes"] for m in moved if m["to"] == "device"), sums
assert sums["to_host_bytes"] == sum(m["bytes"] for m in moved if m["to"] == "host"), sums
for field in ("blocked_ns", "waited_ns"): # each line rounds
    assert abs(sums[field] - sum(m[field] for m in moved)) <= len(moved), (field, sums)' "$ZC_LOG"
}

@test "the summary of a program for which the device has no memory names the preset" {
    SIM_MEMORY_MIB=12 ZC_SUMMARY=1 run --separate-stderr under_policy '' "$program" phases
    [[ $status != 0 && $stderr == *'no memory for 1 request of up to 4 MiB, and lacked 4 MiB: '* ]]
    [[ $stderr == *'zc run -p @larger'* ]]
    [[ $(tail -n 1 "$ZC_LOG" | jq -c .unmet) == \
        '{"requests":1,"largest_bytes":4194304,"lacking_bytes":4194304}' ]]
    # So is a program told whose first request fails, also under a rule that keeps to the device;
    # not one whose rule gives it host memory.
    rm -f "$ZC_LOG"
    SIM_MEMORY_MIB=2 ZC_SUMMARY=1 run --separate-stderr under_policy $'[rule all]\nplace = vmm' \
        "$program" phases
    [[ $status != 0 && $stderr == *@larger-than-gpu* ]]
    rm -f "$ZC_LOG"
    SIM_MEMORY_MIB=2 ZC_SUMMARY=1 run --separate-stderr under_policy \
        $'[defaults]\nmax_pinned = 1M\n[rule all]\nplace = vmm, mapped' "$program" phases
    [[ $status != 0 && $stderr != *@larger-than-gpu* ]]
    [[ $(tail -n 1 "$ZC_LOG" | jq -c .unmet) == null ]]
}

@test "layers that do not all fit come one for each that is missing, and none runs over the link" {
    scene 32M layers
    [[ ${lines[*]:3:5} == 'step 3: 0 '*'step 7: 0 '* && ${lines[*]:3:5} != *': '[1-9]* ]]
    # Seven of ten fit beside what the layers write, so that each later step has three or four; the
    # first one, by whose times they are chosen, may move each.
    run -0 moves_of 4194304
    (( ${#lines[@]} <= 2 * (10 + 8 * 4) ))
}

@test "kernels that gain nothing, or too little, move nothing" {
    scene 8M light
    [[ $output == $'swept: DDH\nbusy: DDH\nleaks 0' ]]
}

@test "a kernel known on the device is not tried over the link until moves took as long" {
    scene 16M known
    [[ $output == $'over the link: 0\nleaks 0' ]]
    run -0 scripts/zc report "$ZC_LOG"
    [[ $output == *'moved to the device: a kernel may take long to read it there'* ]]
    scene 8M learned
    run -0 moves
    (( ${#lines[@]} >= 2 && ${#lines[@]} <= 2 * 33 ))
    # Actual durations count, not expected ones: two pieces of two blocks 20 ms.
    scene 8M learned_slowly
    run -0 moves
    (( ${#lines[@]} >= 2 && ${#lines[@]} <= 2 * 2 ))
}

@test "what the first move takes decides about the next ones" {
    # A block takes a third of a second, and a kernel loses 20 ms.
    scene 74M slow_link
    [[ $output == $'first: DDDDHH\nsecond: DDDHHD\nleaks 0' ]]
}

@test "a long kernel over the link is waited for, whatever is queued, and then its blocks come" {
    scene 8M unknown
    [[ $output == $'over the link: 1\nleaks 0' ]]
    scene 8M queue
    [[ $output == $'over the link: 0\nleaks 0' ]]
}

@test "a block that is used more often than others takes the place of one" {
    scene 8M often
    [[ $output == 'swept: '@(DHD|HDD)$'\nleaks 0' ]]
    run -0 moves
    [[ ${#lines[@]} == 2 ]]
}

@test "kernels whose times are known do not displace each other" {
    scene 8M many_kernels
    [[ $output == $'used: '@(HDD|DHD)$'\nleaks 0' ]]
}

@test "a cycle over more than there is room for moves one block for each that is missing" {
    scene 16M cycle
    run -0 moves
    # Two blocks are missing.  One of them is used just before the sweep begins again.
    (( ${#lines[@]} > 8 * 2 && ${#lines[@]} <= 2 * 8 * 3 ))
}

@test "a block comes to the device without another one leaving, where there is room again" {
    scene 8M room
    [[ $output == $'after a free: DD\nleaks 0' ]]
    run -0 moves
    [[ $output == '3 device' ]]
}

@test "copies and sets find the bytes of blocks that moved" {
    scene 8M copies
    [[ $(moves | wc -l) -gt 4 ]]
    referee "${MOVE}8M" "$program" copies
}

@test "a copy counts a block where it is, though it moved when the call had begun" {
    ZC_LOG_LEVEL=events beside 8M copy_late
    [[ $output == $'copied: HHDD\nleaks 0' ]]
    [[ $(jq -r 'select(.function == "cuMemcpy") | .real_dst_kind' "$ZC_LOG") == Pinned ]]
}

@test "whatever call of the driver fails, a block is whole and keeps its bytes" {
    for budget in 8 9; do
        suffix=$([[ $budget == 8 ]] || echo _alone)
        scene ${budget}M fails$suffix
        [[ $(grep -c '"type":"move"' "$ZC_LOG") -gt 100 ]]
        rm -f "$ZC_LOG"
        run -0 under_policy "$MOVE${budget}M" timeout 60 "$program" kept$suffix
    done
}

# model SEED STEPS THREADS [MODE]: random kernels, copies and graphs find what they must.
model() {
    rm -f "$ZC_LOG" "$SIM_LEAKS"
    echo "move_model $*"
    run -0 --separate-stderr under_policy "[defaults]
max_pinned = 40M
[rule all]
${MOVE}12M" timeout 60 "${program%/*}/move_model" "$@"
    [[ -z $output && (${4-} == u || ! -s $SIM_LEAKS) ]] || { cat "$SIM_LEAKS"; return 1; }
    python3 -c 'import json, sys
places = {p["place"]: p for p in json.loads(list(open(sys.argv[1]))[-1])["places"]}
for place, most in (("vmm", 12), ("mapped", 40)):
    assert places[place]["peak_bytes"] <= most << 20 and places[place]["bytes"] == 0, places' \
        "$ZC_LOG"
    moved=$(grep -c '"type":"move"' "$ZC_LOG" || true)
}

@test "random kernels, copies and graphs find every byte of blocks that move" {
    local seed
    for seed in ${SEEDS:-2 14}; do
        model "$seed" 200 1
        [[ -n ${SEEDS-} || $moved -gt 100 ]]
        model "$seed" 60 2
        model "$seed" 60 5
    done
}

@test "so they do whatever calls of the driver fail" {
    local seed
    for seed in ${SEEDS:-31 43 49}; do
        model "$seed" 300 1 f
        model "$seed" 300 1 u
        [[ -n ${SEEDS-} || $moved -gt 10 ]]
    done
}

@test "where each move fails, launches go on, and blocks stay" {
    scene 8M refused
    [[ $output == $'refused: DDHH\nleaks 0' ]]
    MOVE=$'[defaults]\nmax_pinned = 8M\n[rule all]\n'$MOVE
    scene 8M phases
    [[ $output == $'made: DDHH\nfirst: DDHH\nsecond: DDHH\nfirst again: DDHH\nleaks 0' ]]
}

@test "under a budget below one block what has room of it is on the device, and nothing moves" {
    scene 3M phases
    [[ $output == $'made: DHHH\nfirst: DHHH\nsecond: DHHH\nfirst again: DHHH\nleaks 0' ]]
    run -0 moves
    [[ -z $output ]]
    scene 2M phases
    [[ $output == $'made: HHHH\nfirst: HHHH\nsecond: HHHH\nfirst again: HHHH\nleaks 0' ]]
    run -0 moves
    [[ -z $output ]]
}

@test "host memory that is kept makes room for a block that leaves the device" {
    MOVE=$'[defaults]\nmax_pinned = 16M\n[rule all]\n'$MOVE
    scene 8M spare
    [[ $output == $'no room: HDDHH\nswept: HHDDH\nleaks 0' ]]
}

@test "a block comes into memory that is kept of a freed one" {
    MOVE=$'[rule small]\nsize = ..2M\nplace = vmm\n[rule all]\n'${MOVE%budget*}
    SIM_MEMORY_MIB=33 scene '' kept_room
    [[ $output == $'made: DDH\nswept: DDD\nleaks 0' ]]
}

@test "a program is told of as much free memory after blocks have moved as before" {
    export SIM_MEMORY_MIB=64
    run -0 "$program" told
    local bare=$output
    scene 8M told
    [[ $output == "$bare" ]]
}

@test "threads copy and launch while blocks move" {
    scene 12M threads
    [[ $(moves | wc -l) -gt 4 ]]
}

@test "nothing moves during a capture, and graphs find blocks that moved since" {
    scene 8M graphs
    [[ $output == $'captured: DDHH\nlaunched: HHDD\nleaks 0' ]]
}

@test "a capture that another thread begins while blocks move is not disturbed" {
    beside 8M capture_late
}

@test "nor is one that begins while a launch waits for the time of a kernel" {
    scene 8M captured_late
}

@test "kernels of a graph bring blocks in, and keep those that they use" {
    scene 8M graph_uses
    [[ $output == $'launched: HDD\nleaks 0' ]]
    run -0 moves
    [[ ${#lines[@]} == 2 ]]
    GLIBC_TUNABLES=glibc.malloc.tcache_count=0 scene 8M graph_again
    [[ $output == $'launched: HDD\nleaks 0' ]]
    scene 8M graph_keeps
    [[ $output == $'launched: DHD\nleaks 0' ]]
}

@test "a launch waits for no kernel that waits for the program" {
    scene 8M for_ever
    [[ $output == $'waited: DDHH\nleaks 0' && $stderr == *'does not come to rest'* ]]
}

@test "nor do launches that such a kernel waits for wait for it" {
    beside 8M in_turn
    [[ $output == $'waited: DDHH\nleaks 0' && $stderr == *'not come to rest'*'waited '*' ms'* ]]
}

@test "a launch does not wait where it can't be known whether the GPU rests" {
    scene 8M many_streams
    [[ $output != $'swept: DDHH\nleaks 0' && $output == 'swept: '* && -z $stderr ]]
    SIM_FAIL=cuCtxRecordEvent:801:0 scene 8M many_streams # As before CUDA 12.5.
    [[ $output == $'swept: DDHH\nleaks 0' ]]
    [[ $stderr == *'the driver does not tell of all streams'*'waited 0 ms'* ]]
}

@test "a launch does not become a cancellation point" {
    beside 8M cancelled
    [[ $output == $'came through: 1\nleaks 0' ]]
}

@test "the log tells how long launches have waited for the GPU" {
    beside 8M ended_stream
    python3 -c 'import json, sys
moves = [m for m in map(json.loads, open(sys.argv[1])) if m["type"] == "move"]
assert max(m["waited_ns"] for m in moves) > 50e6, moves' "$ZC_LOG"
}

@test "blocks that a graph copies stay" {
    scene 8M graph_copies
    [[ $output == $'before: HHDD\nafter: HHDD\nleaks 0' ]]
}

@test "a block that the driver maps nowhere keeps its bytes, and calls that touch it fail so long" {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "${MOVE}8M" timeout 60 "$program" unmapped
    [[ $output == *'args, NULL) -> 999'*'BLOCK) -> 999'*'leaks 0' ]]
    [[ $stderr == *'stays in host memory: cuMemMap refuses'* ]]
}

@test "blocks that another device reaches move only while that one rests" {
    SIM_DEVICES=2 scene 8M shared
    [[ $output == $'busy: DDHH\nat rest: HHDD\nleaks 0' ]]
}

@test "blocks stay once another context of their device uses one" {
    for way in batch capture late; do
        beside 8M $way
        [[ $output == $'used beside: DDHH\nleaks 0' ]]
    done
    beside 10M ended
    [[ $output == $'used beside: DDHH\nleaks 0' ]]
}

@test "nothing moves at a launch in a stream of another context than the current one" {
    beside 8M from
    [[ $output == $'busy: DDHH\nleaks 0' ]]
}

@test "a block stays while another device copies it" {
    SIM_DEVICES=2 beside 8M peer_copy
    [[ $output == $'copying: DHDH\ncopied: HHDD\nleaks 0' ]]
}

@test "a kernel whose stream is destroyed ends before blocks move" {
    beside 8M ended_stream
    [[ $output == $'at rest: HHDD\nleaks 0' ]]
}

@test "what the driver says of a block does not change while it moves" {
    scene 8M questions
    [[ $(moves | wc -l) -gt 4 ]]
}

@test "blocks that moved go with their context" {
    scene 8M gone
    [[ $(moves | wc -l) -gt 8 ]]
}

@test "a block stays while its memory is exported, and afterwards" {
    beside 8M exported
    [[ $output == $'exported: DHHD\nleaks 0' ]]
}
