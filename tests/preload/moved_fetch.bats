#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Blocks that kernels only read, and reach by their launches' arguments alone (spill = fetch): each
# is copied to the device before a launch that names it, beside kernels that run; what leaves is
# mapped nowhere.  Kernels read what the program wrote last, or fail with error 700 and a message.

load places.bash

setup() {
    placed_by moved_fetch
    BUDGET=16M # four blocks of six
}

# scene NAME: runs a scene, whose kernels read what they must.
scene() {
    run_moving "${DEFAULTS-}[rule all]
place = vmm
spill = fetch
chunk = 2M
budget = $BUDGET" 300 "$program" "$1"
    [[ $output == *$'wrong: 0\nleaks 0' ]]
}

# Number of moves to a place: moved device|host
moved() {
    grep -c "\"type\":\"move\".*\"to\":\"$1\"" "$ZC_LOG" || true
}

@test "in a cycle one block comes for each that is missing, and each is copied back once at most" {
    scene cycle
    [[ $output == $'made: DDDDHH\n'* ]]
    (( $(moved device) > 20 && $(moved device) <= 8 * 4 ))
    run -0 moved_by_kind "$ZC_LOG"
    [[ $output =~ 'DtoH Device Pinned '[0-9]+' '([0-9]+) ]]
    (( BASH_REMATCH[1] <= 4 * 4 << 20 ))
    python3 -c 'import json, sys
places = {p["place"]: p for p in json.loads(list(open(sys.argv[1]))[-1])["places"]}
assert places["vmm"]["peak_bytes"] <= 16 << 20, places
assert places["vmm"]["bytes"] == places["mapped"]["bytes"] == 0, places' "$ZC_LOG"
}

@test "host memory is made for little more than what does not fit, however long a program goes on" {
    local left
    BUDGET=64M
    scene sweeps
    left=$(sed -n 's/.*"type":"move".*"block":\([0-9]*\),.*"to":"host".*/\1/p' "$ZC_LOG" | sort -u |
        wc -l)
    (( left >= 8 && left <= 16 && $(moved device) <= 20 * 12 ))
}

@test "a block that comes again takes one copy, and no memory or addresses are made" {
    scene calls
    [[ $output == $'a copy each: 1\n'* ]]
}

@test "launches are not looked at while all is on the device, and a block waits for them to leave" {
    scene unseen
    [[ $output == $'calls: 1\n'* ]]
    (( $(moved host) > 0 ))
}

@test "a block that every layer uses stays, and no more come than are missing" {
    scene layers
    local comes
    comes=$(grep -c '"type":"move".*"block":6,.*"to":"device"' "$ZC_LOG" || true)
    (( comes <= 2 && $(moved device) <= 20 * 4 ))
}

@test "an order whose distances change is known once it has come again" {
    scene turns
    (( $(moved device) <= 40 * 7 )) # eight where the last distance says what is due
}

@test "once the order is known a block comes ahead, and calls in between find its bytes" {
    scene ahead
    (( $(jq -r 'select(.type == "move" and .to == "device") | .why' "$ZC_LOG" |
        grep -c 'a later kernel') > 5 ))
}

@test "the log tells which bytes came while kernels ran" {
    scene hidden
    run -0 jq -r 'select(.type == "move" and .to == "device") | .hidden' "$ZC_LOG"
    [[ $(tail -n 2 <<<"$output" | xargs) == 'true false' ]]
    run -0 jq -s '(map(select(.hidden).bytes) | add) == .[-1].moves.hidden_bytes' "$ZC_LOG"
    [[ $output == true ]]
}

@test "a block leaves once the kernels that were given it have ended, in whatever stream" {
    scene running
    (( $(moved host) > 20 ))
}

@test "what the program copies, sets and reads meanwhile is what kernels read" {
    scene written
    (( $(moved device) > 20 ))
}

@test "so is what a call writes that libzc does not know, a stream's word, or a batch" {
    scene unknown
    [[ $(grep -c 'copy(.*-> 0' <<<"$output") == 6 ]]
    scene words
}

