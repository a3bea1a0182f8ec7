#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Calls that libzc refused of a program that ignores errors: all that tells of the run says so.

load programs

setup() {
    need_gpu_programs
    cd "$BATS_TEST_TMPDIR"
    printf '[rule here]\nplace = device\nsize = ..4K\n[rule table]\nplace = mapped\n' >p.conf
    cat >ignores.py <<'PYTHON'
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
handle = ctypes.create_string_buffer(64)
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
for _ in range(3):
    cuda.cuIpcGetMemHandle(handle, block)
print("done", flush=True)
exec(sys.argv[1])
PYTHON
    refused='3 calls were refused because of rule table (p.conf:4): do not trust the results'
}

# Leaves the log, and for a program that is killed the counters, of a run: left CODE
left() {
    ZC_POLICY=p.conf ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run --separate-stderr python3 ignores.py "$1"
    [[ $output == done ]]
}

@test "the last line at exit says how many calls were refused, and by which rule" {
    local last='libzc: do not trust the results: 3 calls were refused, the first because of rule'
    last+=' table (p.conf:4)'
    left pass
    [[ $status == 0 && ${stderr_lines[-1]} == "$last" ]]
    tail -n 1 a.jsonl |
        grep -q '"refused_calls":3,"refused":\[{"rule":"table","line":4,"calls":3}\]'
    rm a.jsonl
    ZC_SUMMARY=0 left pass
    [[ ${stderr_lines[-1]} == "$last" && $stderr != *"asked in"* ]]
}

@test "a run without refused calls says nothing of them" {
    ZC_POLICY=off ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -0 python3 ignores.py pass
    [[ $output != *refused* ]]
    tail -n 1 a.jsonl | grep -q '"refused_calls":0,"refused":\[\]'
    run -0 "$ZC" report a.jsonl
    [[ $output != *refused* ]]
    ZC_POLICY=off run -0 "$ZC" run -q -- python3 ignores.py pass
}

@test "reports begin with it, and comparisons end their verdict with it" {
    left pass
    run -0 "$ZC" report a.jsonl
    [[ ${lines[0]} == "$refused" ]]
    run -0 "$ZC" report --csv a.jsonl
    [[ ${lines[0]} == table,policy,rule,line,calls && ${lines[1]} == refused,p.conf,table,4,3 ]]
    run -0 "$ZC" report --json a.jsonl
    python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["run"]["refused_calls"] == 3 and report["run"]["refused_text"] == sys.argv[1]
assert report["refused"] == [{"policy": "p.conf", "rule": "table", "line": 4, "calls": 3}]
' "$refused" <<<"$output"
    run "$ZC" report --html page.html a.jsonl
    grep -qF "\"refused_text\": \"$refused\"" page.html
    run -0 "$ZC" diff a.jsonl a.jsonl
    [[ ${lines[0]} == *"; A: $refused; B: $refused." ]]
}

@test "a process that was killed still tells" {
    left 'os.kill(os.getpid(), 9)'
    [[ $status == 137 && -e a.counters ]]
    run -0 "$ZC" report a.jsonl
    [[ $output == *"$refused"* ]]
    run -0 "$ZC" report --csv a.counters
    [[ ${lines[1]} == refused,*table,4,3 ]]
}

@test "zc run makes status 0 of such a program 125, says why, and keeps its other statuses" {
    run -125 --separate-stderr "$ZC" run -p p.conf -- python3 ignores.py pass
    [[ $output == done && ${stderr_lines[-1]} == \
        "zc: status 125 instead of the program's 0: "*"rule table ($PWD/p.conf:4)"* ]]
    run -125 "$ZC" run -q -o kept -p p.conf -- python3 ignores.py pass
    [[ $output == *"status 125 instead"* ]]
    run -7 "$ZC" run -q -p p.conf -- python3 ignores.py 'os._exit(7)'
    run -125 "$ZC" run -q -p p.conf -- python3 ignores.py 'os._exit(0)'
    run -137 "$ZC" run -q -p p.conf -- python3 ignores.py 'os.kill(os.getpid(), 9)'
}

@test "a run is not told of what another one refused whose logs go into the same folder" {
    local first ended=0
    "$ZC" run -o logs -- python3 ignores.py \
        'while not os.path.exists("go"): __import__("time").sleep(0.01)' >out 2>&1 &
    first=$!
    for ((i = 0; i < 500; i++)); do
        grep -q '"type":"alloc"' logs/zc.*.jsonl 2>/dev/null && break
        sleep 0.02
    done
    run -125 "$ZC" run -o logs -p p.conf -- python3 ignores.py pass
    touch go
    wait "$first" || ended=$?
    ((ended == 0))
    [[ $(<out) == *'1 process of '* && $(<out) != *refused* ]]
    [[ $(find logs -name 'zc.*.jsonl' | wc -l) == 2 ]]
}

@test "runs side by side mark it" {
    run -125 --separate-stderr "$ZC" run -c p.conf,off -- python3 ignores.py pass
    grep -q '^bare  *0 ' <<<"$output"
    grep -q '^p  *125 .* same, 3 refused$' <<<"$output"
    grep -q '^watched  *0 .* same$' <<<"$output"
    [[ ${lines[-1]} == "Run 'p': 3 calls were refused because of rule table ($PWD/p.conf:4): "* ]]
}
