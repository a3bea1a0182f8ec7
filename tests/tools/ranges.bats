#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Ranges that programs name by NVTX: which copies and allocations are theirs, in the log and in what
# zc makes of it.

load programs

setup() {
    need_python
    program=$PWD/$ZC_BUILD/tests/preload/programs/ranges
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM
    unset ZC_POLICY ZC_LOG ZC_LOG_LEVEL NVTX_INJECTION64_PATH
    logs=$BATS_TEST_TMPDIR/logs
}

# Prints what is in ranges, by size: in_ranges LOG
in_ranges() {
    python3 - "$@" <<'PYTHON'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    if record["type"] in ("alloc", "transfer"):
        size = record.get("size_bytes") or record["bytes"]
        print(record["type"], size >> 10, str(record["range"])[:140])
PYTHON
}

wanted='alloc 2048 begun before CUDA
transfer 256 None
transfer 2 load
transfer 4 app: inner
transfer 8 app: inner
transfer 16 größe: 🗄
transfer 1 None
transfer 32 brief
transfer 64 text
transfer 128 ?
transfer 512 ?
transfer 1024 a "b"
transfer 2048 '$(printf 'l%.0s' {1..127})'
transfer 6 ?
transfer 3 aten::copy_
transfer 3 aten::copy_
transfer 3 aten::copy_
alloc 4096 grow
transfer 5 grow
alloc 8192 grow
transfer 4096 grow'

@test "copies and allocations are told with the innermost range of their thread" {
    write_policy $'place = vmm\ngrow = yes'
    run -0 scripts/zc run -q -o "$logs" -l events -p "$BATS_TEST_TMPDIR/policy.conf" -- \
        "$program" stand-in
    diff <(echo "$wanted") <(in_ranges "$logs"/zc.*.jsonl)
}

@test "NVTX itself tells libzc its ranges, and zc reports them" {
    run scripts/zc run -q -o "$logs" -l events -- "$program" nvtx
    [[ $status != 77 ]] || skip "no nvtx3 (a CUDA toolkit has it)"
    [[ $status == 0 ]]
    diff <(echo "$wanted") <(in_ranges "$logs"/zc.*.jsonl)
}

@test "the report sums up by range, and so do its page and its trace" {
    run -0 scripts/zc run -q -o "$logs" -l events -- "$program" stand-in
    run -0 zc report --by range --top 20 "$logs"
    [[ $output == *$'\nRanges, by bytes asked\n'* && $output != *$'\nSites, '* ]]
    grep -Eq '^grow +2 +12 MiB +2 +4.0 MiB +4.0 MiB +0 B +0 B ' <<<"$output"
    grep -Eq '^\(outside\) +0 +0 B +2 +257 KiB ' <<<"$output"
    grep -Eq '^aten::copy_ +0 +0 B +3 +9 KiB ' <<<"$output"
    # Lines that are matched come to the same as those that are parsed, for the trace.
    zc report --json --top 20 "$logs" >"$BATS_TEST_TMPDIR/a"
    zc report --json --top 20 --trace "$BATS_TEST_TMPDIR/trace" --html "$BATS_TEST_TMPDIR/page" \
        "$logs" >"$BATS_TEST_TMPDIR/b"
    PYTHONPATH=scripts python3 -B - "$BATS_TEST_TMPDIR" "$logs"/zc.*.jsonl <<'PYTHON'
import json, sys
from zclib.report.transfers import LINE
lines = [line.rstrip() for line in open(sys.argv[2], "rb") if b'"type":"transfer"' in line]
assert all(map(LINE, lines)) and len(lines) == 18, len(lines)
a, b = (json.load(open(f"{sys.argv[1]}/{name}")) for name in "ab")
assert a["ranges"] == b["ranges"] and a["ranges_in_all"] == len(a["ranges"]) == 12, a["ranges"]
assert a["ranges"][0]["range"] == "grow" and a["ranges"][0]["blocked_ns"] > 0
both = sum(row["asked_bytes"] for row in a["ranges"])
assert both == a["totals"]["asked_bytes"], both
events = json.load(open(sys.argv[1] + "/trace"))["traceEvents"]
named = {event["args"]["range"] for event in events if event.get("cat") == "transfer"}
assert named == {row["range"] for row in a["ranges"]} - {"begun before CUDA"}, named
assert '"range": "app: inner"' in open(sys.argv[1] + "/page", encoding="utf-8").read()
PYTHON
    run -0 zc report --by range $LOGS/gather.jsonl
    [[ $output == *"No log has ranges: "* ]]
}

@test "a forked child's ranges have the names that its parent registered" {
    write_policy $'api = malloc\nsize = 1M\nplace = pinned'
    run -0 scripts/zc run -q -o "$logs" -l events -p "$BATS_TEST_TMPDIR/policy.conf" -- \
        "$program" stand-in forked
    [[ $(for log in "$logs"/zc.*.jsonl; do in_ranges "$log"; done) == *'transfer 2 app: inner'* ]]
}

@test "a tool that has set NVTX's variable keeps the ranges" {
    run -1 --separate-stderr env NVTX_INJECTION64_PATH=/no/such.so scripts/zc run -q -o "$logs" -- \
        "$program" stand-in
    diff <(echo "not so: library") <(sed 's/^line [0-9]*: //' <<<"$stderr")
}
