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
    [[ $output == "32 transfers of 8388608 bytes on $streams tracks, a link" ]]
}

@test "launches of a graph, whose copies share one call, do not overlap" {
    run -0 zc report --trace "$trace" $LOGS/graph.jsonl
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
# A bucket is 1 ms wide at first; MB/s times a thousandth of a second.
print(round(sum(sum(e["args"].values()) for e in events if e["ph"] == "C") * 1000))
PYTHON
    [[ $output == $((671744 + 2624)) ]]
}

@test "a log without transfers gives an empty trace and says what to do" {
    run -0 --separate-stderr zc report --trace "$trace" $LOGS/gather-summary.jsonl
    [[ $stderr == *"the trace is empty"*"ZC_LOG_LEVEL=events"* ]]
    run -0 python3 tests/tools/trace_rules.py "$trace"
    [[ $output == "0 transfers of 0 bytes on 0 tracks, no link" ]]
}
