#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Several GPUs: programs use blocks of one device through streams of another.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/devices
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 SIM_DEVICES=2
}

# Runs a scenario bare and in every place: everywhere SCENARIO
everywhere() {
    run -0 timeout 30 "$program" "$1"
    for place in device mapped managed vmm; do
        echo "in $place memory:"
        run -0 under_policy "place = $place" timeout 30 "$program" "$1"
    done
}

@test "a copy through a stream of another device waits for that stream" {
    everywhere copy
}

@test "copies of pageable memory by threads go through a stream of another device too" {
    run -0 timeout 30 "$program" pageable_copy
    run -0 under_policy $'[defaults]\npageable_copy = parallel' timeout 30 "$program" pageable_copy
}

@test "a block freed in a stream of another device is not reused before that stream passed" {
    everywhere free
}

# Runs a scenario bare and in vmm memory, attached at once, late and growing: the same must be said.
# mapped_by_hand SCENARIO
mapped_by_hand() {
    export SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
    run -0 timeout 30 "$program" "$1"
    bare=$output
    for keys in '' $'\ncommit = lazy' $'\ngrow = yes'; do
        echo "vmm$keys:"
        rm -f "$SIM_LEAKS"
        run -0 --separate-stderr under_policy "place = vmm$keys" timeout 30 "$program" "$1"
        [[ $output == "$bare" ]]
        [[ ! -s $SIM_LEAKS || $output == *700 ]]
    done
}

@test "kernels of another device reach a vmm block from the first peer access on, and only then" {
    mapped_by_hand peer_not_enabled
    [[ $output == 'kernel 700' ]]
    run -0 timeout 30 "$program" peer_disabled
    [[ $output == $'kernel 0\nkernel 700' ]]
    for place in mapped managed vmm; do
        run -0 under_policy "place = $place" timeout 30 "$program" peer_disabled
        [[ $output == $'kernel 0\nkernel 0' ]]
    done
}

@test "a block that a copy opened to a device is closed to it once it is freed" {
    run -0 timeout 30 "$program" peer_copied_before
    [[ $output == 'kernel 700' ]]
    for keys in '' $'\ncommit = lazy'; do
        run -0 --separate-stderr under_policy "place = vmm$keys" timeout 30 "$program" \
            peer_copied_before
        [[ $output == 'kernel 700' ]]
    done
}

@test "peer access covers blocks made before it was enabled and after, and freed ones" {
    everywhere peer_enabled
    mapped_by_hand peer_enabled
}

@test "copies reach a vmm block through any device, without peer access" {
    mapped_by_hand far_copies
    mapped_by_hand far_batch
    mapped_by_hand far_ways
}

@test "copies between blocks of two devices find every byte where one is in host memory" {
    local keys scene
    run -0 timeout 60 "$program" far_ways
    run -0 timeout 60 "$program" far_graphs
    [[ -z $output ]]
    for keys in 'spill = move'$'\nbudget = 8M' 'spill = fetch'$'\nbudget = 8M' \
        'spill = move'$'\nbudget = 5M'; do
        for scene in far_ways far_graphs; do
            echo "$scene, $keys:"
            export ZC_LOG=$BATS_TEST_TMPDIR/$scene.jsonl ZC_LOG_LEVEL=allocs
            rm -f "$ZC_LOG"
            run -0 under_policy "size = 4M"$'\nplace = vmm\nchunk = 2M\n'"$keys" \
                timeout 60 "$program" $scene
            [[ $(grep -c '"spilled_bytes":[1-9]' "$ZC_LOG") -ge 2 ]]
        done
    done
}

@test "a peer copy without a stream waits for both devices" {
    everywhere peer_order
    run -0 --separate-stderr under_policy $'[rule host]\napi = malloc\nplace = shared
[rule device]\napi = cudaMalloc\nplace = shared\naccess = read' timeout 30 "$program" peer_order
    [[ -z $stderr ]]
}

@test "peer access that the driver can't give for a block is not enabled" {
    run -0 under_policy 'place = vmm' timeout 30 "$program" peer_refused
    [[ $output == $'enable 2\ndisable 705\nkernel 0' ]]
}

@test "no rule is named for a mapping of the program's that the current device may not use" {
    mapped_by_hand own_mapping
    [[ $output == *'-> 1'*'-> 1'*'-> 0' && -z $stderr ]]
}

@test "a vmm block is opened to no device that does not use it" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    run -0 under_policy 'place = vmm' timeout 30 "$program" peer_disabled
    [[ $(grep -c '^cuMemSetAccess ' "$SIM_TRACE") == 2 ]] # Made, enabled.
}

@test "memory of one device is not held against another's" {
    export SIM_MEMORY_MIB=16 SIM_MANAGED=untouched
    run -0 timeout 30 "$program" apart
    for place in device vmm; do
        run -0 under_policy $'[rule near]\nsize = 8M\nplace = managed\n[rule far]\nsize = 12M
place = '"$place" timeout 30 "$program" apart
    done
    export SIM_MEMORY_MIB=128 ZC_LOG_LEVEL=allocs
    unset SIM_MANAGED
    everywhere free_apart
    [[ $output == 100 ]]
    for keys in '' $'\ncommit = lazy' $'\ngrow = yes'; do
        export ZC_LOG=$BATS_TEST_TMPDIR/${keys#$'\n'}.jsonl
        run -0 under_policy "place = vmm$keys" timeout 30 "$program" free_apart
        [[ $output == 100 && $(grep -c '"type":"alloc".*"place":"vmm"' "$ZC_LOG") == 2 ]]
    done
    for limit in '[defaults]' $'[defaults]\nmax_managed = 95%'; do
        export ZC_LOG=$BATS_TEST_TMPDIR/managed-${#limit}.jsonl
        run -0 under_policy "$limit"$'\n[rule all]\nplace = managed' timeout 30 "$program" \
            free_apart
        [[ $(grep -c '"type":"alloc".*"place":"managed"' "$ZC_LOG") == 2 ]]
    done
}

@test "peer copies and kernels of another device give the same bytes in every place" {
    need_built "$ZC_BUILD/kernels/peers-shared" "$SIM/kernels/peers.so"
    sim_env peers
    for build in shared ptds; do
        run -0 timeout 60 "$ZC_BUILD/kernels/peers-$build"
        bare=$(json_field checksum <<<"$output")
        for place in device mapped managed vmm; do
            run -0 --separate-stderr under_policy "place = $place" timeout 60 \
                "$ZC_BUILD/kernels/peers-$build"
            [[ $(json_field checksum <<<"$output") == "$bare" && -n $bare ]]
        done
    done
}

@test "peer copies and kernels of another device see a pair's device block" {
    need_built "$ZC_BUILD/kernels/peers-shared" "$SIM/kernels/peers.so"
    sim_env peers
    run -0 timeout 60 "$ZC_BUILD/kernels/peers-shared" 1048576
    bare=$(json_field checksum <<<"$output")
    ZC_LOG=$BATS_TEST_TMPDIR/log ZC_LOG_LEVEL=allocs run -0 --separate-stderr \
        under_policy "[rule host]
api = malloc
size = 2M..
place = shared
[rule device]
api = cudaMalloc
place = shared
access = read" timeout 60 "$ZC_BUILD/kernels/peers-shared" 1048576
    [[ $(json_field checksum <<<"$output") == "$bare" && -n $bare ]]
    grep -q '^{"type":"pair".*"host_block":[0-9].*"elided_copies":[1-9]' "$BATS_TEST_TMPDIR/log"
}
