#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A registration lasts longer than the pages that it is of, where ending it would wait for a stream
# that waits for the program, or a graph relies on it.  Copies see the program's pages all the same.

load host.bash

RULES=("$PINNED" "$PINNED"$'\nasync = overlap'
    $'[rule host]\napi = posix_memalign\nplace = shared, pinned
[rule device]\napi = cudaMalloc\nsize = 1G..\nplace = shared\naccess = read'
    $'[rule host]\napi = posix_memalign\nplace = pinned
[rule device]\napi = cudaMalloc\nplace = mapped')

setup() {
    host_setup stale
    export SIM_DEVICES=2 ZC_LOG=off
}

# Runs a scenario bare, and then under each policy, which must print the same:
# same SCENARIO POLICY...
same() {
    local rules
    run -0 timeout 30 "$PROGRAMS/stale" "$1"
    bare=$output
    for rules in "${@:2}"; do
        run -0 under_policy "$rules" timeout 30 "$PROGRAMS/stale" "$1"
        echo "$output"
        [[ $output == "$bare" ]]
    done
}

# The same, or a call is refused with 801, and the rule named.
same_or_refused() {
    local rules
    for rules in "${@:2}"; do
        run under_policy "$rules" timeout 30 "$PROGRAMS/stale" "$1"
        echo "$output"
        [[ $status -ne 124 && $output == *"returned 801: the program $refused"*' of rule '* ]]
    done
}

@test "lines of changed pages are copied while a stream waits for the program" {
    same lines "${RULES[@]}"
    same forked "${RULES[@]}"
    same behind "${RULES[@]:0:3}"
    same by_kernel "${RULES[@]}"
}

@test "rows of changed pages are refused while a stream waits for the program" {
    refused='has changed pages' same_or_refused rows "${RULES[@]:0:3}"
}

@test "batches copy changed pages, and nodes are made of them" {
    same batch "${RULES[@]}"
    same node "${RULES[@]}"
}

@test "a launch of a graph that would copy the pages of before is refused" {
    refused='has changed pages' same_or_refused captured "${RULES[@]}"
}

@test "a program may register a block while a stream or a kernel waits for it" {
    # Memory that kernels may have read early keeps libzc's own registration, and is refused.
    local host=${RULES[2]%%$'\n[rule device]'*}
    same registers "${RULES[@]:0:2}" "$host" "${RULES[3]}"
    same register_and_lose "${RULES[@]}"
}

@test "a program that registers half a block while a stream waits for it is told that it can't" {
    refused='registers them' same_or_refused registers_half "$PINNED"
}

@test "beside a capture such a copy and such a registration are refused, too" {
    refused='has changed pages' same_or_refused line_beside_capture "${RULES[@]:0:2}"
    refused='registers them' same_or_refused half_beside_capture "$PINNED"
}

@test "a free waits for no stream of another device that waits for the program" {
    same elsewhere "${RULES[@]}" 'place = mapped' 'place = managed' 'place = vmm'
}

@test "a free gives back nothing while a kernel of another device waits for the program" {
    same collective "$PINNED" 'place = mapped' 'place = managed' 'place = vmm' \
        $'place = vmm\ngrow = yes' $'place = vmm\ncommit = lazy'
}

@test "a free where all devices rest again gives the memory back" {
    export SIM_DELAY_US=300
    same rested 'place = mapped'
    [[ $bare == *'back: 1' ]]
}

@test "a kernel may wait for the program while a pair is to be made of a registered block" {
    local scene reads=$'[rule host]\napi = posix_memalign\nplace = shared
[rule device]\napi = cudaMalloc\nsize = 1M..\nplace = shared\naccess = read'
    for scene in kernel kernel_late; do
        same "$scene" "${RULES[@]}" "$reads"
    done
}
