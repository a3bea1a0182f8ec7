#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Reports of processes that did not end by exit: their totals are in the counters file.

load common

setup() {
    need_python
    build=${ZC_BUILD:-build}
    program=$build/tests/preload/programs/killed
    [[ -e $program && -e $build/libzc.so ]] || skip "not built"
    log=$BATS_TEST_TMPDIR/killed.jsonl
}

# Four threads copy 100 times 3000 bytes up and 1000 down: killed_at LEVEL
killed_at() {
    run env LD_LIBRARY_PATH="$PWD/$build/sim" LD_PRELOAD="$PWD/$build/libzc.so" ZC_LOG="$log" \
        ZC_LOG_LEVEL="$1" "$program" 4
    [[ $status == 137 && -e ${log%.jsonl}.counters ]]
}

@test "a run that dies by SIGKILL has its totals at every level" {
    for level in summary allocs events; do
        rm -f "$BATS_TEST_TMPDIR"/killed.*
        killed_at $level
        run -0 json "[d['totals'][k] for k in ('asked_calls', 'asked_bytes', 'moved_bytes')],
                     d['run']['states'], d['level']" report "$log"
        [[ $output == "([800, 1600000, 1600000], {'killed': 1}, '$level')" ]]
        run -0 zc report "$log"
        [[ $output == *"1 process: ended without exit; totals from the counters file"* ]]
    done
}

@test "its live blocks have their traffic from the transfers" {
    killed_at events
    run -0 json "sorted((b['block'], b['asked_bytes'], b['live']) for b in d['blocks'])" \
        report "$log"
    [[ $output == "[(1, 400000, True), (2, 400000, True), (3, 400000, True), (4, 400000, True)]" ]]
}

@test "a counters file alone is a report" {
    killed_at allocs
    rm "$log"
    run -0 json "d['totals']['asked_bytes'], d['run']['programs'], len(d['sites'])" \
        report "${log%.jsonl}.counters"
    [[ $output == "(1600000, ['killed'], 1)" ]]
}

@test "a killed run is compared as any other" {
    killed_at events
    mv "$log" "$BATS_TEST_TMPDIR/first.jsonl"
    mv "${log%.jsonl}.counters" "$BATS_TEST_TMPDIR/first.counters"
    killed_at events
    run -0 zc diff "$BATS_TEST_TMPDIR/first.jsonl" "$log"
    [[ ${lines[0]} == "B moves as much (1.5 MiB)"* ]]
}

@test "a log that ends early, as on a full disk, leaves the counters to the report" {
    storm=$build/kernels/storm-shared
    [[ -e $storm ]] || skip "not built"
    run -0 env LD_LIBRARY_PATH="$PWD/$build/sim" LD_PRELOAD="$PWD/$build/libzc.so" ZC_LOG="$log" \
        ZC_LOG_LEVEL=events bash -c 'ulimit -f 2500; exec "$@"' bash "$storm" 10000
    [[ $output == *"ends here: file size limit reached"* ]]
    run -0 json "[d['totals'][k] for k in ('asked_calls', 'asked_bytes')], d['run']['states']" \
        report "$log"
    [[ $output == "([10001, 644096], {'ended': 1})" ]]
    run -0 zc report "$log"
    [[ ${lines[0]} == "zc: "*".counters: the log beside it ends early, as on a full disk; "* ]]
    [[ $output == *"10001 copies"* ]]
}
