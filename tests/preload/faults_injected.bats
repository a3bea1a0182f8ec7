#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every driver call that a block's life needs is made to fail in turn: the request goes to the next
# place or the program gets the driver's code, no byte is wrong, and nothing is lost.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/faults
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
}

# The driver calls that the program and libzc make in a place, but for those that start the process.
calls_in() {
    rm -f "$BATS_TEST_TMPDIR/trace"
    SIM_TRACE=$BATS_TEST_TMPDIR/trace under_policy "$1" "$program" $2
    cut -d ' ' -f 1 "$BATS_TEST_TMPDIR/trace" | sort -u |
        grep -vE '^cu(Init|DevicePrimaryCtx|CtxSetCurrent|GetProcAddress|StreamCreate)'
}

# Fails each call in a place; $2 calls must be among them, or the test would test nothing.  $3: -g
# for an array that grows, -b for large copies, -p for blocks that another device uses, -v
# for a program that maps memory itself.
fail_each_call() {
    local -a calls
    local needed
    mapfile -t calls < <(calls_in "$1" "${3:-}")
    for needed in $2; do
        [[ " ${calls[*]} " == *" $needed "* ]] || { echo "not called: $needed"; return 1; }
    done
    run -0 --separate-stderr under_policy "$1" timeout 100 "$program" ${3:-} "${calls[@]}"
    [[ -z $output ]]
    [[ $stderr != *'Segmentation'* ]]
}

@test "in device memory" {
    fail_each_call 'place = device' 'cuMemAlloc_v2 cuMemFree_v2 cuMemAllocAsync cuMemFreeAsync'
}

@test "in mapped memory, whose list ends at the device" {
    fail_each_call 'place = mapped' \
        'cuMemHostRegister_v2 cuMemHostUnregister cuMemHostAlloc cuMemFreeHost'
}

@test "in managed memory, then vmm" {
    fail_each_call 'place = managed, vmm' 'cuMemAllocManaged cuMemFree_v2'
}

# Large blocks are in host memory, or in both.
SPILL=$'[defaults]\nmax_pinned = 9M\nmax_device = 4M\n[rule all]\n'
SPILL+=$'place = vmm, mapped\nspill = move\nchunk = 2M\nbudget = 3M'

@test "in vmm memory, some of it host memory, then mapped" {
    for policy in "$SPILL" "${SPILL/3M/2560K}"; do
        fail_each_call "$policy" 'cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess
            cuMemUnmap cuMemRelease cuMemAddressFree cuMemGetAllocationGranularity'
    done
}

@test "in vmm memory that is attached lazily" {
    fail_each_call "$SPILL"$'\ncommit = lazy' 'cuMemAddressReserve cuMemCreate
        cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressFree'
}

@test "while an array grows, in each place and by remaps" {
    for place in device managed vmm; do
        fail_each_call "place = $place" cuMemcpyDtoD_v2 -g
    done
    fail_each_call 'place = mapped' cuMemHostRegister_v2 -g
    fail_each_call $'place = vmm, mapped\ngrow = yes' 'cuMemAddressReserve cuMemCreate cuMemMap
        cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressFree cuMemcpyDtoDAsync_v2
        cuStreamSynchronize' -g
    fail_each_call $'place = vmm, device\ngrow = yes\nchunk = 2M' 'cuMemCreate cuMemMap' -g
}

@test "in a program that maps memory itself" {
    local calls='cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap cuMemRelease cuMemAddressReserve
        cuMemAddressFree cuMemRetainAllocationHandle cuMemGetAllocationPropertiesFromHandle'
    fail_each_call 'place = mapped' "$calls" -v
}

@test "while another device copies blocks and gets and loses peer access" {
    export SIM_DEVICES=2
    local calls='cuCtxEnablePeerAccess cuCtxDisablePeerAccess cuCtxGetDevice cuCtxGetCurrent
        cuMemcpyDtoD_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoDAsync_v2 cuMemPoolSetAccess'
    fail_each_call 'place = device' "$calls" -p
    calls+=' cuMemSetAccess cuDeviceGetCount cuMemMap cuMemUnmap'
    for keys in '' $'\ncommit = lazy\nchunk = 2M'; do
        fail_each_call "place = vmm$keys" "$calls" -p
    done
}

@test "a place that fails is named in the log, whatever the code" {
    need_built "$ZC_BUILD/tests/preload/programs/requests"
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    while read -r place call; do
        for code in 1 2 801 999; do
            rm -f "$ZC_LOG"
            SIM_FAIL=$call:$code:1 run -0 under_policy "place = $place, device" \
                "$ZC_BUILD/tests/preload/programs/requests" 3
            grep -q '"place":"device".*"why":"'"$place: ${call%_v2} refuses"'"' "$ZC_LOG"
        done
    done <<-END
	mapped cuMemHostRegister_v2
	managed cuMemAllocManaged
	vmm cuMemAddressReserve
	vmm cuMemCreate
	vmm cuMemMap
	vmm cuMemSetAccess
	END
}

@test "an error that all calls give, as after a fault of the GPU, reaches the program" {
    need_built "$ZC_BUILD/tests/preload/programs/placing"
    for place in device mapped managed vmm; do
        SIM_FAIL=cuStreamSynchronize:700:0,cuEventSynchronize:700:0,cuMemcpyDtoH_v2:700:0 \
            run -1 under_policy "place = $place" timeout 30 \
            "$ZC_BUILD/tests/preload/programs/placing" sync_order
        [[ $output == *'gave 700'* ]]
    done
}
