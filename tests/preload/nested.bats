#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Copies in graphs inside of graphs write what they must, also where blocks that became one with
# host blocks came to their addresses after the graph was made.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/nested

setup() {
    pairs_setup
}

# A scene in every place, and with pairs.
everywhere() {
    in_every_place "$PROGRAM" "$1"
    both "$1"
    export SAME_ADDRESS=1
    both "$1"
    [[ $(sum elided_copies) -ge 1 ]]
}

@test "children of graphs are read at any depth" {
    everywhere deep
}

@test "an executable graph gets another child, whose nodes change on" {
    everywhere other_child
}

# Nodes of several copies (CUDA 13.5) are ones that libzc does not know.
batches() {
    SIM_DRIVER=13050 "$@" batches
}

@test "nodes of several copies, which libzc does not know, are added, captured and changed" {
    batches in_every_place "$PROGRAM"
    for SAME_ADDRESS in '' 1; do
        export SAME_ADDRESS
        [[ $SAME_ADDRESS ]] || unset SAME_ADDRESS
        batches both
        [[ $stderr == *"does not know a value that was given to cuMemcpyBatchAsync"* ]]
        [[ $stderr == *"does not know a value that was given to cuGraphLaunch"* ]]
    done
}

@test "a graph is captured again" {
    everywhere recapture
}

@test "bodies of conditional nodes are read" {
    everywhere conditional
}

@test "copies in conditional nodes and in nodes of several are not counted, those in children are" {
    for scene in 'conditional 0' 'other_child 4' 'wide_child 2' 'batches 0'; do
        rm -f "$BATS_TEST_TMPDIR/log"*
        SIM_DRIVER=13050 ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=events \
            run -0 under_policy 'place = device' \
            "$PROGRAM" "${scene% *}"
        [[ $(grep -c '"type":"transfer".*"function":"cuGraphLaunch"' "$BATS_TEST_TMPDIR/log") -eq \
            ${scene#* } ]]
    done
    # One captured call, two changes of a node, and four launches.
    grep -q '"unknown_calls":7,' "$BATS_TEST_TMPDIR/log"
}
