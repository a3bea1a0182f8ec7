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
    [[ $(ended one) -eq 3 ]]
}

@test "a pair stays whole when the context in which its host block was copied before goes" {
    both outlived
    [[ $(sum elided_copies) -eq 1 ]]
}

@test "a forked child has the host blocks of its parent" {
    both forked
    [[ $(ended own 'after a fork') -eq 1 ]]
}

@test "parent and child write in turn, and the device block keeps what was copied" {
    both forked_in_turn
    # Unchanged pages are not copied again.
    [[ $(sum elided_copies) -eq 4 && $(ended own 'a fork') -eq 4 ]]
}

# The simulated driver's own registered memory is its children's where no handler tells it of them:
# host blocks of the policy only.
@test "so it is with _Fork, from a handler of signals as well" {
    same forked_in_handler 'access = read' read
}

@test "a child that the kernel alone knows of ends where it touches shared host blocks" {
    same cloned 'access = read' read
    # Pages that an earlier fork has made private are the child's, too.
    [[ $stderr == *'before a fork: 0'*'after a fork: 6'* ]]
}

@test "a child has what another thread gets, frees or changes while its parent forks" {
    export SIM_DEVICES=2
    of shared_fork same beside 'access = read' read
    [[ $stderr == *'get, fork: '* && $stderr != *': 0'* ]] # Both were paused in every job.
    of shared_fork same beside_quiet 'access = read' read
}

@test "a program may close files that it does not know, and have their numbers" {
    both closed_files
}

@test "a free that the driver refuses leaves both sides as they are, or says so" {
    both refused_free
    [[ $stderr == *"free 999"* && $(sum copied_bytes) -eq $((12 << 20)) ]]
    scene refused_behind 'access = read'
    [[ $status -eq 0 && $stderr == *"does not take back 6 MiB of 'shared'"*"(code 999)"* ]]
}

@test "a host block is copied behind the free of its device block in a stream" {
    both freed_in_order
}

@test "kernels that are launched while the process exits see their blocks" {
    run -0 timeout 60 "$PROGRAM" exiting
    [[ $output == 1 ]]
    scene exiting 'access = read'
    [[ $status -eq 0 && $output == 1 && $(ended one) -eq 1 ]]
}

@test "the addresses that RLIMIT_AS leaves when it is set are the program's" {
    both limited
    [[ $(ended one) -eq 1 ]]
}
