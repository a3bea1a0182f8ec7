#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each call of CUDA that meets a pair has a defined answer: what it means with two memories, or an
# error with a message.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_calls

setup() {
    pairs_setup
}

@test "sets of the device block leave the host block alone" {
    both sets
}

@test "copies and sets that no memory takes are refused, and blame no rule" {
    both malformed
    [[ $output == *'-> 1'* && $output != *'-> 0'* && $stderr != *returned* ]]
}

@test "copies between device blocks, and from other host memory, reach the right side" {
    both device_to_device
}

@test "parts are copied byte by byte, at the same offset and at another" {
    both partial
    [[ $stderr != *"not its own"* ]]
}

@test "rectangles are copied row by row" {
    both rectangles
}

@test "cudaMemcpyDefault copies where both sides hold the same" {
    both either
    [[ $(sum elided_copies) -eq 2 ]]
}

@test "cudaMemcpyDefault is refused by name where it matters which side is meant" {
    scene unclear ''
    [[ $status -eq 0 && $(grep -c -e "-> 1$" <<<"$output") -eq 4 ]]
    [[ $(grep -c "leaves open which of the two" <<<"$stderr") -eq 4 ]]
    [[ $stderr == *"rule device ("*"policy.conf:5)"* ]]
}

@test "asynchronous copies and sets keep the order of a busy stream" {
    both busy
}

@test "a set on a stream that waits for the program does not wait" {
    same waiting_set ''
}

@test "results of asynchronous copies stay when the program waits for its stream afterwards" {
    same waits_after ''
}

@test "graphs hold the pointer, and captured copies between both sides are refused by name" {
    scene captures ''
    [[ $status -eq 0 && $output == *"-> 900"*"-> 900" ]]
    [[ $stderr == *"its stream is being captured"* ]]
}

@test "copies beside a capture end it in no stream" {
    both beside_a_capture
    [[ $output == *'cuStreamEndCapture(s, &graph) -> 0' ]]
}

@test "a graph whose block got a host side is refused at its next launch" {
    scene joined_graph ''
    [[ $status -eq 0 && $output == *"-> 801" && $stderr == *"same address 1"* ]]
    [[ $stderr == *"cuGraphLaunch returned 801"* ]]
}

@test "a captured set of what kernels may not write is refused by name" {
    scene joined_graph 'access = read'
    [[ $status -eq 1 && $stderr == *"cuMemsetD8Async returned 900"*"access = read"* ]]
}

@test "batches, IPC and registration by the program are refused by name" {
    scene refused ''
    [[ $status -eq 0 ]]
    [[ $output == *"cuIpcGetMemHandle(&handle, p.d) -> 1"* ]]
    [[ $output == *"cuMemHostRegister(p.h, SIZE, 0) -> 712"* ]]
    [[ $output != *Batch* || $output == *"cuMemcpyBatchAsync"*"-> 801"* ]]
    [[ $stderr == *"cuIpcGetMemHandle returned 1"*"rule device ("*"cuMemHostRegister"*"712"* ]]
}

@test "nodes that the driver refuses for what kernels may not write name the rule" {
    scene nodes 'access = read'
    [[ $status -eq 0 && $(grep -c -e '-> 1$' <<<"$output") -eq 2 ]]
    for call in cuGraphAddMemcpyNode cuGraphAddNode_v2; do
        [[ $stderr == *"$call returned 1 for device block 2 "*"which rule device ("* ]]
    done
}

@test "a host block that the program registered itself is not paired" {
    both registered
    [[ $stderr == *"same address 0"* && $stderr != *"pair = site"* ]]
}

# CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, and ..._USES_HOST_PAGE_TABLES.
@test "nothing is paired where a device reaches pageable memory, and the log says why" {
    for attribute in 88 100; do
        export SIM_ATTR=$attribute=1
        device_place='shared, mapped' same given_h ''
        [[ $output == "h is 200" && -z $pairs ]]
        run -0 jq -r 'select(.type == "alloc" and .api == "cuMemAlloc") | "\(.place): \(.why)"' \
            "$ZC_LOG"
        [[ $output == "mapped: shared: a device reaches pageable memory (HMM, ATS)" ]]
    done
}

@test "questions about the device block are answered as for device memory" {
    both answers
    # Both have one address, and the device block is what the driver is asked about.
    [[ $stderr == *"type of the host block 2"*"and without device block -1"* ]]
}

@test "a question about a pair whose blocks differ is told once, and counts as a refused call" {
    scene asks ''
    [[ $status -eq 0 && $stderr == "while both are one: 2"* ]]
    # By h that was written, and by d that a kernel changed: two pairs.
    [[ $(grep -c "libzc: .* asks about " <<<"$stderr") -eq 2 ]]
    local rule='rule device ('
    [[ $stderr == *"cuPointerGetAttribute asks about "*"host block 1 "*"$rule"*"policy.conf:5)"* ]]
    [[ $stderr == *"cuMemGetAddressRange_v2 asks about "*"device block "*"$rule"* ]]
    grep -q '"refused_calls":2,' "$ZC_LOG"
    [[ $(grep -c '"code":"asked"' "$ZC_LOG") -eq 2 ]]
}

@test "arrays are copied from the side that the program names" {
    both arrays
}

@test "an array is not copied into what kernels may only read, and the rule is named" {
    scene arrays 'access = read' read
    [[ $status -eq 0 && $stderr == *"into what is read: 1"* ]]
    [[ $stderr == *"cuMemcpy2D_v2 returned 1"*"rule device ("*"the driver itself copies arrays"* ]]
}

@test "peer copies reach memory that only the other device's context does" {
    export SIM_DEVICES=2
    PROGRAM=${PROGRAM%/*}/shared_peers
    need_built "$PROGRAM"
    both peers
    both busy_peer
}

@test "a program may end with live pairs" {
    scene leaves ''
    [[ $status -eq 0 && $(wc -l <<<"$pairs") -eq 2 ]]
}

@test "a driver call that fails costs speed, or is told, and never bytes" {
    local refused='returned [0-9]* for .*rule device \(' codes=''
    for call in cuMemHostRegister_v2:2:0 cuMemHostRegister_v2:2:1 cuMemHostUnregister:1:1 \
        cuStreamSynchronize:999:1 cuStreamSynchronize:999:3 cuEventSynchronize:999:1 \
        cuMemcpyHtoDAsync_v2:2:1 cuMemcpyDtoHAsync_v2:2:1 cuMemsetD8_v2:999:1; do
        for s in sets partial device_to_device rectangles busy arrays; do
            echo "$call $s"
            SIM_FAIL=$call device_place='shared, mapped' scene "$s" ''
            [[ $status -eq 0 || ($status -eq 1 && $stderr == *" gave "* && $stderr =~ $refused) ]]
            codes+="${call%%:*} $status "
        done
    done
    for call in HostUnregister cpyHtoDAsync_v2 cpyDtoHAsync_v2 setD8_v2; do
        [[ $codes == *"cuMem$call 1 "* ]]
    done
}
