#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Which calls copied: counted by call path from the level allocs on, also where SIGKILL ends all.

load programs

setup() {
    need_gpu_programs
    export ZC_SUMMARY=0
    cd "$BATS_TEST_TMPDIR"
    cat >train.py <<'PYTHON'
import ctypes, os, signal, sys
SIZE = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
host = ctypes.create_string_buffer(SIZE)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(SIZE)) == 0
def batch(size):
    assert cuda.cuMemcpyHtoD_v2(block, host, ctypes.c_size_t(size)) == 0
def checkpoint():
    assert cuda.cuMemcpyDtoH_v2(host, block, ctypes.c_size_t(SIZE)) == 0
for size in range(1, 11):
    batch(size << 10)
checkpoint()
cuda.cuMemsetD8_v2(block, ctypes.c_ubyte(0), ctypes.c_size_t(SIZE))
if "kill" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
PYTHON
}

# A report's lines of the calls that copied: caller, calls and bytes of each direction.
calls() {
    "$ZC" report --json "$@" 2>/dev/null | python3 -c '
import json, sys
for row in json.load(sys.stdin)["callers"]:
    print(row["caller"], *((d, r["asked_calls"], r["asked_bytes"], r["moved_bytes"])
                           for d, r in row["by_dir"].items()))'
}

@test "zc run says which lines copied, without another level" {
    run -0 --separate-stderr "$ZC" run -o logs python3 train.py
    [[ $stderr == *"Calls that copied, by bytes asked"* ]]
    grep -E '^[0-9a-f]{8} +checkpoint, train.py:12 +DtoH +1 +1 MiB +1 MiB' <<<"$stderr"
    grep -E '^[0-9a-f]{8} +batch, train.py:10 +HtoD +10 +55 KiB +55 KiB' <<<"$stderr"
    run -0 calls logs
    [[ ${lines[0]} == "checkpoint, train.py:12 ('DtoH', 1, 1048576, 1048576)" ]]
    [[ ${lines[1]} == "batch, train.py:10 ('HtoD', 10, 56320, 56320)" ]]
    run -0 "$ZC" report --by allocation logs
    [[ $output != *"Calls that copied"* && $output == *"Sites, by bytes asked"* ]]
    run -0 "$ZC" report --by copy logs
    [[ $output == *"Calls that copied"* && $output != *"Sites, by bytes asked"* ]]
}

@test "a process that is killed has told its calls by then" {
    run -137 env ZC_PYTHON=1 ZC_LOG_LEVEL=allocs ZC_LOG=k.jsonl LD_PRELOAD="$LIBZC" \
        python3 train.py kill
    [ -e k.counters ]
    run -0 calls k.jsonl
    [[ ${lines[0]} == "checkpoint, train.py:12 ('DtoH', 1, 1048576, 1048576)" ]]
    [[ ${lines[1]} == "batch, train.py:10 ('HtoD', 10, 56320, 56320)" ]]
}

# Runs a program at both levels, whose logs must have the same calls that copied.
told_alike() {
    local level
    for level in allocs events; do
        ZC_POLICY=policy.conf ZC_LOG_LEVEL=$level ZC_LOG=$level.jsonl LD_PRELOAD=$LIBZC \
            run -0 "$@"
    done
    run -0 python3 - allocs.jsonl events.jsonl <<'PYTHON'
import collections, json, sys
def read(path):
    by_line, records = collections.Counter(), [json.loads(line) for line in open(path)]
    names = {r["site"]: tuple(r["frames"]) for r in records if r["type"] == "site"}
    for r in records:
        if r["type"] == "transfer":
            by_line[names[r["call_site"]], r["dir"], r["outcome"]] += r["bytes"]
    calls = collections.Counter()
    for row in records[-1]["calls"]:
        for traffic in row["traffic"]:
            for outcome in ("moved", "cpu_copied", "elided"):
                if traffic[outcome + "_bytes"]:
                    calls[names[row["site"]], traffic["dir"], outcome] += \
                        traffic[outcome + "_bytes"]
    total = sum(f["asked_bytes"] for f in records[-1]["flows"])
    assert sum(calls.values()) == total > 1 << 16, (calls, total)
    return by_line, calls
allocs, events = read(sys.argv[1]), read(sys.argv[2])
assert not allocs[0] and events[0] == events[1] == allocs[1], (allocs, events)
PYTHON
    rm ./*.jsonl
}

@test "calls are counted as the lines of the level events tell them, in each place" {
    local place graphs=$BATS_TEST_DIRNAME/../../$ZC_BUILD/tests/preload/programs/capture
    need_built "$graphs"
    for place in device mapped 'shared, device' vmm; do
        printf '[rule all]\napi = cuMemAlloc\nplace = %s\n' "$place" >policy.conf
        told_alike "$GATHER" 4096
        told_alike "$graphs" launches
    done
}

@test "at the level summary calls are not told apart, and nothing is said of them" {
    ZC_LOG_LEVEL=summary ZC_LOG=s.jsonl LD_PRELOAD=$LIBZC run -0 "$GATHER"
    tail -n 1 s.jsonl | grep -q '"calls":\[\]'
    run -0 "$ZC" report s.jsonl
    [[ $output != *"Calls that copied"* ]]
    run -0 "$ZC" report --by copy s.jsonl
    [[ $output == *"Which calls copied is told by logs from the level allocs on"* ]]
}

@test "logs and counters files of earlier versions are read as before" {
    ZC_LOG_LEVEL=events ZC_LOG=e.jsonl LD_PRELOAD=$LIBZC run -0 "$GATHER"
    run -0 calls e.jsonl
    local now=$output
    sed -i 's/,"calls":\[.*$/}/' e.jsonl
    run -0 calls e.jsonl
    [[ $output == "$now" && ${#lines[@]} -ge 2 ]]
    run -137 env ZC_LOG_LEVEL=allocs ZC_LOG=k.jsonl LD_PRELOAD="$LIBZC" python3 train.py kill
    chmod u+w k.counters
    truncate -s "$(PYTHONPATH=${ZC%/*} python3 -c '
from zclib import counters
print(counters.Counters("k.counters")._refusals_at + counters.TAIL_BYTES)')" k.counters
    run -0 "$ZC" report k.jsonl
    [[ $output == *"11 copies"* && $output != *"Calls that copied"* ]]
}
