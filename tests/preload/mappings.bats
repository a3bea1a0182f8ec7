#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Host memory that malloc never gave: what it is stands in the log.

load host.bash

PROGRAM=$PROGRAMS/mappings

setup() {
    host_setup mappings
    export ON_DISK=$PWD/$ZC_BUILD ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events
}

# Prints "bytes side memory" of each transfer in the log that has such a side.
memories() {
    python3 -c '
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    for side in ("src", "dst"):
        if line["type"] == "transfer" and line[side + "_memory"]:
            print(line["bytes"], side, line[side + "_memory"])' "$ZC_LOG"
}

# Prints the rows on pageable memory of the summary, without times.
pageable() {
    python3 -c '
import json, sys
for row in json.loads(open(sys.argv[1]).readlines()[-1])["pageable"]:
    print(row["memory"], row["side"], *(row[name] for name in
          ("asked_calls", "asked_bytes", "moved_bytes", "again_bytes")))' "$ZC_LOG"
}

@test "the log tells heap, mappings, files, shared memory, stacks and variables apart" {
    run -0 --separate-stderr env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAM" sources
    diff <(memories) - <<-'END'
	1001 src heap
	1002 src anonymous
	1003 src file
	1004 src file
	1005 src shm
	1006 src shm
	1007 src stack
	1008 src static
	1009 dst static
	1000 src stack
	END
    diff <(pageable) - <<-'END'
	heap src 1 1001 1001 0
	anonymous src 1 1002 1002 0
	file src 2 2007 2007 0
	shm src 2 2011 2011 0
	stack src 2 2007 2007 0
	static src 1 1008 1008 0
	static dst 1 1009 1009 0
	END
}

@test "what is left of a mapping is known, and what came in the place of its pages" {
    run -0 --separate-stderr env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAM" parts
    [[ $(memories) == "2001 src anonymous
2002 src anonymous
2003 src file
2004 src anonymous
2005 src anonymous
2006 src anonymous" ]]
    [[ $(pageable) == "anonymous src 5 10018 10018 2006
file src 1 2003 2003 0" ]]
}

@test "the report has a cure for each kind of memory, of a killed process too" {
    run -137 env ZC_POLICY=off ZC_LOG_LEVEL=summary LD_PRELOAD="$LIBZC" "$PROGRAM" killed
    run -0 scripts/zc report "$ZC_LOG"
    grep -qE '^file +source +8 MiB +1 +8 MiB +0 B ' <<<"$output"
    grep -q '8 MiB copied from or to pageable memory of malloc in 1 copy' <<<"$output"
    grep -q '8 MiB copied from or to mapped files.* `pageable_copy = parallel`' <<<"$output"
    [[ $output == *"[defaults]"$'\n'*"pageable_copy = parallel"* ]]
}

@test "twenty thousand mappings are told apart" {
    run -0 --separate-stderr env ZC_POLICY=off ZC_LOG_LEVEL=summary LD_PRELOAD="$LIBZC" \
        "$PROGRAM" many
    [[ $(pageable) == "anonymous src 20000 1280000 1280000 0" ]]
}
