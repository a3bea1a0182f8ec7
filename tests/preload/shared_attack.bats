#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Other uses of host blocks that are one with device blocks: other threads that read
# files into them, forks, changed mappings, calls that fail, and exits.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_attack

setup() {
    pairs_setup
}

attack() {
    same "$1" 'access = read'
}

@test "a stream reads into a page while another part of it is copied to the device" {
    attack streamed
}

@test "files are read into a page in whole while another part of it is copied to the device" {
    attack called
}

@test "pages that are given back read as zeroes behind a fork, in parent and child" {
    attack emptied
}

@test "what can't be mapped over a host block leaves its content" {
    attack unmappable
    [[ $(grep -c '"pair"' <<<"$pairs") -eq 1 ]]
}

@test "what a thread writes while a block of a locked process is copied first stays there" {
    attack locked
    [[ $output == "lost writes 0" ]]
}

@test "a copy to a host block that the driver refuses has written nothing" {
    attack failed
    [[ $(ended one) -eq 1 ]]
}

@test "the first copy into a block does not wait for a kernel that waits for the program" {
    attack held
    [[ $(ended own) -eq 1 ]]
}

@test "launches wait for such a kernel a few times at most, and other streams go on" {
    attack held_long
    [[ $(ended one) -eq 20 ]]
}

@test "a capture that begins while such a kernel is launched is not disturbed" {
    attack captured
}

@test "device blocks are freed while another thread's call gives them memory of their own" {
    attack freed
}

@test "a set in an exit handler leaves the host block alone" {
    run -0 timeout 60 "$PROGRAM" exiting
    scene exiting 'access = read'
    [[ $status -eq 0 && -z $stderr ]]
}

@test "a thread that closes all descriptors closes none that a host block needs" {
    need_built "${PROGRAM%/*}/closes"
    run -0 under_policy $'api = malloc\nplace = shared\n[rule d]\napi = cudaMalloc\nplace = shared
access = read' timeout 120 "${PROGRAM%/*}/closes"
    [[ $output == "0 wrong, 0 longer" ]]
}
