#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Driver calls that neither table of libzc's names: they find the memory of rules as the program
# believes it to be, whatever their signature, and are told.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/unknown
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0 SIM_LEAKS=$BATS_TEST_TMPDIR/leaks
}

staged='[rule host]
api = malloc
size = 1M..
place = pinned
'

# Policies of device and host blocks, by name.
declare -gA policies=(
    [nothing]='[defaults]
log_level = allocs'
    [mapped]="$staged[rule device]
api = cudaMalloc
place = mapped"
    [managed]="$staged[rule device]
api = cudaMalloc
place = managed"
    [vmm]="$staged[rule device]
api = cudaMalloc
place = vmm"
    [lazy]="$staged[rule device]
api = cudaMalloc
place = vmm
commit = lazy"
    [growing]="$staged[rule device]
api = cudaMalloc
place = vmm
grow = yes"
    [moving]="$staged[rule device]
api = cudaMalloc
place = vmm
spill = move"
    [tables]="${staged/pinned/shared}[rule device]
api = cudaMalloc
place = shared
access = read"
)

# Runs a scenario under a policy: under POLICY SCENARIO
under() {
    rm -f "$SIM_LEAKS"
    run --separate-stderr under_policy "${policies[$1]}" timeout 60 "$program" "$2"
    echo "under $1, status $status: $output"
    echo "$stderr"
}

# A scenario prints under the policies what it prints bare, and leaves nothing: as_bare SCENARIO
# POLICY...
as_bare() {
    local bare policy
    run -0 --separate-stderr timeout 60 "$program" "$1"
    bare=$output
    for policy in "${@:2}"; do
        under "$policy" "$1"
        [[ $status -eq 0 && $output == "$bare" && $stderr != *'by rule'* &&
            $stderr != *'do not trust'* ]]
        [[ -e $SIM_LEAKS && ! -s $SIM_LEAKS ]] || { cat "$SIM_LEAKS"; return 1; }
    done
}

everything=(nothing mapped managed vmm lazy growing moving tables)

@test "an unknown function or version has one trampoline by all routes, twins others, data none" {
    run -0 timeout 60 "$program" routes
    [[ $output == 'function in libcuda.so.1, twin in libcuda.so.1
known function in libcuda.so.1
next version of a known function in libcuda.so.1
data in libcuda.so.1: 7' ]]
    under nothing routes
    [[ $output == 'function in libzc.so, twin in libzc.so
known function in libcuda.so.1
next version of a known function in libzc.so
data in libcuda.so.1: 7' && -z $stderr ]]
}

@test "all registers and the stack reach an unknown function as the program set them" {
    as_bare registers "${everything[@]}"
}

@test "unknown copies move what they do bare in every place, and as pageable memory wants it" {
    as_bare copies "${everything[@]}"
}

@test "unknown copies of a block whose memory served another one before need no registration" {
    as_bare freed_before "${everything[@]}"
}

@test "unknown copies find both memories of a pair" {
    as_bare tables "${everything[@]}"
}

@test "unknown copies reach memory of another device" {
    SIM_DEVICES=2 as_bare devices "${everything[@]}"
}

@test "an unknown copy finds an array whose copy into a larger one was put off" {
    as_bare grows "${everything[@]}"
}

@test "an unknown call may give a stream work that waits for the program" {
    as_bare waits "${everything[@]}"
}

@test "unknown calls are captured, and may begin a capture" {
    as_bare captured "${everything[@]}"
}

@test "unknown calls of several threads" {
    as_bare threads "${everything[@]}"
}

@test "a call that libzc knows finds all memory ready for a value that it does not know" {
    export SIM_DRIVER=99000
    as_bare operands "${everything[@]}"
    [[ $stderr == *'does not know a value that was given to cuMemcpy3DBatchAsync_v2,'* ]]
    as_bare nodes "${everything[@]}"
    [[ $stderr == *'does not know a value that was given to cuGraphAddNode_v2,'* ]]
    # Of managed memory the driver refuses single values.
    as_bare flags nothing mapped vmm lazy growing moving tables
    [[ $stderr == *'does not know a value that was given to cuStreamWriteValue32_v2,'* ]]
}

@test "a driver that libzc knows refuses such values, and nothing is told" {
    for scenario in operands nodes flags; do
        under vmm "$scenario"
        [[ $status -eq 1 && $stderr == *' gave '* && $stderr != *know* ]]
    done
}

# The names in the messages about unknown calls on standard error.
told() { sed -nE 's/^libzc: libzc [0-9.]+ does not know (\w+),.*/\1/p' <<<"$stderr"; }

@test "each unknown call is told once, on standard error and in the log, and all are counted" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_SUMMARY=1
    under vmm threads
    [[ $(told | sort) == $'cuMemcpyFutureAsync\ncuMemcpyFutureAsync_ptsz' ]]
    [[ $stderr == *'216 calls of 2 functions that libzc does not know'* ]]
    [[ $(grep -c '"type":"warn".*"code":"unknown".*know cuMemcpyFutureAsync' "$ZC_LOG") -eq 2 ]]
    tail -n 1 "$ZC_LOG" | grep -q '"unknown_calls":216,'
}

@test "without rules the log tells of unknown calls, and nothing else does" {
    export ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
    under nothing copies
    [[ -z $stderr && $(grep -c '"type":"warn"' "$ZC_LOG") -eq 2 ]]
}

@test "of more calls than libzc has room for, the driver has none" {
    under vmm many
    [[ $status -eq 0 && ${lines[0]} == '508 found, 92 not' ]]
    [[ ${lines[1]} == 'cuGetProcAddress(name, &last, 99000, 0, NULL) -> 500' ]]
}

@test "an unknown call is refused where a registration can't end, and the rule is named" {
    under vmm stuck
    [[ $status -eq 0 ]]
    [[ $output == *'RELAXED) -> 801'*'other) -> 801'*'other) -> 801'*'-> 0'*'host: 1' ]]
    [[ $stderr == *'cuStreamBeginFutureCapture returned 801:'* ]]
    [[ $stderr == *'cuMemcpyFutureAsync returned 801:'*'rule host'*'do not trust'* ]]
}
