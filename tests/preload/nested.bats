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

@test "nodes of several copies are added, captured and changed" {
    everywhere batches
}

@test "a graph is captured again" {
    everywhere recapture
}

@test "bodies of conditional nodes are read" {
    everywhere conditional
}

@test "copies in conditional nodes are not counted, those in children and batches are" {
    for scene in 'conditional 0' 'other_child 4' 'batches 8'; do
        rm -f "$BATS_TEST_TMPDIR/log"*
        ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=events run -0 under_policy 'place = device' \
            "$PROGRAM" "${scene% *}"
        [[ $(grep -c '"type":"transfer".*"function":"cuGraphLaunch"' "$BATS_TEST_TMPDIR/log") -eq \
            ${scene#* } ]]
    done
}
