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
          ("asked_calls", "asked_bytes", "moved_bytes")))' "$ZC_LOG"
}

@test "the log tells heap, mappings, files, shared memory, stacks and variables apart" {
    run -0 --separate-stderr env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAM" sources
    diff <(memories) - <<-'END'
	65537 src heap
	65538 src anonymous
	65539 src file
	65540 src file
	65541 src shm
	65542 src shm
	65543 src stack
	65544 src static
	65545 dst static
	65536 src stack
	END
    diff <(pageable) - <<-'END'
	heap src 1 65537 65537
	anonymous src 1 65538 65538
	file src 2 131079 131079
	shm src 2 131083 131083
	stack src 2 131079 131079
	static src 1 65544 65544
	static dst 1 65545 65545
	END
}

@test "what is left of a mapping is known, and what came in the place of its pages" {
    run -0 --separate-stderr env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAM" parts
    [[ $(memories) == "65537 src anonymous
65538 src anonymous
65539 src file
65540 src anonymous
65541 src anonymous
65542 src anonymous" ]]
    [[ $(pageable) == "anonymous src 5 327698 327698
file src 1 65539 65539" ]]
}

@test "the report has a cure for each kind of memory, of a killed process too" {
    run -137 env ZC_POLICY=off ZC_LOG_LEVEL=summary LD_PRELOAD="$LIBZC" "$PROGRAM" killed
    run -0 scripts/zc report "$ZC_LOG"
    grep -qE '^file +source +8 MiB +1 +8 MiB +' <<<"$output"
    grep -q '8 MiB copied from or to pageable memory of malloc in 1 copy' <<<"$output"
    grep -q '8 MiB copied from or to mapped files.* `pageable_copy = parallel`' <<<"$output"
    [[ $output == *"[defaults]"$'\n'*"pageable_copy = parallel"* ]]
}

@test "more mappings than are remembered are told apart" {
    run -0 --separate-stderr env ZC_POLICY=off ZC_LOG_LEVEL=summary LD_PRELOAD="$LIBZC" \
        "$PROGRAM" many
    [[ $(pageable) == "anonymous src 100 6553600 6553600" ]]
}

@test "blocks of malloc are told from mappings, in the middle, aligned, and in threads" {
    run -0 --separate-stderr env ZC_POLICY=off LD_PRELOAD="$LIBZC" "$PROGRAM" malloced
    [[ $(memories | wc -l) == 6 && $(memories | cut -d" " -f3 | sort -u) == heap ]]
}
