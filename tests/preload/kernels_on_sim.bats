#!/usr/bin/env bats
# Every program of kernels/ on the simulated GPU: bare, and under libzc with device memory in every
# place.  The places must not change one byte of the results, so the checksums are compared.

load common.bash

# The programs' own checksums: their results depend on the default sizes alone.
declare -gA checksum=(
    [vecadd]=9d0e67017e137fbd
    [gather]=8279ad58ec61ad0d
    [driver_saxpy]=67644eb07900fba6
    [pipeline]=809e8bcf3ed90305
    [pooled]=ecd5d3c4fcede23d
    [pitched]=46aca15ba3c4d451
    [graph]=7b9a4143750c09f2
)

# The builds that the simulation can run: the static runtime needs private tables of the driver.
builds() {
    case $1 in
    driver_saxpy) echo "$ZC_BUILD/kernels/$1" ;;
    *) echo "$ZC_BUILD/kernels/$1-shared" "$ZC_BUILD/kernels/$1-ptds" ;;
    esac
}

# Fails unless the last `run` printed one line with the checksum of a program that verified itself.
expect_result() {
    [[ $status -eq 0 ]]
    [[ ${#lines[@]} -eq 1 ]]
    [[ $(json_field program <<<"$output") == "$1" ]]
    [[ $(json_field verified <<<"$output") == true ]]
    [[ $(json_field checksum <<<"$output") == "${checksum[$1]}" ]]
}

bare() {
    local program
    need_built $(builds "$1") "$SIM/kernels/$1.so"
    sim_env "$1"
    for program in $(builds "$1"); do
        run --separate-stderr "$program"
        expect_result "$1"
    done
}

under_every_place() {
    local program place
    need_built "$LIBZC" $(builds "$1") "$SIM/kernels/$1.so"
    sim_env "$1"
    for program in $(builds "$1"); do
        for place in device mapped managed vmm; do
            echo "$program in $place memory"
            run --separate-stderr under_policy "place = $place" "$program"
            expect_result "$1"
            [[ $stderr != *policy.conf:* ]]
            # The summary has a row for every place with blocks; a pool's blocks cannot be mapped.
            [[ $1 == pooled ]] || grep -q "^$place " <<<"$stderr"
        done
    done
}

@test "vecadd computes the right sums on the simulated GPU" { bare vecadd; }
@test "gather fetches the right rows on the simulated GPU" { bare gather; }
@test "driver_saxpy computes the right sums on the simulated GPU" { bare driver_saxpy; }
@test "pipeline orders copies and kernels of its streams on the simulated GPU" { bare pipeline; }
@test "pooled reuses stream-ordered memory safely on the simulated GPU" { bare pooled; }
@test "pitched keeps rows, slices, arrays and symbols apart on the simulated GPU" { bare pitched; }
@test "graph replays its captured step on the simulated GPU" { bare graph; }

@test "vecadd gives the same bytes in every place" { under_every_place vecadd; }
@test "gather gives the same bytes in every place" { under_every_place gather; }
@test "driver_saxpy gives the same bytes in every place" { under_every_place driver_saxpy; }
@test "pipeline gives the same bytes in every place" { under_every_place pipeline; }
@test "pooled gives the same bytes in every place" { under_every_place pooled; }
@test "pitched gives the same bytes in every place" { under_every_place pitched; }
@test "graph gives the same bytes in every place" { under_every_place graph; }

@test "every program gives the same bytes where host and device blocks are one" {
    local program build
    need_built "$LIBZC"
    for program in "${!checksum[@]}"; do
        need_built $(builds "$program") "$SIM/kernels/$program.so"
        sim_env "$program"
        for build in $(builds "$program"); do
            run --separate-stderr under_policy "[rule host]
api = malloc, calloc, realloc, posix_memalign
place = shared
[rule device]
api = cudaMalloc, cudaMallocPitch, cudaMallocAsync
place = shared, mapped" "$build"
            expect_result "$program"
            # Programs whose blocks are large enough for pairs, and copied from one to the other.
            [[ $program != @(vecadd|gather|driver_saxpy) ]] || grep -q "^shared: " <<<"$stderr"
        done
    done
}

@test "a stream that runs late shows no wrong order in pipeline" {
    need_built $(builds pipeline) "$SIM/kernels/pipeline.so"
    sim_env pipeline
    for program in $(builds pipeline); do
        SIM_DELAY_US=300 run --separate-stderr "$program"
        expect_result pipeline
    done
}

@test "other sizes give other results, still verified" {
    need_built $(builds gather) "$SIM/kernels/gather.so"
    sim_env gather
    run --separate-stderr "$ZC_BUILD/kernels/gather-shared" 1000 64 10
    [[ $status -eq 0 ]]
    [[ $(json_field gathered_rows <<<"$output") == 100 ]]
    [[ $(json_field verified <<<"$output") == true ]]
    [[ $(json_field checksum <<<"$output") != "${checksum[gather]}" ]]
}

@test "bad sizes are refused with exit status 2 and a message that names them" {
    need_built "$ZC_BUILD/kernels/vecadd-shared"
    sim_env vecadd
    for size in 0 -1 1x '' ' 5' 99999999999999999999999; do
        run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared" "$size"
        [[ $status -eq 2 ]]
        [[ -z $output ]]
        [[ $stderr == *elements* ]]
    done
    run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared" 5 5
    [[ $status -eq 2 ]]
    [[ $stderr == *usage* ]]
}

@test "a failing CUDA call ends a program with exit status 3 and the call's name" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    SIM_FAIL=cuMemAlloc_v2:2:3 run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared"
    [[ $status -eq 3 ]]
    [[ $stderr == *"cudaMalloc(&device_c, bytes)"*cudaErrorMemoryAllocation* ]]
}

@test "the shared runtime gives its library and its context back at exit" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    SIM_TRACE=$BATS_TEST_TMPDIR/trace run "$ZC_BUILD/kernels/vecadd-shared"
    expect_result vecadd
    run tail -n 2 "$BATS_TEST_TMPDIR/trace"
    [[ ${lines[0]} == cuLibraryUnload* ]]
    [[ ${lines[1]} == cuDevicePrimaryCtxRelease* ]]
}

@test "wrong bytes from the GPU end a program with exit status 1" {
    need_built "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/wrong_vecadd.so"
    sim_env wrong_vecadd
    run --separate-stderr "$ZC_BUILD/kernels/vecadd-shared"
    [[ $status -eq 1 ]]
    [[ $(json_field verified <<<"$output") == false ]]
}
