#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each call of CUDA that meets a pair means what it means with two memories; the log says what
# became of the pair.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_calls

setup() {
    pairs_setup
}

# A scene after which each pair that was one has memory of its own, for a reason.
owned() {
    both "$1"
    [[ $(sum elided_copies) -ge 1 && $(ended own "$2") -ge 1 && $(ended one) -eq "${3:-0}" ]]
}

@test "sets of the device block leave the host block alone" {
    owned sets 'something else'
}

@test "copies and sets that no memory takes are refused, and blame no rule" {
    both malformed
    [[ $output == *'-> 1'* && $output != *'-> 0'* && $stderr != *returned* ]]
}

@test "copies between device blocks, and from other host memory, reach the right side" {
    owned device_to_device 'something else'
}

@test "parts are copied byte by byte, at the same offset and at another" {
    owned partial ''
    [[ $(sum copied_bytes) -ge 1 ]]
}

@test "rectangles are copied row by row" {
    owned rectangles 'something else'
}

@test "rows, and what the driver refuses, leave the other bytes of a host block that is one" {
    both rows_into_h
    [[ $output == *'-> 1' && $(sum elided_copies) -eq 1 ]]
}

@test "copies that name addresses alone mean what lies there" {
    owned by_address 'something else'
    [[ $(sum elided_copies) -eq 1 && $(sum copied_bytes) -eq $((3 << 20)) ]]
}

@test "asynchronous copies and sets keep the order of a busy stream" {
    owned busy 'may wait for the CPU'
}

@test "a set on a stream that waits for the program does not wait" {
    owned waiting_set 'may wait for the CPU'
}

@test "nothing becomes one while a stream waits for a value that the CPU is to write" {
    owned waiting_stream 'may wait for the CPU'
    [[ $(sum elided_copies) -eq 1 ]]
}

@test "operations of a stream write the device block alone" {
    owned operations 'no copy'
}

@test "copies beside a capture end it in no stream" {
    owned beside_a_capture 'something else'
    [[ $output == *'cuStreamEndCapture(s, &graph) -> 0' ]]
}

@test "captured copies between both sides are made at each launch" {
    of shared_graphs owned captured 'something else'
    of shared_graphs owned captured_back 'a graph copies it'
}

@test "a graph that was made before the host block reads and sets what it named" {
    of shared_graphs both older_graph
    [[ $(ended own 'a graph copies it') -eq 1 ]]
    of shared_graphs both sets
    [[ $(ended own) -eq 1 ]]
}

@test "nodes of graphs write either side alone" {
    of shared_graphs both nodes_into_h
    [[ $(ended one) -eq 1 ]]
    of shared_graphs owned nodes_into_d 'no copy'
    of shared_graphs owned changed_nodes 'no copy' 1
}

@test "batches of copies are made" {
    owned batch 'no copy'
}

@test "arrays are copied from either side, and into both" {
    owned arrays 'something else'
}

@test "a handle for other processes is refused by name, as for other memory that is mapped" {
    scene ipc 'access = read' read
    [[ $status -eq 0 && $output == *"cuIpcGetMemHandle(&handle, p.d) -> 1" ]]
    [[ $stderr == *"cuIpcGetMemHandle returned 1"*"rule device ("* ]]
    same ipc ''
}

@test "a host block that the program registered itself is not shared" {
    both registered
    [[ $(sum elided_copies) -eq 0 && $(ended own) -eq 1 ]]
}

@test "a host block that the program registers when it is shared is its own again" {
    owned registers 'registers its host block'
}

@test "the device sees a host block that the program registered after a fork, and new rights" {
    both registered_changed
}

@test "what the driver reads and writes by itself may lie in a host block that is shared" {
    both driver_in_h
    [[ $(ended one) -eq 1 && $(sum elided_copies) -eq 2 ]]
}

@test "questions about either side are answered as without libzc, whatever was written" {
    owned answers 'something else'
}

# CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, and ..._USES_HOST_PAGE_TABLES.
@test "nothing is shared where a device reaches pageable memory, and the log says why" {
    for attribute in 88 100; do
        SIM_ATTR=$attribute=1 same given_h 'access = read' read
        [[ $output == "h is 200" && -z $pairs ]]
        grep -q '"why":"shared: a device reaches pageable memory (HMM, ATS)' "$ZC_LOG"
        [[ $stderr == *"makes no pairs, because a device reaches"*"'zc doctor --measure'"* ]]
    done
    both given_h
    [[ $(ended one) -eq 1 ]]
}

@test "peer copies reach memory that only the other device's context does" {
    export SIM_DEVICES=2
    of shared_peers owned peers 'something else'
    of shared_peers both busy_peer
}

@test "kernels of another device read a block that is shared, and one that no longer is" {
    export SIM_DEVICES=2
    of shared_peers owned peer_kernel 'something else'
}

@test "a host block that goes to two devices is one with the first one's block" {
    export SIM_DEVICES=2
    of shared_peers both each_device
    [[ $(ended one) -eq 2 && $(ended own 'one with another') -eq 1 ]]
}

@test "a program may end with live pairs" {
    scene leaves 'access = read'
    [[ $status -eq 0 && $(ended one) -eq 2 ]]
}

@test "a driver call that fails costs speed, or is told, and never bytes" {
    local refused='returned [0-9]* for .*rule device \(' codes=''
    for call in cuMemHostRegister_v2:2:0 cuMemHostRegister_v2:2:1 cuMemHostUnregister:1:1 \
        cuMemAddressReserve:2:1 cuMemAddressReserve:2:2 cuMemCreate:2:1 cuMemMap:2:1 \
        cuMemSetAccess:999:1 cuMemUnmap:999:1 cuStreamCreate:2:1 \
        cuMemcpyHtoDAsync_v2:2:1; do
        for s in sets partial device_to_device rectangles arrays; do
            echo "$call $s"
            SIM_FAIL=$call scene "$s" 'access = read' read
            [[ $status -eq 0 || ($status -eq 1 && $stderr == *" gave "* && $stderr =~ $refused) ]]
            codes+="${call%%:*} $status "
        done
    done
    echo "$codes"
    for call in cuMemHostUnregister cuMemCreate cuMemMap cuMemcpyHtoDAsync_v2; do
        [[ $codes == *"$call 1 "* ]]
    done
}
