#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A program that grows arrays at random reads no byte that it would not read without libzc, and a
# call that is refused has changed nothing.  SEEDS="5 6" chooses other seeds, STEPS longer runs; a
# failure prints the seed and the policy to repeat.

load common.bash

GROW=$'place = vmm, device\ngrow = yes'

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/grow_model
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_DEVICES=2
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

# Runs seeds under a policy: model POLICY "SEED..." [MODE [PAGES [THREADS]]].  Nothing may stay live
# where all is unmapped that is to be, and one thread sees what it sees bare where no call is
# refused.
model() {
    local seed bare
    for seed in ${SEEDS:-$2}; do
        echo "seed $seed ${*:3} with $SIM_MEMORY_MIB MiB under: $1"
        bare=
        [[ -n ${3:-} || ${5:-1} != 1 ]] || bare=$(timeout 60 "$program" "$seed" "${STEPS:-50}")
        rm -f "$SIM_LEAKS"
        run -0 --separate-stderr under_policy "$1" timeout 60 "$program" "$seed" "${STEPS:-50}" \
            "${@:3}"
        [[ -z $bare || $output == "$bare" ]]
        printed+=$output said+=$stderr
        [[ -e $SIM_LEAKS && (${3:-} == *u* || ! -s $SIM_LEAKS) ]] || { cat "$SIM_LEAKS"; return 1; }
    done
}

@test "random arrays read what they read bare, with nothing ahead, something, and much" {
    for SIM_MEMORY_MIB in 256 8192 60000; do
        export SIM_MEMORY_MIB
        model "$GROW" '3 5'
        model "$GROW"$'\nchunk = 2M' '7'
    done
}

@test "random arrays of rules that differ read what they read bare" {
    export SIM_MEMORY_MIB=8192 odd='nth = 1, 3, 5, 6, 9, 10, 14, 20..30, 41, 44, 50..70'
    model "[rule odd]
$odd
rdma = no
$GROW
[rule even]
$GROW" '8'
    model "[rule odd]
$odd
$GROW
[rule even]
$GROW" '10'
    model "[rule eager]
nth = 2, 7, 11, 12, 31..35
place = vmm
[rule lazy]
nth = 3, 8, 13..15, 36..38
commit = lazy
place = vmm
[rule plain]
nth = 4, 9, 39..41
place = device
[rule far]
nth = 5, 6, 42
place = mapped
[rule rest]
$GROW" '11'
}

@test "random arrays of two threads read what was written, however late the streams are" {
    export SIM_MEMORY_MIB=8192 SIM_DELAY_US=100
    model "$GROW" '13' '' 700 2
}

@test "random arrays keep what they hold where a device has no memory left" {
    export SIM_MEMORY_MIB=128
    for keys in '' $'\nchunk = 2M'; do
        model "$GROW$keys" '3000 3005' t 6000
    done
    [[ $printed == *refused* && $said == *libzc:* ]]
}

@test "random arrays keep what they hold where calls of the driver fail" {
    for SIM_MEMORY_MIB in 256 60000; do
        export SIM_MEMORY_MIB
        model "$GROW" '1005 1008' f
        model "$GROW" '1018' u
    done
    [[ $printed == *refused* && $said == *libzc:* ]]
}
