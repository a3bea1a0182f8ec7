#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Partial sums of reports: bounded memory may cost detail, and never a byte of a sum.

load common

setup() {
    need_python
}

# Runs Python with zclib in its path; the program is on standard input.
python() {
    python3 -c 'import sys; sys.path.insert(0, "scripts"); exec(sys.stdin.read())' "$@"
}

@test "medians are exact for few sizes, and within a thirtieth for many" {
    python <<'PYTHON'
import random, statistics
from zclib.report.sizes import MOST_EXACT, Sizes
rng = random.Random(1)
for different in (1, 2, 100, MOST_EXACT, 5 * MOST_EXACT):
    all_sizes = [rng.randrange(different) * 97 + 1 for _ in range(60000)]
    sizes, half = Sizes(), Sizes()
    for size in all_sizes[:30000]: sizes.add(size)
    for size in all_sizes[30000:]: half.add(size)
    sizes.merge(half)
    median = statistics.median_low(all_sizes)
    assert (sizes.least, sizes.greatest, sizes.count) == (min(all_sizes), max(all_sizes), 60000)
    assert sizes.exact == (different <= MOST_EXACT)
    assert sizes.median() == median if sizes.exact else 0 <= median - sizes.median() < median / 30
    assert len(sizes._seen) <= MOST_EXACT
PYTHON
}

@test "a timeline keeps every byte whatever the order and span of times" {
    python <<'PYTHON'
import random
from zclib.report.buckets import MOST_BUCKETS, MOST_VALUES
from zclib.report.timeline import Timeline
whole, expected = Timeline(), {"a": 0, "b": 0}
for seed, span in enumerate((10, 10**6, 10**9, 10**14)):
    rng = random.Random(seed)
    timeline, sums = Timeline(), {"a": 0, "b": 0}
    for _ in range(5000):
        name, size = rng.choice("ab"), rng.randrange(1000)
        start = 10**18 + rng.randrange(span)
        timeline.add(start, start + rng.choice((0, rng.randrange(span))), name, size)
        sums[name] += size
    whole.merge(timeline)
    for name in sums: expected[name] += sums[name]
    assert {n: sum(b.get(n, 0) for _, b in whole.rows()) for n in "ab"} == expected
    rows = timeline.rows()
    assert len(rows) <= MOST_BUCKETS
    assert {n: sum(bucket.get(n, 0) for _, bucket in rows) for n in "ab"} == sums
    assert rows[0][0] <= 10**18 + span and all(
        b[0] - a[0] == timeline.width_ns for a, b in zip(rows, rows[1:]))
many = Timeline()
for at in range(200 * 1000): many.add(at, at, at % 500, 1)
rows = many.rows()
assert sum(len(row) for _, row in rows) <= MOST_VALUES + 500
assert sum(sum(row.values()) for _, row in rows) == 200 * 1000
PYTHON
}

