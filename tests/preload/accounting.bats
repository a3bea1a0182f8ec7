#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The log's totals are what was really done: to the byte what the simulated driver counted, the same
# in total, by site and by transfer, and still there when the process is killed.

load common.bash

setup() {
    programs=$PWD/$ZC_BUILD/tests/preload/programs
    need_built "$LIBZC"
    export ZC_SUMMARY=0
}

# Compares log and driver for every build and place of a program of kernels/.
every_build_and_place() {
    local build place
    local -a builds=("$ZC_BUILD/kernels/$1-shared" "$ZC_BUILD/kernels/$1-ptds")
    [[ $1 == driver_saxpy ]] && builds=("$ZC_BUILD/kernels/$1")
    need_built "${builds[@]}" "$SIM/kernels/$1.so"
    sim_env "$1"
    for build in "${builds[@]}"; do
        for place in device mapped managed vmm; do
            echo "$build in $place memory"
            ZC_LOG_LEVEL=events referee "place = $place" "$build"
            add_up "$BATS_TEST_TMPDIR/referee.jsonl" "${2:-two}"
        done
    done
}

# Checks a log's sums by direction: its transfer lines give the totals, and so do its sites where
# copies have one side in a block ($2 says `one`) or `both`: each side counts at its own site.
add_up() {
    python3 - "$@" <<-'END'
	import collections, json, sys
	totals, lines, sites = (collections.Counter() for _ in range(3))
	for line in map(json.loads, open(sys.argv[1])):
	    if line["type"] == "transfer":
	        lines[line["dir"], "calls"] += 1
	        lines[line["dir"], "bytes"] += line["bytes"]
	for what, into in (("flows", totals), ("sites", sites)):
	    for row in line[what]:
	        for t in row.get("traffic", [row]):
	            if "dir" in t:
	                into[t["dir"], "calls"] += t["asked_calls"]
	                into[t["dir"], "bytes"] += t["asked_bytes"]
	assert line["lost_lines"] == 0 and line["untracked"] == 0, line
	assert totals and totals == lines, (totals, lines)
	copies = sum(n for (d, k), n in totals.items() if k == "calls" and d not in ("Memset", "Prefetch"))
	assert copies == line["asked_calls"], (copies, line["asked_calls"])
	for flow in line["flows"]:
	    for what in ("calls", "bytes"):
	        parts = (flow[p + "_" + what] for p in ("moved", "cpu_copied", "elided"))
	        assert sum(parts) == flow["asked_" + what], flow
	if sys.argv[2] == "one":
	    assert sites == totals, (sites, totals)
	elif sys.argv[2] == "both":
	    assert all(sites[k] == n * (1 if k[0] == "Memset" else 2) for k, n in totals.items())
	else:
	    assert all(n <= sites[k] <= 2 * n for k, n in totals.items()), (sites, totals)
	END
}

@test "vecadd: log and driver agree to the byte" { every_build_and_place vecadd one; }
@test "gather: log and driver agree to the byte" { every_build_and_place gather one; }
@test "driver_saxpy: log and driver agree to the byte" { every_build_and_place driver_saxpy one; }
@test "pipeline: log and driver agree to the byte" { every_build_and_place pipeline; }
@test "pooled: log and driver agree to the byte" { every_build_and_place pooled; }
@test "pitched: log and driver agree to the byte" { every_build_and_place pitched; }
@test "graph: log and driver agree to the byte" { every_build_and_place graph both; }

@test "orders, shapes and per-thread streams: log and driver agree to the byte" {
    need_built "$programs/placing"
    export LD_LIBRARY_PATH=$SIM
    for place in device mapped managed vmm; do
        for scenario in sync_order no_hang rectangles boxes mixed per_thread batches peer; do
            echo "$scenario in $place memory"
            SIM_DEVICES=2 referee "place = $place" "$programs/placing" "$scenario"
        done
    done
}

@test "threads: log and driver agree to the byte" {
    need_built "$programs/threads"
    export LD_LIBRARY_PATH=$SIM
    for place in device mapped managed vmm; do
        ZC_LOG_LEVEL=events referee "place = $place" "$programs/threads"
        add_up "$BATS_TEST_TMPDIR/referee.jsonl" two
    done
}

@test "synchronous calls that need not wait are logged as the program made them" {
    need_built "$programs/unwaited"
    export LD_LIBRARY_PATH=$SIM
    for place in device mapped managed; do
        for call in cuMemcpyDtoD_v2 cuMemcpy2D_v2 cuMemsetD8_v2; do
            ZC_LOG_LEVEL=events referee "place = $place" "$programs/unwaited" "$call"
            grep "\"function\":\"$call\"" "$BATS_TEST_TMPDIR/referee.jsonl" |
                grep -q '"bytes":65536,.*"stream":"none"'
        done
    done
}

