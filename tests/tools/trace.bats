#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc report --trace: the transfers as a trace for Perfetto and Chrome.

load common

setup() {
    need_python
    trace=$BATS_TEST_TMPDIR/trace.json
}

@test "a trace keeps the format's rules and has every transfer on its stream's track" {
    run -0 zc report --trace "$trace" $LOGS/pipeline.jsonl
    run -0 python3 tests/tools/trace_rules.py "$trace"
    streams=$(grep -c . <<<"$(grep -o '"stream":"[^"]*"' $LOGS/pipeline.jsonl | sort -u)")
    [[ $output == "32 transfers of 8388608 bytes on $streams tracks, 10 allocations, 10 frees, "* ]]
    # From each block's allocation to each of its copies and to its free; a copy of two blocks has
    # the one on the device.
    [[ $output == *", $((32 + 10)) arrows, a link" ]]
}

@test "launches of a graph, whose copies share one call, do not overlap" {
    (printf '[%.0s' {1..5000}; echo; cat $LOGS/graph.jsonl) >"$BATS_TEST_TMPDIR/graph.jsonl"
    run -0 --separate-stderr zc report --trace "$trace" "$BATS_TEST_TMPDIR/graph.jsonl"
    [[ $stderr == *"graph.jsonl:1: this line is no JSON"* ]]
    run -0 python3 tests/tools/trace_rules.py "$trace"
    [[ $output == "21 transfers "* ]]
}

@test "elements of a batch that seem to begin within each other are laid one behind the other" {
    python3 - "$BATS_TEST_TMPDIR/batch.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open("tests/tools/logs/gather.jsonl")]
first = next(line for line in lines if line["type"] == "transfer")
batch = [{**first, "time_ns": first["time_ns"] + i * 100, "blocked_ns": 5000} for i in range(9)]
with open(sys.argv[1], "w") as out:
    for line in [lines[0], *batch]:
        out.write(json.dumps(line, separators=(",", ":")) + "\n")
PYTHON
    run -0 --separate-stderr zc report --trace "$trace" "$BATS_TEST_TMPDIR/batch.jsonl"
    run -0 python3 tests/tools/trace_rules.py "$trace"
    [[ $output == "9 transfers "* ]]
}

@test "processes that began earlier than the first log's are not before zero" {
    run -0 zc report --trace "$trace" $LOGS/pipeline.jsonl $LOGS/gather.jsonl $LOGS/graph.jsonl
    run -0 python3 tests/tools/trace_rules.py "$trace"
    [[ $output == "56 transfers "* ]]
}

@test "the link carries what the driver moved, and not what the CPU copied" {
    zc report --trace "$trace" $LOGS/gather-mapped.jsonl >/dev/null
    run -0 python3 - "$trace" <<'PYTHON'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
rates = [e for e in events if e["ph"] == "C" and "waited for" in e["name"]]
# MB/s times microseconds are bytes.
print(sum(sum(e["args"].values()) * (after["ts"] - e["ts"]) for e, after in zip(rates, rates[1:])))
PYTHON
    python3 -c 'import sys; sys.exit(not 0.99 < float(sys.argv[1]) / (671744 + 2624) < 1.01)' \
        "$output"
}

@test "a long copy's rate is that of its bytes over its time, and issued bytes have no rate" {
    python3 - "$BATS_TEST_TMPDIR/long.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open("tests/tools/logs/gather.jsonl")]
first = next(line for line in lines if line["type"] == "transfer")
# 64 MiB in 127.7 ms, which is 0.5 GB/s; then as much from pinned memory, issued in 2 us.
long = {**first, "bytes": 64 << 20, "blocked_ns": 127_700_000,
        "time_ns": first["time_ns"] + 127_700_000}
issued = {**long, "function": "cuMemcpyHtoDAsync_v2", "src_kind": "Pinned",
          "real_src_kind": "Pinned", "blocked_ns": 2000, "time_ns": long["time_ns"] + 5000}
with open(sys.argv[1], "w") as out:
    for line in [lines[0], long, issued]:
        out.write(json.dumps(line, separators=(",", ":")) + "\n")
PYTHON
    run -0 --separate-stderr zc report --trace "$trace" "$BATS_TEST_TMPDIR/long.jsonl"
    run -0 python3 - "$trace" <<'PYTHON'
import json, sys
counters = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "C"]
print(max(e["args"]["HtoD"] for e in counters if "waited for" in e["name"]),
      max(e["args"]["HtoD"] for e in counters if "issued" in e["name"]))
PYTHON
    [[ $output == "526.0 67108864" ]]
    run -0 --separate-stderr json "[round(max(d['timeline']['series']['HtoD'][at] - issued
        for at, issued in enumerate(d['timeline']['issued']['HtoD'])) /
        d['timeline']['width_ns'], 2), sum(d['timeline']['issued']['HtoD'])]" \
        report "$BATS_TEST_TMPDIR/long.jsonl"
    [[ $output == "[0.53, 67108864]" ]]
}

@test "a copy that went over several links says so, and others do not" {
    python3 - "$BATS_TEST_TMPDIR/links.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open("tests/tools/logs/gather.jsonl")]
first = next(line for line in lines if line["type"] == "transfer")
with open(sys.argv[1], "w") as out:
    for line in [lines[0], {**first, "bytes": 64 << 20, "links": 4}, first]:
        out.write(json.dumps(line, separators=(",", ":")) + "\n")
PYTHON
    run -0 --separate-stderr zc report --trace "$trace" "$BATS_TEST_TMPDIR/links.jsonl"
    run -0 python3 - "$trace" <<'PYTHON'
import json, sys
copies = [e["args"] for e in json.load(open(sys.argv[1]))["traceEvents"]
          if e.get("cat") == "transfer"]
print([(args["bytes"] >> 20, args.get("links")) for args in copies])
PYTHON
    [[ $output == "[(64, 4), ("*", None)]" ]]
}

@test "a log without transfers gives an empty trace and says what to do" {
    run -0 --separate-stderr zc report --trace "$trace" $LOGS/gather-summary.jsonl
    [[ $stderr == *"the trace is empty"*"ZC_LOG_LEVEL=events"* ]]
    run -0 python3 tests/tools/trace_rules.py "$trace"
    [[ $output == "0 transfers of 0 bytes on 0 tracks, 0 allocations, 0 frees, 0 arrows, no link" ]]
}
