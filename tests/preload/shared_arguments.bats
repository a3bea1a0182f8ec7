#!/usr/bin/env bats
# What the driver reads of the program's memory by itself lies in the host block of a pair.  The
# driver holds its locks meanwhile, so it must not meet a page that is closed.

load common.bash
load pairs.bash

PROGRAM=$PWD/$ZC_BUILD/tests/preload/programs/shared_arguments

setup() {
    pairs_setup
}

# A scene under both kinds of `conflict`: the same as bare, and other pages are shared still.
either() {
    same "$1" ''
    [[ $(sum elided_bytes) -ge $((4 * 1024 * 1024)) && $(sum conflicts) -eq 0 ]]
    same "$1" 'conflict = reveal'
    [[ $(sum elided_bytes) -ge $((4 * 1024 * 1024)) && $(sum conflicts) -eq 0 ]]
}

@test "a kernel's arguments may lie in a pair, as an array with its values" {
    either as_array
    either as_values
}

@test "a kernel's arguments may lie in a pair, packed in a buffer" {
    either packed
}

@test "a launch's configuration and attributes may lie in a pair" {
    either configured
}

@test "a kernel's arguments may lie in another pair than its data" {
    either of_another
}

@test "a driver that does not tell of a kernel's arguments gets them all the same" {
    export SIM_WITHOUT=cuFuncGetParamInfo,cuKernelGetParamInfo
    either as_array
}

@test "nodes of graphs and lists of operations may lie in a pair" {
    either nodes
    either operations
}

@test "code, options and names in pages that a kernel closed are revealed before they are read" {
    same code 'conflict = reveal'
    [[ $(sum conflicts) -eq 3 ]]
}

@test "code in pages that a kernel closed is a conflict that names the rule" {
    scene code ''
    [[ $status -eq 134 && $stderr == *"the CPU reads byte 0 of host block 1"*"rule device ("* ]]
}

@test "arguments stay readable while another thread copies their page and launches" {
    either two_threads
}