# The counters that a process of 4 threads left: killed_by HOW PLACE
killed_by() {
    declare -A ended=([kill]=137 [abort]=134 [_exit]=0)
    rm -f "$BATS_TEST_TMPDIR"/killed.*
    write_policy "place = $2"
    run -${ended[$1]} env ZC_LOG="$BATS_TEST_TMPDIR/killed.jsonl" \
        ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" LD_PRELOAD="$LIBZC" "$programs/killed" 4 "$1"
    run -0 "$programs/read_counters" "$BATS_TEST_TMPDIR/killed.counters"
    echo "$1, $2: $output"
}

@test "a killed process leaves counters with everything that it did" {
    need_built "$programs/killed" "$programs/read_counters"
    export LD_LIBRARY_PATH=$SIM
    for how in kill abort _exit; do
        for place in device mapped vmm; do
            killed_by "$how" "$place"
            did=moved
            [[ $place == mapped ]] && did=cpu
            [[ ${lines[0]} == 'schema 1 closed 0 exe killed' ]]
            [[ ${lines[1]} == "HtoD 400 1200000 $did" && ${lines[2]} == "DtoH 400 400000 $did" ]]
            [[ ${lines[3]} == 'cells HtoD 400 1200000' && ${lines[4]} == 'cells DtoH 400 400000' ]]
            [[ ${#lines[@]} == 5 ]]
        done
    done
}

@test "a process that ends by quick_exit leaves a whole log, and no counters" {
    need_built "$programs/killed"
    export LD_LIBRARY_PATH=$SIM
    write_policy 'place = mapped'
    run -0 env ZC_LOG="$BATS_TEST_TMPDIR/log" ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" \
        LD_PRELOAD="$LIBZC" "$programs/killed" 4 quick_exit
    tail -n 1 "$BATS_TEST_TMPDIR/log" | grep '^{"type":"summary"' |
        grep -qF '"cpu_copied_calls":800,"cpu_copied_bytes":1600000'
    [[ ! -e $BATS_TEST_TMPDIR/log.counters ]]
}

@test "the log has the status that a program ends with, and the time that its calls took" {
    export LD_LIBRARY_PATH=$SIM ZC_LOG=$BATS_TEST_TMPDIR/log
    run -3 env LD_PRELOAD="$LIBZC" python3 -c '
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
host = ctypes.create_string_buffer(1 << 20)
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
assert cuda.cuMemcpyHtoD_v2(block, host, ctypes.c_size_t(1 << 20)) == 0
sys.exit(3)'
    tail -n 1 "$ZC_LOG" | python3 -c '
import json, sys
summary = json.load(sys.stdin)
assert summary["exit_status"] == 3, summary
assert 0 < summary["blocked_ns"] < summary["wall_ns"], summary
assert 0 < summary["driver_start_ns"] < summary["wall_ns"], summary'
}

@test "every line of a killed process's log is whole" {
    need_built "$programs/killed"
    export LD_LIBRARY_PATH=$SIM ZC_LOG_LEVEL=events
    killed_by kill device
    python3 -c 'import json, sys
types = [json.loads(line)["type"] for line in open(sys.argv[1])]
assert types.count("transfer") == 800, types.count("transfer")' "$BATS_TEST_TMPDIR/killed.jsonl"
}

@test "a request that is granted is one block of its own site, and one that is refused none" {
    need_built "$programs/counted"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=allocs
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" timeout 30 "$programs/counted"
    python3 - "$ZC_LOG" <<-'END'
	import json, sys
	blocks = [l for l in map(json.loads, open(sys.argv[1])) if l["type"] == "alloc"]
	found = [(b["api"], b["size_bytes"], b["place"], b["device"]) for b in blocks]
	assert found == [
	    ("cuMemAlloc", 1024, "device", 0), ("cuMemAllocAsync", 2048, "device", 0),
	    ("cuMemAllocManaged", 3072, "managed", 0), ("cuMemAllocPitch", 4096, "device", 0),
	    ("cuMemHostAlloc", 5120, "pinned", 0), ("cuMemHostAlloc", 6144, "pinned", 0),
	    ("cuMemHostRegister", 65536, "pinned", 0)], found
	assert len({b["site"] for b in blocks} - {"00000000", None}) == len(blocks), blocks
	END
}

@test "small copies count for the block that is there, whatever was at its addresses before" {
    local log=$BATS_TEST_TMPDIR/log.jsonl programs=$PWD/$ZC_BUILD/tests/preload/programs
    need_built "$programs/repeated"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=$log ZC_SUMMARY=0
    LD_PRELOAD=$LIBZC run -0 timeout 60 "$programs/repeated"
    python3 - "$log" <<'PY'
import json, sys
summary = [json.loads(line) for line in open(sys.argv[1])][-1]
got = sorted((f["dir"], f["asked_calls"], f["asked_bytes"])
             for s in summary["sites"] for f in s["traffic"])
rounds = ((20, 16), (60, 32), (20, 64))  # Of the blocks of three call paths.
assert got == sorted((kind, n, n * size) for kind in ("HtoD", "DtoH", "DtoD", "Memset")
                     for n, size in rounds), got
PY
}
