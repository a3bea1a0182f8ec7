#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Host blocks of `shared` are registered soon after the program has got them, at the address that
# their device block gets.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_early

setup() {
    pairs_setup
}

@test "the copy of a block that was filled meanwhile finds it registered" {
    for s in filled_first asked_first pooled; do
        same "$s" 'access = read'
        [[ $stderr == *"copied: 1 registered, 0 ended"* ]]
        [[ $(ended one) -eq 1 && $(sum elided_copies) -eq 1 ]]
    done
}

@test "one rule that kernels only read is enough, also the first" {
    host_rule="[rule first]
api = cudaMalloc
size = 1M..
place = shared
access = read
$host_rule" same launched_between ''
    [[ $stderr == *"launched: 3 registered, 2 ended"* ]]
}

@test "a device block that is used before its copy has memory of its own" {
    same launched_between 'access = read'
    # The first table is registered again for its copy; results were not written by the CPU.
    [[ $stderr == *"launched: 3 registered, 2 ended"*"copied: 4 registered, 2 ended"* ]]
    same crossed 'access = read'
    [[ $stderr == *"crossed: 4 registered, 2 ended"* && $(sum elided_copies) -eq 2 ]]
}

@test "what the program changes before the copy is what the copy brings" {
    same changed_pages 'access = read'
    [[ $stderr != *"not so"* ]]
}

@test "a context takes along what was registered in it, and no block is lost" {
    same context_lost 'access = read'
    [[ $(ended one) -eq 2 ]]
}

@test "nothing is registered during a capture, nor kept that the pool can not hold" {
    same captured 'access = read'
    [[ $stderr == *"capturing: 0 registered"*"copied: 1 registered, 0 ended"* ]]
    host_rule="[defaults]
max_pinned = 16M
$host_rule" same too_much 'access = read'
    [[ $stderr == *"trimmed: 1 registered, 1 ended"* ]]
}

@test "a site whose block was registered in vain waits for a copy that makes it worth it" {
    same in_vain 'access = read'
    [[ $stderr == *"turn 0: 1"*"turn 1: 1"*"copied: 2"*"turn 2: 1"*"copied: 1"* ]]
}

@test "without a block that kernels only read, and in programs that end at once, nobody registers" {
    same launched_between ''
    [[ $stderr == *"launched: 1 registered, 0 ended"* ]]
    same freed_at_once 'access = read'
    scene exiting 'access = read'
    [[ $status -eq 0 ]]
}

@test "the first shared block of a program with threads enlarges no table of theirs" {
    same with_threads 'access = read'
    [[ $output == *"has grown: no"* ]]
}
