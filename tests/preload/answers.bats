#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Questions of a program about its memory are answered as for the memory that it asked for: in every
# place the same output as without libzc, to the character.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/answers
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
    bare=$BATS_TEST_TMPDIR/bare
    "$program" >"$bare"
    [[ $(wc -l <"$bare") -gt 1000 ]]
}

# Takes out what a converted block must answer by where it is.  A program that asks whether its
# memory can be exported by IPC (attribute 10) or reached by another bus device (15) takes another
# way if not; claiming it would make the export fail later.  The export itself is refused.  What is
# mapped around a block (18) depends on where in its pages it begins.
same_for_all_places() {
    grep -vE '^  attribute (10|15|18):|^ipc export'
}

# Compares the program's output in a place with the bare one: answers_in PLACE [FILTER [DEVICE]]
answers_in() {
    local filter=${2:-same_for_all_places}
    under_policy "place = $1" "$program" ${3:-} >"$BATS_TEST_TMPDIR/placed" \
        2>"$BATS_TEST_TMPDIR/said"
    diff <("$filter" <"$bare") <("$filter" <"$BATS_TEST_TMPDIR/placed")
}

# Fails unless converted blocks admitted that they can't be exported, nor reached by another bus
# device, and the message named the rule: refused_by_rule PLACE [ATTRIBUTES]
refused_by_rule() {
    run -0 grep -c '^ipc export -> 1' "$BATS_TEST_TMPDIR/placed"
    [[ $output == 6 ]]
    run -0 grep -F 'cuIpcGetMemHandle returned 1' "$BATS_TEST_TMPDIR/said"
    [[ $output == *"'$1' by rule all ($BATS_TEST_TMPDIR/policy.conf:1)"* ]]
    run -1 grep -E "^  attribute (${2:-10|15}): code 0 01" "$BATS_TEST_TMPDIR/placed"
}

@test "watching changes no answer" {
    env LD_PRELOAD="$LIBZC" "$program" >"$BATS_TEST_TMPDIR/placed" 2>"$BATS_TEST_TMPDIR/said"
    diff "$bare" "$BATS_TEST_TMPDIR/placed"
    [[ ! -s $BATS_TEST_TMPDIR/said ]]
}

@test "blocks in device memory answer as without libzc" {
    answers_in device cat
    [[ ! -s $BATS_TEST_TMPDIR/said ]]
}

@test "mapped blocks answer as the device memory that was asked for" {
    answers_in mapped
    refused_by_rule mapped
}

@test "a pool of which some blocks are converted tells the most of all of them at once" {
    under_policy $'size = 1M..\nplace = vmm' "$program" >"$BATS_TEST_TMPDIR/placed"
    diff <(grep '^pool: ' "$bare") <(grep '^pool: ' "$BATS_TEST_TMPDIR/placed")
}

# Managed pages count as used once they are on the device, and against the limit before: the
# figure of free memory may be too small, never too large.
without_figure_of_free_memory() {
    same_for_all_places | grep -v '^taken '
}

@test "managed blocks answer as the device memory that was asked for" {
    answers_in managed without_figure_of_free_memory
    refused_by_rule managed
}

# Other bus devices reach mapped memory of the device, where it lets them, as they do cuMemAlloc's.
same_for_vmm() {
    grep -vE '^  attribute (10|18):|^ipc export'
}

@test "vmm blocks answer as the device memory that was asked for" {
    answers_in vmm same_for_vmm
    refused_by_rule vmm 10
}

@test "blocks of vmm in host memory answer as the device memory that was asked for" {
    local keys=$'\nspill = move\nchunk = 2M\nbudget = 2M'
    ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=allocs answers_in "vmm$keys"
    grep -q '"size_bytes":3145728,.*"spilled_bytes":3145728,' "$BATS_TEST_TMPDIR/log"
    refused_by_rule vmm 10
}

@test "vmm blocks without memory yet are not said to be reached by other bus devices" {
    run -0 under_policy $'place = vmm\ncommit = lazy' "$program"
    grep -q '^  attribute 15: code 0 00' <<<"$output"
}

@test "blocks that are left until an array has grown answer as without libzc, and can be exported" {
    answers_in $'vmm\ngrow = yes\ngrown = yes' cat
    [[ ! -s $BATS_TEST_TMPDIR/said ]]
}

