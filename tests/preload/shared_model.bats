#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A program that copies, sets, launches, forks and frees at random beside plain copies of what each
# block must hold.  STEPS chooses a longer run.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/gpu/pair_model-shared

setup() {
    pairs_setup
    need_built "$SIM/kernels/pair_model.so"
    sim_env pair_model
}

# model RULE ARGUMENT...: device blocks have the rule's lines.
model() {
    rm -f "$ZC_LOG"*
    run -0 --separate-stderr under_policy "[rule host]
api = malloc, realloc
size = 1M..
place = shared
[rule device]
api = cudaMalloc
size = 1M..
place = shared
$1" "$PROGRAM" "${STEPS:-60000}" 7 "${@:2}"
    [[ $output == *'"verified":true'* ]]
    pairs=$(grep '^{"type":"pair"' "$ZC_LOG" || true)
}

@test "a random program reads no byte that two memories would not have, under kernels that read" {
    model 'access = read'
    [[ $(sum elided_copies) -gt 0 && $(sum copied_bytes) -gt 0 ]]
    [[ $(ended one) -gt 0 && $(ended own) -gt 0 ]]
}

@test "a random program whose kernels write has its blocks on the device, or delivers them" {
    model '' write
    [[ -z $pairs ]]
    model 'access = write' write
    [[ $(sum elided_copies) -gt 0 ]]
}