@test "launches in another order than before read the same" {
    scene disorder
    (( $(moved device) > 5 ))
}

@test "the driver answers for blocks that are mapped nowhere" {
    scene questions
}

@test "kernels of graphs find the blocks that they were given, when the graph was made or later" {
    scene graphs
}

@test "a graph may name any number of blocks" {
    scene crowd
}

@test "so do those in the graphs of conditional nodes" {
    scene bodies
}

@test "so do kernels that get textures and tensor maps of blocks" {
    scene textures
}

@test "kernels may write what the program has not copied into" {
    run -0 --separate-stderr under_policy "[rule all]
place = vmm
spill = fetch
chunk = 2M
budget = 16M" timeout 60 "$program" unfilled
    [[ $output == 'leaks 0' && -z $stderr ]]
    (( $(moved device) > 4 ))
}

@test "a kernel that breaks the promise fails, and messages name rule, promise and block" {
    local way given
    for way in writes stray; do
        rm -f "$ZC_LOG"
        run -0 --separate-stderr under_policy $'[rule all]\nplace = vmm\nspill = fetch
chunk = 2M\nbudget = 16M' timeout 60 "$program" $way
        [[ $output == 'cuCtxSynchronize() -> 700' ]]
        [[ $stderr == *"writes a block of rule all ("*":1), or reaches one"* ]]
        [[ $stderr == *"'spill = fetch' is the promise that none does"* ]]
        [[ $stderr == *'do not trust the results: '*'because of rule all'* ]]
        given=$(jq -r 'select(.type == "alloc" and .block == 5) |
                       "block 5 (4 MiB at \(.address[2:])), site \(.site)"' "$ZC_LOG")
        given="; launches that may not have ended were given $given"
        [[ $way != writes || $stderr == *"$given"$'\n'* ]]
        [[ $way != stray || $stderr == *'; no launch that may not have ended was given one'$'\n'* ]]
    done
}

@test "before a kernel whose arguments nobody knows all blocks are mapped" {
    scene unnamed
    scene unnamed_node
}

@test "a kernel that is given more blocks than fit reads the others where they are" {
    scene many
}

@test "where there is room for one block or none, kernels read the right bytes" {
    for BUDGET in 4M 3M; do
        scene disorder
    done
    DEFAULTS=$'[defaults]\nmax_pinned = 8M\n' BUDGET=16M scene cycle
}

@test "a launch does not wait for ever for a kernel that waits for the program" {
    BUDGET=4M scene for_ever
    [[ $stderr == *'does not come to rest'* ]]
}

@test "threads read and copy the same blocks, with room for less than they use" {
    scene threads
}

@test "blocks that another context or device uses stay mapped" {
    scene beside
    SIM_DEVICES=2 scene peers
}

@test "blocks are freed, contexts go, and processes fork wherever the blocks are" {
    scene freed
    scene gone
    scene forked
}

@test "whatever call of the driver fails, launches go on and kernels read the right bytes" {
    scene fails
    (( $(moved device) > 300 ))
}

@test "random kernels, copies and graphs find every byte of blocks that are fetched" {
    local seed
    for seed in ${SEEDS:-8 21}; do
        for way in '300 1 r' '60 3 r' '300 1 s'; do
            echo "move_model $seed $way"
            rm -f "$ZC_LOG" "$SIM_LEAKS"
            # shellcheck disable=SC2086
            run -0 --separate-stderr under_policy '[defaults]
max_pinned = 60M
[rule large]
size = 4M..
place = vmm
spill = fetch
chunk = 2M
budget = 9M
[rule all]
place = vmm
spill = move
chunk = 2M
budget = 12M' timeout 60 "${program%/*}/move_model" "$seed" $way
            [[ -z $output && ($way == *s || ! -s $SIM_LEAKS) ]]
            [[ -n ${SEEDS-} || $(moved device) -gt 3 ]]
        done
    done
}
