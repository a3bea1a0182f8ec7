#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Functions and lines of sites, on programs as compilers and packagers leave them.

load common

setup() {
    need_python
    build=${ZC_BUILD:-build}
    command -v addr2line >/dev/null || skip "no addr2line"
    program=$BATS_TEST_TMPDIR/table
    log=$BATS_TEST_TMPDIR/table.jsonl
    read -r -a command <"$build/command"
    includes=()
    for ((i = 0; i < ${#command[@]}; i++)); do
        [[ ${command[i]} == -isystem ]] && includes=(-isystem "${command[i + 1]}")
    done
    line=$(grep -n 'if (cudaStandIn(' tests/tools/source_lines.c | cut -d : -f 1)
}

# Compiles the program so that every function has its frame: compile [FLAG...]
compile() {
    ${CC:-gcc} -fno-inline -fno-optimize-sibling-calls "${includes[@]}" "$@" -o "$program" \
        tests/tools/source_lines.c "$build/sim/libcuda.so.1"
}

# Compiles the program with flags, runs it under libzc and reports: report_of [FLAG...]
report_of() {
    compile "$@"
    run_it
    run -0 zc report "$log"
}

run_it() {
    rm -f "$log"
    LD_LIBRARY_PATH=$PWD/$build/sim LD_PRELOAD=$PWD/$build/libzc.so ZC_LOG=$log ZC_SUMMARY=0 \
        ZC_LOG_LEVEL=events "$program"
}

@test "with debugging information a site has its function and line" {
    report_of -g -O1
    [[ $output == *"(load_table, source_lines.c:$line)"* ]]
    [[ $output == *"[rule load_table-"* ]]
    # The call that copies, which is another line of the same function.
    copy=$(grep -n 'cuMemcpyHtoD(' tests/tools/source_lines.c | cut -d : -f 1)
    run -0 zc report --by copy "$log"
    [[ $output =~ load_table,\ source_lines.c:$copy\ +HtoD\ +8\ +32\ MiB ]]
    run -0 json "[(row['caller'], row['asked_calls']) for row in d['callers']]" report "$log"
    [[ $output == "[('load_table, source_lines.c:$copy', 8)]" ]]
}

@test "a program that is linked to a fixed address has them as well" {
    report_of -g -O1 -no-pie -fno-pie
    [[ $output == *"(load_table, source_lines.c:$line)"* ]]
}

@test "a finding names site, function, line, bytes and share, and its rule moves what it says" {
    report_of -g -O1
    finding="site [0-9a-f]{8} \(load_table, source_lines\.c:$line\): 4 MiB copied 8 times from "
    finding+="pageable memory, [0-9.]+ % of the run; 7 of the copies had the size and both "
    finding+="addresses of an earlier one\. If kernels only read it, rule \`place = shared"
    finding+="\` with \`access = read\` moves only what the host changed"
    [[ $output =~ $finding ]]
    policy=$BATS_TEST_TMPDIR/policy.conf
    json "next(f['rule'] for f in d['findings'] if f['kind'] == 'repeated')" \
        report "$log" >"$policy"
    ZC_POLICY=$policy run_it
    run -0 json "d['totals']['moved_bytes'], d['totals']['elided_bytes']" report "$log"
    [[ $output == "(0, $((8 * 4 << 20)))" ]]
    run -0 zc report "$log"
    [[ $output == *"Shared blocks"*"load_table, source_lines.c:$line "*" 32 MiB "* ]]
}

@test "without debugging information a site has its function" {
    report_of -O1
    [[ $output == *"(load_table (table+0x"*"))"* && $output != *source_lines.c* ]]
}

@test "a stripped program's sites are offsets" {
    report_of -O1 -s
    [[ $output == *"(table+0x"*")"* && $output != *load_table* ]]
}

@test "the functions of a program that was rebuilt since are not guessed" {
    report_of -g -O1
    compile -g -O0
    run -0 zc report "$log"
    [[ $output == *"table: $program was rebuilt since the log was written"* ]]
    [[ $output == *"(table+0x"* && $output != *load_table* ]]
}

@test "a program that is gone leaves offsets and a note" {
    report_of -g -O1
    rm "$program"
    run -0 zc report "$log"
    [[ $output == *"table: $program is not on this machine; its frames are offsets"* ]]
}

# Takes the debugging information out of the program: apart FILE
apart() {
    objcopy --only-keep-debug "$program" "$1"
    strip "$program"
}

@test "a stripped program's debugging information is found beside it, by .gnu_debuglink" {
    compile -g -O1
    apart "$program.debug"
    objcopy --add-gnu-debuglink="$program.debug" "$program"
    run_it
    run -0 zc report "$log"
    [[ $output == *"(load_table, source_lines.c:$line)"* ]]
}

@test "debugging information is found by build id, on a debuginfod server and in its folder" {
    compile -g -O1
    apart "$BATS_TEST_TMPDIR/kept"
    run_it
    id=$(readelf -n "$program" | awk '/Build ID/ { print $3 }')
    mkdir -p "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/ids/${id:0:2}"
    printf '#!/bin/sh\n[ "$1 $2" = "debuginfo %s" ] && echo "%s"\n' "$id" "$BATS_TEST_TMPDIR/kept" \
        >"$BATS_TEST_TMPDIR/bin/debuginfod-find"
    chmod +x "$BATS_TEST_TMPDIR/bin/debuginfod-find"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH
    run -0 env -u DEBUGINFOD_URLS scripts/zc report "$log"
    [[ $output == *"(table+0x"* ]]
    export DEBUGINFOD_URLS=http://localhost
    run -0 zc report "$log"
    [[ $output == *"(load_table, source_lines.c:$line)"* ]]
    # The program itself need not be there.
    rm "$program"
    run -0 zc report "$log"
    [[ $output == *"(load_table, source_lines.c:$line)"* && $output != *"not on this machine"* ]]
    unset DEBUGINFOD_URLS
    mv "$BATS_TEST_TMPDIR/kept" "$BATS_TEST_TMPDIR/ids/${id:0:2}/${id:2}.debug"
    run -0 python3 -c 'import sys
sys.path.insert(0, "scripts")
from zclib import cli
from zclib.report import symbols
symbols.DEBUG_FOLDER = sys.argv.pop(1)
cli.main(sys.argv[1:])' "$BATS_TEST_TMPDIR/ids" report "$log"
    [[ $output == *"(load_table, source_lines.c:$line)"* ]]
}

@test "logs of two builds of one name are not mixed up" {
    report_of -g -O1
    mv "$log" "$BATS_TEST_TMPDIR/first.jsonl"
    report_of -g -O2
    run -0 zc report "$BATS_TEST_TMPDIR/first.jsonl" "$log"
    [[ $output != *load_table* ]]
}

@test "a log of the level summary has functions and lines as well" {
    compile -g -O1
    LD_LIBRARY_PATH=$PWD/$build/sim LD_PRELOAD=$PWD/$build/libzc.so ZC_LOG=$log ZC_SUMMARY=0 \
        "$program"
    run -0 zc report "$log"
    [[ $output == *"log level summary"*"(load_table, source_lines.c:$line)"* ]]
}