@test "the bytes of a call are spread over its time, so that no bucket has more than its rate" {
    python <<'PYTHON'
from zclib.report.timeline import Timeline
# 64 MiB in 127.7 ms: 0.5 GB/s, which is 0.5 bytes a nanosecond; before it ten short copies.
timeline = Timeline()
start = 10**18 + 12345
for i in range(10): timeline.add(start + i * 10, start + i * 10, "short", 1)
timeline.add(start + 1000, start + 1000 + 127_700_000, "long", 64 << 20)
rates = [row.get("long", 0) / timeline.width_ns for _, row in timeline.rows()]
assert 0.52 < max(rates) < 0.53, max(rates)
assert sorted(rates)[len(rates) // 2] > 0.52
assert sum(row.get("long", 0) for _, row in timeline.rows()) == 64 << 20
PYTHON
}

@test "memory over time has the peak of each place, in order and after merging processes" {
    python <<'PYTHON'
import random
from zclib.report.levels import Levels
for seed, span in enumerate((10**4, 10**7, 10**12)):
    rng = random.Random(seed)
    levels, now, peak, live = Levels(), 0, 0, []
    times = sorted(10**18 + rng.randrange(span) for _ in range(4000))
    for at in times:
        if live and rng.random() < 0.5:
            size = -live.pop(rng.randrange(len(live)))
        else:
            size = rng.randrange(1, 10**6)
            live.append(size)
        now += size
        peak = max(peak, now)
        levels.add(at, "device", size)
    levels.end(times[-1] + 1)
    assert max(levels.peaks()["device"]) == peak
    # With another process beside it, levels are those at the buckets' ends.
    other, both = Levels(), Levels()
    other.add(times[0], "device", 5)
    other.add(times[-1] + span, "device", 1)
    both.merge(levels)
    assert both.peaks() == levels.peaks()
    both.merge(other)
    assert max(both.peaks()["device"]) <= peak + 5
    assert both.peaks()["device"][-1] == 6
PYTHON
}

@test "the greatest of many are kept in order, the first ones of equals" {
    python <<'PYTHON'
import random
from zclib.report.top import Top
rng = random.Random(3)
ranks = [rng.randrange(50) for _ in range(1000)]
for most in (0, 1, 7, 2000):
    top = Top(most)
    for at, rank in enumerate(ranks): top.offer(rank, (at,), at)
    assert top.items() == sorted(range(1000), key=lambda at: (-ranks[at], at))[:most]
    assert top.offered == 1000
    parts = [Top(most) for _ in range(10)]
    for at, rank in enumerate(ranks): parts[at // 100].offer(rank, (at,), at)
    whole = Top(most)
    rng.shuffle(parts)
    for part in parts: whole.merge(part)
    assert whole.items() == top.items() and whole.offered == 1000
PYTHON
}

@test "processes are paired by program, rank and host, then without the host, in order of start" {
    python <<'PYTHON'
from zclib.report.compare import pair
from zclib.report.parts import Process
def process(exe, rank, host, start):
    one = Process(str(start))
    one.exe, one.rank, one.host, one.start_ns = exe, rank, host, start
    return one
def shown(pairing):
    return ([(a.start_ns, b.start_ns) for a, b in pairing.pairs],
            [p.start_ns for p in pairing.only_a], [p.start_ns for p in pairing.only_b])
a = [process("x", 0, "n1", 3), process("x", 1, "n2", 1), process("y", 0, "n1", 2)]
b = [process("x", 1, "n9", 11), process("x", 0, "n1", 12), process("z", 0, "n1", 13)]
assert shown(pair(a, b)) == ([(3, 12), (1, 11)], [2], [13]), shown(pair(a, b))
# The same program and rank several times: in the order in which they began.
a = [process("x", 0, "n", 2), process("x", 0, "n", 1)]
b = [process("x", 0, "n", 9), process("x", 0, "n", 8), process("x", 0, "n", 10)]
assert shown(pair(a, b)) == ([(1, 8), (2, 9)], [], [10]), shown(pair(a, b))
PYTHON
}

@test "sites, blocks and pairs beyond what is followed leave the sums whole" {
    python <<'PYTHON'
import json, os, tempfile
from zclib.merge import map_log
from zclib.report import process, totals, transfers
process.MOST_BLOCKS, totals.MOST_SITES = 10, 6
transfers.MOST_PAIRS, transfers.MOST_SHAPES = 10, 10
path = os.path.join(tempfile.mkdtemp(), "a.jsonl")
with open(path, "w") as out:
    def line(kind, **fields): out.write(json.dumps({"type": kind, "time_ns": 1, **fields}) + "\n")
    line("meta", schema=1, pid=1, host="h", exe="e")
    for i in range(1, 101):
        line("alloc", block=i, site=f"{i % 20:08x}", api="cuMemAlloc", size_bytes=8, place="device")
        line("transfer", dir="HtoD", src_kind="Pageable", dst_kind="Device", bytes=8,
             outcome="moved", blocked_ns=1, dst_block=i, dst_address=hex(i), src_address="0x1")
        line("transfer", dir="DtoH", src_kind="Device", dst_kind="Pinned", bytes=i, dst_block=None,
             outcome="elided", blocked_ns=1, src_block=i, dst_address="0x1", src_address=hex(i))
        line("transfer", dir="DtoD", src_kind="Device", dst_kind="Device", bytes=i % 2,
             outcome="moved", blocked_ns=1, src_address="0x2", dst_address="0x3")
read = map_log(path)
counts = read.counts
assert (counts.moved_calls, counts.moved_bytes) == (200, 850)
assert (counts.elided_calls, counts.elided_bytes) == (100, 5050)
assert [total.counts.asked_calls for total in read.flows.values()] == [100] * 3
# Those pairs that repeat outlive the many that do not.
pairs = read.repeated.items()
assert [(pair.size, pair.counts.asked_calls) for pair in pairs] == [(1, 50), (0, 50)]
assert sorted(read.sites) == [f"{i:08x}" for i in range(6)] + ["others"]
assert [read.sites[name].requests for name in ("00000005", "others")] == [5, 70]
PYTHON
}

@test "ranks of a job come to one report, to the byte, by every engine and in every order" {
    run -0 python "$BATS_TEST_TMPDIR/logs" <<'PYTHON'
import json, os, pickle, random, sys
sys.path.insert(0, "tests/bench")
import rank_logs
from zclib.merge import Options, VersionError, map_log, map_logs, merge
from zclib.report import data, engines, parallel, totals
from zclib.report.symbols import Symbols

folder, rng = sys.argv[1], random.Random(7)
rank_logs.write(folder, 200, sites=4)
paths = [os.path.join(folder, f"train.r{rank}.jsonl") for rank in (*range(90), *range(170, 200))
         if rank != rank_logs.MISSING]
options = Options(5, "asked_bytes", True)

def report(whole):
    report = data.build(whole, Symbols(whole.modules), 5, "asked_bytes")
    return json.dumps([report, whole.messages(), [one.order for one in whole.processes]])

# Each log by itself, merged as it comes or all at once, by way of pickle as engines do it.
totals.MOST_SITES = 3   # Fewer than there are.
parts = [map_log(path, options) for path in paths]
assert max(len(pickle.dumps(part)) for part in parts) < 256 << 10
def any_order():
    layer = pickle.loads(pickle.dumps(rng.sample(parts, len(parts))))
    while len(layer) > 1:
        a, b = layer.pop(rng.randrange(len(layer))), layer.pop(rng.randrange(len(layer)))
        layer.append(merge(a, b))
    return layer[0]
expected = report(any_order())
assert '"others"' in expected and "totals are missing" in expected
assert report(map_logs(paths, options)) == expected
assert report(any_order()) == expected
parallel.PART_FILES, parallel.jobs = 7, lambda paths: 3
assert report(engines.read([*paths, "missing.jsonl"], options)) == \
    report(merge(map_log("missing.jsonl", options), any_order()))
two = report(merge(parts[0], parts[1]))
merge(merge(parts[0], parts[1]), parts[2])
assert report(merge(parts[1], parts[0])) == two   # Merging changes neither.
try:
    parts[0].version = 2
    merge(parts[1], parts[0])
    raise SystemExit("two versions were merged")
except VersionError:
    pass
PYTHON
    # The command itself, by each engine that is there: bytes on standard output and error.
    export PYTHONPATH=$PWD/build/deps/python
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # The names of Ray's sockets would be too long in the test's own folder.
    RAY_TMPDIR=$(mktemp -d)
    export RAY_TMPDIR RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=disabled
    run -0 --separate-stderr zc report --json "$BATS_TEST_TMPDIR/logs"
    [[ $stderr == *"totals are missing"* ]]
    printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/local.out"
    printf '%s\n' "$stderr" >"$BATS_TEST_TMPDIR/local.err"
    for engine in dask mpi ray; do
        start=()
        [[ $engine != mpi ]] || start=(mpirun --oversubscribe -n 3)
        if python3 -c "import ${engine/mpi/mpi4py.MPI}" 2>/dev/null; then
            "${start[@]}" scripts/zc report --json --engine $engine "$BATS_TEST_TMPDIR/logs" \
                >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
            cmp "$BATS_TEST_TMPDIR/local.out" "$BATS_TEST_TMPDIR/out"
            cmp "$BATS_TEST_TMPDIR/local.err" "$BATS_TEST_TMPDIR/err"
        else
            echo "# no $engine" >&3
        fi
    done
    rm -rf "$RAY_TMPDIR"
}

@test "an engine that is missing is told, with what to install" {
    for engine in dask mpi ray; do
        run -1 --separate-stderr env PYTHONPATH= python3 -S scripts/zc report --engine $engine \
            $LOGS/gather.jsonl
        [[ $stderr == "zc: --engine $engine needs the Python package "*": pip install "* ]]
    done
}

@test "transfers in another spelling than libzc's own come to the same report" {
    run -0 python <<'PYTHON'
import json, os, re, sys
sys.path.insert(0, "tests/bench")
import report_scale
from zclib.report import data, transfers
from zclib.report.symbols import Symbols
from zclib.merge import Options, map_log

def report(path):
    totals = map_log(path, Options(50, over_time=True))
    whole = data.build(totals, Symbols(totals.modules), 50, "asked_bytes")
    whole["processes"][0]["log"] = ""
    return whole

def respelt(path, new, chosen):
    with open(path) as lines, open(new, "w") as out:
        for at, line in enumerate(lines):
            whole = line.endswith("\n")
            if whole and chosen(at):
                line = json.dumps(json.loads(line)) + "\n"
            out.write(line)
    return new

folder = os.environ["BATS_TEST_TMPDIR"]
made = os.path.join(folder, "made.jsonl")
report_scale.write_log(made, 1, 200_000)
killed = os.path.join(folder, "killed.jsonl")
with open(made) as lines, open(killed, "w") as out:
    out.writelines(line for line in lines if '"summary"' not in line)
logs = [f"tests/tools/logs/{name}.jsonl" for name in ("pipeline", "gather-mapped", "graph", "cut")]
for path in [made, killed, *logs]:
    with open(path, "rb") as lines:
        own = [transfers.LINE(line.rstrip(b"\n")) for line in lines if b'"transfer"' in line]
    assert own and (all(own) or path.endswith("cut.jsonl")), path
    expected = report(path)
    assert expected["level"] == "events"
    new = os.path.join(folder, "new.jsonl")
    assert report(respelt(path, new, lambda at: True)) == expected, path
    assert report(respelt(path, new, lambda at: at % 2)) == expected, path
PYTHON
}

@test "a damaged transfer is no transfer" {
    run -0 python <<'PYTHON'
import json, random
from zclib.report.transfers import LINE
with open("tests/tools/logs/pipeline.jsonl", "rb") as lines:
    good = next(line.rstrip(b"\n") for line in lines if b'"transfer"' in line)
rng = random.Random(5)
for _ in range(20000):
    bad = bytearray(good)
    at = rng.randrange(len(bad))
    bad[at:at + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(3)))
    if LINE(bytes(bad)):
        json.loads(bytes(bad))
PYTHON
}

@test "a signal that ends zc ends the processes that read for it" {
    [[ $(nproc) -gt 1 ]] || skip "one CPU, so one process reads"
    python3 -c 'import sys; sys.path.insert(0, "tests/bench"); import report_scale
report_scale.make_logs(sys.argv[1], 2000, 2000 << 20)' "$BATS_TEST_TMPDIR/logs"
    for signal in INT TERM KILL; do
        setsid -f sh -c 'echo $$ >"$1"; exec scripts/zc report "$2"' sh \
            "$BATS_TEST_TMPDIR/pid" "$BATS_TEST_TMPDIR/logs" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&-
        until children=$(cat "/proc/$(cat "$BATS_TEST_TMPDIR/pid")/task/"*/children) 2>/dev/null &&
            [[ $children == *" "*" " ]]; do sleep 0.05; done
        kill -$signal "$(cat "$BATS_TEST_TMPDIR/pid")"
        for child in $children; do
            for ((i = 0; i < 400; i++)); do
                grep -qs '^State:[[:blank:]]*[^Z]' "/proc/$child/status" || break
                sleep 0.05
            done
            ((i < 400)) || { kill -KILL "$child"; echo "SIG$signal leaves $child"; return 1; }
        done
        [[ ! -s $BATS_TEST_TMPDIR/out ]] || { cat "$BATS_TEST_TMPDIR/out"; return 1; }
        rm "$BATS_TEST_TMPDIR/pid"
    done
}

@test "thousands of files are read in little memory" {
    run -0 python3 tests/bench/report_scale.py 2000 8 report
    grep -q '"files": 2000' <<<"$output"
    [[ $(sed -nE 's/.*"resident_mib": ([0-9]+), "status": 0.*/\1/p' <<<"$output") -le 500 ]]
}

@test "a process of the pool that is killed ends the report, whatever others are at" {
    PYTHONPATH=scripts run -0 timeout 60 python3 - <<'PYTHON'
import concurrent.futures.process, os, signal, time
from zclib import signals
from zclib.report import parallel

def read(part):
    if part == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return bytes(1 << 20)   # More than a pipe holds.

signals.prepare()
try:
    list(parallel.read_all(range(1000), read, 3))
except concurrent.futures.process.BrokenProcessPool:
    raise SystemExit(0)
raise SystemExit("nobody was killed")
PYTHON
}
