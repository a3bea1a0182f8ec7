#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The level `deep`: what copies carried, of a program of which that is known.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/deep
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=deep
}

# Compares the log with what is expected: lines SIZE DIR NAME=MIB...
# Scenes are named by the size of their block in MiB; what is not named is 0.
carried() {
    python3 - "$ZC_LOG" "$1" <<'PYTHON'
import json, sys
sizes, found = {}, {}
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record["type"] == "alloc":
        sizes.setdefault(record["site"], record["size_bytes"] >> 20)
    elif record["type"] == "content":
        key = sizes[record["device_site"]], record["dir"]
        found[key] = {name[:-6]: value / (1 << 20) for name, value in record.items()
                      if name.endswith("_bytes") and value}
        assert all(bool(record[name]) == bool(record[name[:-6] + "_copies"])
                   for name in record if name.endswith("_bytes")), record
for line in sys.argv[2].splitlines():
    size, kind, *rest = line.split()
    wanted = {name: float(value) for name, value in (one.split("=") for one in rest)}
    got = {name: value for name, value in found[int(size), kind].items() if value}
    assert got == wanted, (line, got)
PYTHON
}

@test "what copies carried is known by construction" {
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" timeout 60 "$program"
    [[ -z $stderr ]]
    carried '5 HtoD duplicate=10
6 HtoD duplicate=6
6 DtoH duplicate=6 round_trip=6 changed=6
7 HtoD duplicate=7
8 HtoD
8 DtoH unseen=8
9 HtoD
9 DtoH round_trip=9
12 HtoD duplicate=36
12 DtoH round_trip=24
13 HtoD unseen=13
13 DtoH unseen=13
14 HtoD unseen=0.5
16 HtoD duplicate=0.25
17 HtoD duplicate=34
17 DtoH round_trip=17'
    # Sites of host blocks are known where libzc knows the blocks.
    [[ $(grep -c '"content".*"dir":"HtoD","host_site":"[0-9a-f]\{8\}"' "$ZC_LOG") == 6 ]]
}

@test "rules change nothing of what copies carry, and the watch changes nothing of the rules" {
    for place in mapped managed vmm; do
        rm -f "$ZC_LOG"
        run -0 --separate-stderr under_policy "place = $place" timeout 60 "$program" allowed
        [[ -z $stderr ]]
        carried '5 HtoD duplicate=10
6 DtoH duplicate=12 round_trip=6
7 HtoD duplicate=7'
    done
    # Blocks that are one with the host's have nothing to be read: their copies are no copies.
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy $'[rule d]\napi = cuMemAlloc\nplace = shared, device
access = read
[rule h]\napi = malloc\nsize = 1M..\nplace = shared, pageable' timeout 60 "$program" allowed
    [[ -z $stderr ]]
    grep -q '"content".*"host_site":"[0-9a-f]\{8\}".*"unseen_bytes":[1-9]' "$ZC_LOG"
}

@test "without the level nothing is looked at" {
    export SIM_TRACE=$BATS_TEST_TMPDIR/calls ZC_LOG_LEVEL=events
    run -0 env LD_PRELOAD="$LIBZC" timeout 60 "$program"
    run ! grep '"content"' "$ZC_LOG"
    run ! grep cuMemHostGetFlags "$SIM_TRACE"
    rm "$ZC_LOG" "$SIM_TRACE"
    export ZC_LOG_LEVEL=deep
    run -0 env LD_PRELOAD="$LIBZC" timeout 60 "$program"
    grep -q cuMemHostGetFlags "$SIM_TRACE"
}
