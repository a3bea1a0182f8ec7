#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `make soak`, in short: it passes where nothing grows, and each kind of leak makes it fail.

load ../preload/common.bash

setup() {
    need_built "$LIBZC" "$PWD/$ZC_BUILD/tests/preload/programs/"{random_calls,grow_model,fork}
    export SIM=1 SOAK_SECONDS=0 SOAK_SEED=1 SOAK_SEEDS=1 SOAK_PLACES=device
}

soak() {
    run --separate-stderr timeout 200 python3 -B tests/soak.py
    echo "status $status: $output"
    echo "$stderr"
}

# leaks 'WHAT...' MESSAGE...: with such leaks each round it fails with these messages, and no other.
leaks() {
    local message
    SOAK_LEAK=$1 soak
    shift
    [[ $status -eq 1 && $output == *'soak: failed' && ${#stderr_lines[@]} -eq $# ]]
    for message in "$@"; do
        [[ $stderr == *"$message"* ]] || { echo "not said: $message"; return 1; }
    done
}

@test "a short soak of two places finds every result right and nothing grown" {
    SOAK_PLACES='vmm mapped' SOAK_SECONDS=10 soak
    [[ $status -eq 0 && -z $stderr ]]
    [[ $output == *'random_calls mapped '* && $output == *'grow_model vmm '* ]]
    [[ $output == *'soak: nothing grew, and every result was right' ]]
}

@test "a soak notices memory, descriptors and threads that leak, and what the driver has left" {
    leaks 'memory descriptor thread handle' 'device: resident KiB grew by ' \
        'device: descriptors grew by ' 'device: threads grew by ' \
        'device: left with the simulated driver: handle 8'
}

@test "a soak notices mappings that a program leaks, and processes that are left" {
    leaks 'mapping process' 'device: mappings grew by ' \
        'at the end: 8 processes are left: random_calls'
}

@test "a soak notices a program that ends early" {
    SOAK_LEAK=failure soak
    [[ $status -eq 1 && $stderr == *'random_calls device: ended with status 1'* ]]
}
