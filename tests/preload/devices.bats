#!/usr/bin/env bats
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

@test "a block freed in a stream of another device is not reused before that stream passed" {
    everywhere free
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
    for conflict in stop reveal; do
        ZC_LOG=$BATS_TEST_TMPDIR/$conflict ZC_LOG_LEVEL=allocs run -0 --separate-stderr \
            under_policy "[rule host]
api = malloc
size = 2M..
place = shared
[rule device]
api = cudaMalloc
place = shared
conflict = $conflict" timeout 60 "$ZC_BUILD/kernels/peers-shared" 1048576
        [[ $(json_field checksum <<<"$output") == "$bare" && -n $bare ]]
        grep -q '^{"type":"pair".*"host_block":[0-9].*"elided_copies":[1-9]' \
            "$BATS_TEST_TMPDIR/$conflict"
    done
}