@test "blocks of a second device answer as the memory that was asked for there" {
    export SIM_DEVICES=2
    "$program" 1 >"$bare"
    grep -q '^  type 2 managed 0 ordinal 1 ' "$bare"
    grep -q '^another device may: 0' "$bare"
    for place in device mapped vmm; do
        answers_in "$place" same_for_all_places 1
    done
    answers_in managed without_figure_of_free_memory 1
}

# All but the export of blocks, which only the driver's own memory can do.
@test "a refusal that no place caused blames no rule" {
    for place in mapped managed vmm; do
        under_policy "place = $place" "$program" 2>"$BATS_TEST_TMPDIR/said" >/dev/null
        run -1 grep -v -e 'cuIpcGetMemHandle returned 1 for' -e '^libzc: do not trust the results' \
            "$BATS_TEST_TMPDIR/said"
    done
}

# Differences are allowed as above, and in whether there is a dma-buf.
same_questions() {
    grep -vE '^  (attribute|at once) (10|15|18):|DMA_BUF'
}

# Asks everything at every stage of blocks' lives under a policy: questions_under POLICY [FILTER]
questions_under() {
    local asks=$PWD/$ZC_BUILD/tests/preload/programs/questions
    need_built "$asks"
    "$asks" | same_questions >"$bare"
    [[ $(wc -l <"$bare") -gt 5000 ]]
    under_policy "$1" "$asks" 2>"$BATS_TEST_TMPDIR/said" >"$BATS_TEST_TMPDIR/placed"
    diff "$bare" <(same_questions <"$BATS_TEST_TMPDIR/placed")
}

SHARED=$'[rule host]\napi = malloc\nplace = shared\n[rule all]\napi = cudaMalloc\nplace = shared\n'
SHARED+='access = read'

@test "questions about memory elsewhere are answered at every stage of its life" {
    questions_under 'place = mapped'
    questions_under 'place = managed'
}

@test "questions about vmm blocks are answered before they have memory, too" {
    local keys
    for keys in '' 'commit = lazy' 'grow = yes' \
        $'spill = move\nchunk = 2M\nbudget = 6M'; do
        echo "$keys"
        questions_under $'place = vmm, mapped\n'"$keys"
        grep 'DMA_BUF_FD, 0) -> 0' "$BATS_TEST_TMPDIR/placed"
        [[ ! -s $BATS_TEST_TMPDIR/said ]]
    done
}

@test "questions about shared blocks are answered whatever lies behind them" {
    questions_under "$SHARED"
    grep 'DMA_BUF_FD, 0) -> 0' "$BATS_TEST_TMPDIR/placed"
}

@test "copies and sets that are wrong in one way or two are refused as they are bare" {
    local shapes=$PWD/$ZC_BUILD/tests/preload/programs/shapes place
    local pinned=$'[rule pinned]\napi = cudaHostAlloc\nplace = pinned\n[rule all]'
    need_built "$shapes"
    "$shapes" >"$bare"
    [[ $(wc -l <"$bare") -gt 4000 ]]
    for place in mapped managed vmm $'vmm\ncommit = lazy' $'vmm\ngrow = yes'; do
        echo "$place"
        under_policy "$pinned"$'\nplace = '"$place" "$shapes" 2>"$BATS_TEST_TMPDIR/said" |
            diff "$bare" -
        [[ ! -s $BATS_TEST_TMPDIR/said ]]
    done
}

@test "calls after a kernel has failed return its error in every place, first or later" {
    local sticky=$PWD/$ZC_BUILD/tests/preload/programs/sticky rule
    local pinned=$'[rule host]\napi = malloc, cudaHostAlloc\nplace = pinned\n[rule all]'
    need_built "$sticky"
    "$sticky" >"$bare"
    [[ $(grep -c ': 700$' "$bare") -gt 100 ]]
    for rule in 'place = mapped' 'place = managed' 'place = vmm' $'place = vmm\ncommit = lazy' \
        $'place = vmm\ngrow = yes' $'place = vmm, mapped\nspill = move\nbudget = 6M' \
        "$pinned"$'\nplace = vmm' "$SHARED"; do
        echo "$rule"
        under_policy "$rule" "$sticky" 2>/dev/null | diff "$bare" -
    done
}
