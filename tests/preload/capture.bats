#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Stream capture: nothing is converted while one is under way, libzc's own calls never end one, and
# what a graph copies is counted when it is launched.

load common.bash
load pairs.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/capture
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=off ZC_SUMMARY=0
}

# A scenario must print in every place what it prints bare.
same_in_every_place() {
    local rules bare
    run -0 --separate-stderr timeout 300 "$program" "$1"
    bare=$output
    for rules in 'place = '{device,mapped,managed,vmm} "${shared[@]}"; do
        run -0 --separate-stderr under_policy "$rules" timeout 300 "$program" "$1"
        echo "under $rules: $output $stderr"
        [[ $output == "$bare" && $stderr != *'by rule'* && $stderr != *'do not trust'* ]]
    done
}

device_rule=$'\n[rule device]\napi = cudaMalloc\nplace = shared, vmm\n'
shared=("$host_rule$device_rule"'access = read')

@test "requests of another thread during a thread-local capture stay device memory" {
    same_in_every_place thread_local
}

@test "requests during a relaxed capture stay device memory" {
    same_in_every_place relaxed
}

@test "what a thread in relaxed mode may do during a capture does not end it" {
    same_in_every_place relaxed_calls
    [[ $output == *'cuStreamEndCapture(blocking, &graph) -> 0' ]]
}

@test "what libzc does beside a capture leaves the thread the mode that it had" {
    local rules
    export SIM_DELAY_US=1000
    run -0 timeout 300 "$program" mode_beside
    bare=$output
    for rules in 'place = '{mapped,managed,vmm} $'place = vmm\ncommit = lazy' "${shared[@]}" \
        $'api = malloc\nplace = pinned'; do
        echo "under $rules"
        run -0 --separate-stderr under_policy "$rules" timeout 300 "$program" mode_beside
        [[ $output == "$bare" ]]
    done
}

@test "a copy beside a capture waits for no stream that waits for the program" {
    same_in_every_place ordered
    [[ $output == *': 1'*'-> 0' ]]
}

@test "a capture goes with the stream that it began in, and not with one that has joined it" {
    [[ $ZC_BUILD != *emulated* ]] || skip "the emulator's mremap maps nothing a second time"
    for place in mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" timeout 300 "$program" lost
        joined='not placed cuStreamEndCapture(stream, &graph) -> 901 placed'
        [[ ${lines[*]} == "placed $joined $joined placed not placed" ]]
    done
}

@test "requests in a captured stream become nodes of the graph" {
    same_in_every_place inside
    [[ $output == $'4 nodes\n4 nodes\n4 nodes' ]]
}

@test "what a graph copies from memory of malloc may change behind its launch" {
    export SIM_DELAY_US=3000
    run -0 timeout 300 "$program" refilled
    [[ $output == $'holds 2: 1\nholds 3: 1\nholds 4: 1\nholds 5: 1' ]]
    bare=$output
    for rules in $'api = malloc\nplace = pinned' "${shared[@]}"; do
        run -0 --separate-stderr under_policy "$rules" timeout 300 "$program" refilled
        [[ $output == "$bare" ]]
    done
    # A node that libzc does not know is the driver's alone.
    export SIM_DRIVER=13050
    run -0 timeout 300 "$program" refilled_batch
    bare=$output
    for rules in $'api = malloc\nplace = pinned' "${shared[@]}"; do
        run -0 --separate-stderr under_policy "$rules" timeout 300 "$program" refilled_batch
        [[ $output == "$bare" && $stderr == *'does not know a value'*cuGraphLaunch* ]]
    done
}

@test "a fork, or a change of pages, during a capture does not end it" {
    same_in_every_place changed
    [[ $output == *'-> 0'* && $output != *'-> 9'* ]]
    run -0 under_policy $'api = malloc\nplace = pinned' timeout 300 "$program" changed
    [[ $output == *'-> 0'* && $output != *'-> 9'* ]]
}

@test "calls that a capture forbids are refused and end it as without libzc" {
    same_in_every_place forbidden
    [[ $output == *'-> 900'*'-> 901'* ]]
}

@test "copies that a capture refuses in every place blame no rule" {
    same_in_every_place forbidden_copies
    [[ $output == *'-> 906'*'-> 901'*'-> 900'*'-> 901'*'-> 906'*'-> 901'* ]]
}

@test "calls that a capture allows do not end it" {
    same_in_every_place allowed
    [[ $output == *'cuStreamEndCapture(stream, &graph) -> 0' ]]
}

@test "the log says that a capture kept a request on the device" {
    write_policy 'place = mapped'
    run -0 --separate-stderr env ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" LD_PRELOAD="$LIBZC" \
        ZC_LOG="$BATS_TEST_TMPDIR/log.jsonl" ZC_LOG_LEVEL=allocs "$program" thread_local
    run -0 grep -c '"converted":false.*"why":"a stream is being captured"' \
        "$BATS_TEST_TMPDIR/log.jsonl"
    [[ $output == 1 ]] # Of cudaMalloc; what cudaMallocAsync asks for is there anyway.
}

@test "a captured copy counts at each launch, and not before" {
    for place in device mapped managed vmm; do
        referee "place = $place" "$program" launches
        # Five launches of four copies and sets, beside nothing else.
        run -0 python3 -c 'import json, sys
summary = [json.loads(line) for line in open(sys.argv[1])][-1]
print(*(f["dir"] + " " + str(f["asked_calls"]) for f in summary["flows"]), sep=",")' \
            "$BATS_TEST_TMPDIR/referee.jsonl"
        [[ $output == 'HtoD 5,DtoH 5,DtoD 5,Memset 5' ]]
    done
}

@test "an updated executable graph counts what it copies from then on" {
    for place in device mapped managed vmm; do
        referee "place = $place" "$program" updates
        referee "place = $place" "$program" generic_updates
    done
}
