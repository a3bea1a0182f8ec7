#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc run --compare: bare and under several policies, side by side.

load programs

setup() {
    need_gpu_programs
    PRESETS=$PWD/policy/presets
    GOLDEN=$PWD/tests/tools/golden
    cd "$BATS_TEST_TMPDIR"
    # Prints what is the same each time, so that runs can be compared.
    printf '#!/bin/sh\n"%s" | grep -o "checksum[^,]*"\n' "$GATHER" >program
    chmod +x program
}

# Times and the peak that hangs on them, and shares of times, out of the way.
masked() {
    sed -E 's/[0-9.]+ (ns|us|ms|s)\b/T/g; s/[0-9.]+ %/N %/g; s/ +/ /g
        s/fastest was .*/fastest was X/'
}

@test "a program is run bare and under each policy, and all is put side by side" {
    run -0 --separate-stderr "$ZC" run -c "$PRESETS/read-mostly-table.conf,off" -- ./program
    [[ -z $stderr ]]
    masked <<<"$output" >out
    if [[ -n ${ZC_WRITE_GOLDEN:-} ]]; then
        cp out "$GOLDEN/compare.txt"
    fi
    diff "$GOLDEN/compare.txt" out
}

@test "with -o each run keeps its output and its logs" {
    run -0 "$ZC" run -r 2 -o kept -c "$PRESETS/read-mostly-table.conf" -- ./program
    [[ $(ls kept) == bare$'\n'read-mostly-table ]]
    [[ $(ls kept/bare) == stderr$'\n'stderr.2$'\n'stdout$'\n'stdout.2 ]]
    cmp kept/bare/stdout kept/read-mostly-table/stdout.2
    [[ $(ls kept/read-mostly-table/*.jsonl | wc -l) == 2 ]]
}

@test "output that differs from the bare run's is told" {
    run -0 "$ZC" run -c off -- sh -c 'echo "$LD_PRELOAD"'
    [[ ${lines[2]} == watched*differs ]]
    [[ ${lines[-1]} == "Not all runs printed the same"*": with -o DIR their outputs stay"* ]]
    run -0 "$ZC" run -o kept -c off -- sh -c 'echo "$LD_PRELOAD"'
    [[ ${lines[-1]} == "Not all runs printed the same"*": diff "*/bare/stdout\ *watched/stdout ]]
    run -1 eval "${lines[-1]##*: }"
}

@test "the faults of the policies are told before the runs" {
    printf '[rule a]\nplcae = mapped\n' >faulty.conf
    run -0 --separate-stderr "$ZC" run -c "faulty.conf,$PRESETS/watch-only.conf" -- ./program
    [[ $stderr == "zc: "*"/faulty.conf:2:1: unknown key 'plcae' (nearest: place)" ]]
}

@test "a run that fails has its status and its last words told" {
    run -3 "$ZC" run -c off -- sh -c 'echo broken >&2; exit 3'
    [[ $output == *"zc: run 'bare' ended with status 3"* && $output == *"  broken"* ]]
    [[ ${lines[-1]} == "Not all runs ended with status 0." ]]
}

@test "policies of one file name are told apart" {
    mkdir a b
    echo >a/p.conf
    echo >b/p.conf
    run -0 "$ZC" run -o kept -c a/p.conf,b/p.conf -- true
    [[ $(ls kept) == bare$'\n'p$'\n'p-2 ]]
}

@test "a policy that is not there is told before anything runs" {
    run -125 "$ZC" run -c off,missing.conf -- touch ran
    [[ $output == "zc: missing.conf: there is no such policy" && ! -e ran ]]
    run -125 "$ZC" run -c off -p "$PRESETS/watch-only.conf" -- touch ran
    [[ ! -e ran ]]
}

@test "no policy to compare is a mistake of the command line" {
    for none in '' ,; do
        run -125 "$ZC" run -c "$none" -- touch ran
        [[ $output == *"--compare takes policies"* && ! -e ran ]]
    done
}

@test "a signal ends the comparison after the run that it ended" {
    "$ZC" run -o kept -c off -- sh -c ': >ready; exec sleep 60' >out &
    until [[ -e ready ]]; do sleep 0.05; done
    kill -TERM $!
    wait $! || status=$?
    [[ $status == 143 && $(ls kept) == bare ]]
}

@test "progress is shown on a terminal's stderr alone" {
    run -0 "$ZC" run -c off -- true
    [[ $output != *"["* ]]
    run -0 script -qec "TERM=xterm $ZC run -c off -- true" /dev/null
    [[ $output == *"watched ["* ]]
    run -0 script -qec "TERM=dumb $ZC run -c off -- true" /dev/null
    [[ $output != *"["* ]]
}
