#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The bench of applications on the simulated GPU, with small programs in the place of people's.

load common.bash

setup() {
    need_built "$LIBZC" "$SIM/libcuda.so.1"
    command -v python3 >/dev/null || skip "no python3"
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/tests/gpu/apps"
    cp -r tests/bench policy "$tree/tests"
    mv "$tree/tests/policy" "$tree"
    cp tests/gpu/*.py "$tree/tests/gpu"
    cat >"$tree/tests/gpu/apps/checkpoint.py" <<'PYTHON'
import ctypes, hashlib, os, time
cuda, libc, size = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None), 8 << 20
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
if os.environ.get("SMALL"):  # below the size of the preset's rules
    size = 4096
context, block = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)) == 0
host = ctypes.c_void_p(libc.malloc(size))
ctypes.memset(host, 7, size)
steps = []
for _ in range(3):
    begun = time.perf_counter()
    assert cuda.cuMemcpyHtoD_v2(block, host, ctypes.c_size_t(size)) == 0
    assert cuda.cuMemcpyDtoH_v2(host, block, ctypes.c_size_t(size)) == 0
    steps.append(time.perf_counter() - begun)
print("digest:", hashlib.sha256(ctypes.string_at(host, size)).hexdigest() +
      (os.environ.get("ODD", "") if "LD_PRELOAD" in os.environ else ""))
print("main_s:", sum(steps))
print("steps_s:", *steps)
PYTHON
}

bench_apps() {
    run --separate-stderr timeout 110 env SIM=1 ZC_BUILD="$PWD/$ZC_BUILD" \
        OUT_DIR="$BATS_TEST_TMPDIR/out" "$tree/tests/bench/run.sh" "${suite:-apps}" \
        --only "${app:-checkpoint}" "$@"
}

# Prints an expression of the one row that was kept.
kept() {
    python3 -c 'import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
print(eval(sys.argv[2]))' "$BATS_TEST_TMPDIR/out/${suite:-apps}.json" "$1"
}

@test "an application is run bare, watched and under presets, and the log says where bytes went" {
    bench_apps --rounds 2
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[2, 2, 2, 2]" ]]
    [[ $(kept '[way["moved_pinned"] >> 20 for way in row["log"].values()]') == "[0, 48, 48]" ]]
    [[ $(kept '[way["moved_pageable"] >> 20 for way in row["log"].values()]') == "[48, 0, 0]" ]]
    [[ $output == *"| everyday | 48.0 | 0 | 48.0 |"* ]]
    diff "$BATS_TEST_TMPDIR/out/apps.md" - <<<"$output"
}

@test "scripts learn from run to run, and their peak of memory is told beside their times" {
    ln -s "$PWD/scripts" "$tree/scripts"
    sed -i '$a print("peak_mib: 8")' "$tree/tests/gpu/apps/checkpoint.py"
    suite=auto-apps app="state dict"
    bench_apps --warm 1 --rounds 2
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[2, 2, 2, 2]" ]]
    [[ $(kept '[runs[0]["peak_bytes"] / 2**20 for runs in row["samples"].values()]') == \
        "[8.0, 8.0, 8.0, 8.0]" ]]
    [[ $output == *"| 8.00 | 8.00 | 8.00 | 8.00 | 1.00 | 1.00 | 1.00 | 1.00 | "* ]]
    [[ $output == *"| auto ≤ 1.10 "* ]]
}

@test "ways that are compared with what is learned have one folder for caches" {
    ln -s "$PWD/scripts" "$tree/scripts"
    sed -i '$a print("peak_mib: 8"); print("digest:", os.environ["XDG_CACHE_HOME"])' \
        "$tree/tests/gpu/apps/checkpoint.py"
    suite=auto-apps app="state dict"
    bench_apps --warm 1 --rounds 1 --way bare --way everyday --way auto
    [[ $status -eq 0 ]]
}

@test "the end of a program is seen at once, and one that takes too long is killed" {
    cd tests
    python3 -B - "$BATS_TEST_TMPDIR" <<'PYTHON'
import sys, time
from gpu import runner

def looks(seconds):
    raise SystemExit("the end is only seen when it is looked for")

time.sleep = looks
ended = runner.execute(["sleep", "0.1"], {"PATH": "/bin:/usr/bin"}, sys.argv[1], sys.argv[1])
assert ended.status == 0, ended.status
runner.TIMEOUT = 0.2
ended = runner.execute(["sleep", "1000"], {"PATH": "/bin:/usr/bin"}, sys.argv[1], sys.argv[1])
assert ended.status is None, ended.status
PYTHON
}

@test "where zc tune fails its way has no figures, as the tables say, and the others have" {
    mkdir "$tree/scripts"
    printf '#!/bin/sh\n[ "$1" != tune ] || exit 1\nexec "%s" "$@"\n' "$PWD/scripts/zc" \
        >"$tree/scripts/zc"
    chmod +x "$tree/scripts/zc"
    suite=auto-apps app="state dict"
    bench_apps --warm 1 --rounds 1
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[1, 1, 0, 1]" ]]
    [[ $output == *"tuned has no figures of "*": \`zc tune: exit status 1\`"* ]]
}

@test "a quick bench of applications warms up watched and takes the best preset once, last" {
    bench_apps --quick
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[3, 0, 3, 1]" ]]
    [[ $(kept '[way["moved_pinned"] >> 20 for way in row["log"].values()]') == "[0, 48, 48]" ]]
    [[ $(grep -o 'round [0-9]:.*, [a-z]*:' <<<"$stderr" | sed 's/round \([0-9]\).* /\1 /') == \
        "1 bare:
1 everyday:
2 bare:
2 everyday:
3 bare:
3 everyday:
4 best:" ]]
}

@test "a bench of applications runs the ways that are named beside bare, and knows their effect" {
    bench_apps --rounds 2 --way everyday
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[2, 0, 2, 0]" ]]
    SMALL=1 bench_apps --rounds 1 --way everyday
    [[ $status -eq 1 && $stderr == *"everyday: FAILED: "*"no effect"* ]]
}

@test "applications find packages outside of the usual folders, compiled once, in every way" {
    cat >"$tree/tests/gpu/apps/found.py" <<'PYTHON'
import os, sys
assert sys.pycache_prefix and not sys.dont_write_bytecode
assert os.environ["PYTHONPATH"] == "/packages" and os.environ["LLAMA_CPP_LIB_PATH"] == "/llama"
assert os.environ["LD_LIBRARY_PATH"].split(":")[-1] == "/llama"
PYTHON
    sed -i '1i import found' "$tree/tests/gpu/apps/checkpoint.py"
    export PYTHONDONTWRITEBYTECODE=1
    PYTHONPATH=/packages LLAMA_CPP_LIB_PATH=/llama LD_LIBRARY_PATH=/llama bench_apps --rounds 1
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[1, 1, 1, 1]" ]]
}

@test "an application that skips itself under libzc alone fails the bench" {
    sed -i '1i import os, sys\nif os.environ.get("ZC_POLICY", "off") != "off": sys.exit(77)' \
        "$tree/tests/gpu/apps/checkpoint.py"
    bench_apps --rounds 1
    [[ $status -eq 1 ]]
    [[ $stderr == *"everyday: FAILED: "*"the program skips itself"* ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[1, 1, 0, 0]" ]]
}

@test "an application that gives another digest under libzc fails the bench" {
    ODD=1 bench_apps --rounds 1
    [[ $status -eq 1 ]]
    [[ $stderr == *"everyday: checksum "*", not "*" as the others"* ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[1, 0, 0, 0]" ]]
}

@test "a preset that changes nothing of an application fails the bench" {
    SMALL=1 bench_apps --rounds 1
    [[ $status -eq 1 ]]
    [[ $stderr == *"everyday: no effect: "*"moved as Pageable 24 KiB"* ]]
}

@test "an application that no effect is promised of is measured, and the tables say so" {
    mv "$tree/tests/gpu/apps/"{checkpoint,load_safetensors}.py
    app=load_safetensors SMALL=1 bench_apps --rounds 1
    [[ $status -eq 0 ]]
    [[ $(kept '[len(runs) for runs in row["samples"].values()]') == "[1, 1, 1]" ]]
    [[ $output == *$'\nsafetensors load_file(device="cuda"): no effect is promised, '* ]]
}

@test "the mean over applications is told of processes and of their main parts" {
    (cd tests && python3 -B - <<'PYTHON')
from bench.app_rows import ROWS
from bench.result import Result
from bench.tables import mean_line

def result(row, main_ms, process_ms):
    bare, everyday = ({"main_ms": 100 * main, "process_ms": 1000 * process}
                      for main, process in ((1, 1), (main_ms, process_ms)))
    return Result(row, {"bare": [bare], "watched": [], "everyday": [everyday]})

line, = mean_line([result(ROWS[0], 0.1, 0.9), result(ROWS[1], 0.4, 0.4)])
assert line == ("Geometric mean of everyday / bare, processes of 2 programs: 0.600; main part, "
                "without the start and the end of the process: 0.200."), line
assert mean_line([result(ROWS[0], 0.1, 0.9)]) == []
PYTHON
}

@test "an application without its package is skipped" {
    cat >"$tree/tests/gpu/apps/checkpoint.py" <<'PYTHON'
import sys
print("checkpoint: no package torch", file=sys.stderr)
sys.exit(77)
PYTHON
    bench_apps --rounds 1
    [[ $status -eq 0 ]]
    [[ $output == *"Skipped: applications: "*"(checkpoint: no package torch)"* ]]
}

@test "a bench of applications whose time is over keeps what it has" {
    bench_apps --rounds 9 --seconds 2
    [[ $status -eq 0 && $stderr == *"the seconds are over"* ]]
    runs=$(kept 'sorted(len(runs) for runs in row["samples"].values() if runs)')
    read -ra runs <<<"${runs//[^0-9]/ }"
    ((runs[0] < 9))
    [[ $output == *"; medians of ${runs[0]}"*" interleaved runs after 1 to warm up"* ]]
    [[ $output != *"medians of 9"* ]]
}
