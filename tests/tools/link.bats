#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Link traffic by the GPU's own counters: recording by zc run, and its part of reports.

load common

setup() {
    need_python
    build=${ZC_BUILD:-build}
    program=$PWD/$build/tests/preload/programs/killed
    [[ -e $program && -e $build/libzc.so ]] || skip "not built"
    out=$BATS_TEST_TMPDIR/logs
    mkdir "$BATS_TEST_TMPDIR/nvml"
    ${CC:-gcc} -shared -fPIC -o "$BATS_TEST_TMPDIR/nvml/libnvidia-ml.so.1" tests/tools/fake_nvml.c
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/nvml:$PWD/$build/sim
}

@test "zc run records the link, whose counters of 32 bits come round, and the report tells it" {
    run -0 --separate-stderr zc run -o "$out" -- "$program" 2 _exit
    [[ $output == "" && $stderr != *zc:* ]]
    report=$stderr
    run -0 python3 - "$out"/link.*.jsonl <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert lines[0]["type"] == "meta" and lines[0]["recorder"] == "zc run", lines[0]
links = lines[1:]
assert all(line["type"] == "link" and line["device"] == 0 for line in links)
for before, after in zip(links, links[1:]):
    assert after["to_device_bytes"] >= before["to_device_bytes"]
last = links[-1]
assert last["to_device_bytes"] == 1024 * last["from_device_bytes"] > 0, last
PYTHON
    [[ $report == *"link by hardware counter: "*" to the device, of which copies 586 KiB, and "* ]]
    run -0 json "d['run']['processes'], d['link']['copied_from_device_bytes'],
                 d['link']['to_device_bytes'] // d['link']['from_device_bytes']" report "$out"
    [[ $output == "(1, 200000, 1024)" ]]
}

@test "a process whose id another has had, as in containers, records the link, too" {
    unshare --pid --fork --mount-proc true || skip "no PID namespaces"
    for _ in 1 2; do
        run -0 unshare --pid --fork --mount-proc "$PWD/scripts/zc" run -o "$out" -- \
            "$program" 1 _exit
        [[ $output == *"link by hardware counter: "*" to the device"* ]]
    done
    [[ $(ls "$out"/link.*.1.jsonl "$out"/link.*.1.2.jsonl | wc -l) == 2 ]]
}

@test "a trace has a track for what was measured" {
    zc run -q -l events -o "$out" -- "$program" 1 _exit
    run -0 zc report --trace "$BATS_TEST_TMPDIR/trace.json" "$out"
    run -0 python3 tests/tools/trace_rules.py "$BATS_TEST_TMPDIR/trace.json"
    grep -q 'by hardware counter, MB/s' "$BATS_TEST_TMPDIR/trace.json"
}

@test "a comparison records the link of every run, the bare one's as well" {
    run -0 --separate-stderr zc run -r 2 -o "$out" -c off -- "$program" 2 _exit
    [[ ${lines[0]} == *"Device peak "*"Link to  Link from  Output" ]]
    [[ ${lines[1]} =~ ^bare\ .*\ -\ +[0-9.]+\ GiB\ +[0-9.]+\ MiB$ ]]
    [[ ${lines[2]} =~ ^watched\ .*\ [0-9.]+\ GiB\ +[0-9.]+\ MiB\ +same$ ]]
    for folder in bare watched; do
        [[ $(ls "$out/$folder"/link.*.jsonl | wc -l) == 2 ]]
    done
    NVML_NO_COUNTERS=1 run -0 --separate-stderr zc run -c off -- "$program" 2 _exit
    [[ $output != *Link* ]]
}

@test "a driver that hangs in its counters does not hold up the run" {
    NVML_HANGS=1 run -0 --separate-stderr zc run -q -o "$out" -- "$program" 1 _exit
    run -1 compgen -G "$out/link.*"
}

@test "a GPU without counters, and a machine without NVML, leave no file" {
    NVML_NO_COUNTERS=1 run -0 --separate-stderr zc run -o "$out" -- "$program" 1 _exit
    [[ $stderr == *"link by hardware counter: not measured"* ]]
    rm "$BATS_TEST_TMPDIR/nvml/libnvidia-ml.so.1"
    run -0 --separate-stderr zc run -o "$out" -- "$program" 1 _exit
    run -1 compgen -G "$out/link.*"
}

@test "a run without CUDA has nothing to report, though the link was recorded" {
    run -0 --separate-stderr zc run -- true
    [[ $stderr == "zc: no process used CUDA under libzc, so there is nothing to report: "* ]]
}

@test "samples that come too late are counted" {
    run -0 python3 -c 'import sys; sys.path.insert(0, "scripts")
from zclib.link import Counter
c = Counter(0xfffffff0, 5, 0)
c.sample(0x10, 6, 20_000_000)
c.sample(0x20, 6, 120_000_000)
print(c.fields())'
    [[ $output == "{'to_device_bytes': 1, 'from_device_bytes': 48, 'late_samples': 1}" ]]
}
