#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the driver reads of the program's memory by itself lies in the host block of a pair.  The
# driver holds its locks meanwhile, so it must not meet a page that is closed.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_arguments

setup() {
    pairs_setup
}

# A scene: the same as bare, and other pages are shared still.
still() {
    same "$1" ''
    [[ $(sum elided_bytes) -ge $((4 * 1024 * 1024)) && $(sum conflicts) -eq 0 ]]
}

@test "a kernel's arguments may lie in a pair, as an array with its values" {
    still as_array
    still as_values
}

@test "a kernel's arguments may lie in a pair, packed in a buffer" {
    still packed
}

@test "a launch's configuration and attributes may lie in a pair" {
    still configured
}

@test "a kernel's arguments may lie in another pair than its data" {
    still of_another
}

@test "a driver that does not tell of a kernel's arguments gets them all the same" {
    export SIM_WITHOUT=cuFuncGetParamInfo,cuKernelGetParamInfo
    still as_array
}

@test "nodes of graphs and lists of operations may lie in a pair" {
    still nodes
    still operations
}

@test "code in pages that a kernel closed is a conflict that names the rule" {
    scene code ''
    [[ $status -eq 134 && $stderr == *"the CPU reads byte 0 of host block 1"*"rule device ("* ]]
}

@test "arguments stay readable while another thread copies their page and launches" {
    still two_threads
}
