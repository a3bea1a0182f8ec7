#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# How pairs end: with their context, with a free, with the process or in its child.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_life

setup() {
    pairs_setup
}

@test "a context takes its device blocks along and leaves the host blocks" {
    both reset
}

@test "a pair stays whole when the context in which its host block was copied before goes" {
    both outlived
    [[ $stderr == *"same address 1"* ]]
}

@test "a forked child has the host blocks of its parent" {
    both forked
}

@test "a forked child that touches a lost host block is stopped" {
    scene forked_lost ''
    [[ $status -eq 0 && ${lines[*]} == '-6 -6 -6' ]]
    [[ $(grep -c "the CPU reads byte [0-9]* of host block 1 .*rule device (" <<<"$stderr") -eq 3 ]]
}

@test "a free that the driver refuses leaves both sides as they are, or says so" {
    both refused_free
    [[ $stderr == *"free 999"* ]]
    scene refused_behind ''
    [[ $status -eq 0 && $stderr == *"cuMemHostUnregister refuses"* ]]
    [[ $stderr == *"rule device ("*"policy.conf:5)"* ]]
}

@test "a copy that names no side takes the host block behind a free in the order of a stream" {
    both freed_in_order
}

@test "a kernel that is launched while the process exits leaves the host blocks alone" {
    run -0 timeout 60 "$PROGRAM" exiting
    [[ $output == 1 ]]
    scene exiting '' # Its host block was overwritten, which only the program could have avoided.
    [[ $status -eq 134 && -z $output && $stderr == *"the CPU reads byte 0 of host block"* ]]
}

@test "the addresses that RLIMIT_AS leaves when it is set are the program's" {
    both limited
}
