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

@test "a random program reads no byte that two memories would not have, under kernels that read" {
    model "${STEPS:-60000}" 'access = read'
    [[ $(sum elided_copies) -gt 0 && $(sum copied_bytes) -gt 0 ]]
    [[ $(ended one) -gt 0 && $(ended own) -gt 0 ]]
}

@test "a random program whose kernels write has its blocks on the device" {
    model "${STEPS:-60000}" '' write
    [[ -z $pairs ]]
}
