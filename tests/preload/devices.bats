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
