#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc diff: two runs, site by site and process by process.

load common

setup() {
    need_python
}

@test "the same program under two policies is compared site by site" {
    golden diff.txt diff $LOGS/gather.jsonl $LOGS/gather-mapped.jsonl
}

@test "ranks are paired across hosts, and what has no partner is said" {
    golden diff-ranks.txt diff $LOGS/ranks/a $LOGS/ranks/b
}

@test "a run compared with itself has no change" {
    run -0 json "[r['change'] for r in d['totals'] if r['change']],
                 [s for s in d['sites'] if s['change_moved_bytes']]" \
        diff $LOGS/pipeline.jsonl $LOGS/pipeline.jsonl
    [[ $output == "([], [])" ]]
    run -0 zc diff $LOGS/pipeline.jsonl $LOGS/pipeline.jsonl
    [[ ${lines[0]} == "B moves as much (8 MiB), takes as long (28.3 ms) and holds as much "* ]]
}

@test "totals are the sums of both sides whatever is paired" {
    run -0 json "[(r['a'], r['b']) for r in d['totals'] if r['name'] == 'Moved'],
                 d['paired'], d['without_partner']" diff $LOGS/ranks/a $LOGS/ranks/b
    [[ $output == "([(271132928, 203349696)], 3, {'a': ['node2 rank 3 pid 5003'], 'b': []})" ]]
}

@test "different programs are paired if there is one on each side, and share no site" {
    run -0 zc diff $LOGS/gather.jsonl $LOGS/pipeline.jsonl
    [[ $output != *"without a partner"* ]]
    [[ ${lines[0]} == *"; but it asks for 8 MiB instead of 64.6 MiB; no site is in both runs: "* ]]
}

@test "a side that can't be read is said, exit status 1" {
    run -1 zc diff $LOGS/empty.jsonl $LOGS/gather.jsonl
    run -1 zc diff $LOGS/gather.jsonl "$BATS_TEST_TMPDIR/missing"
    [[ $output == "zc: $BATS_TEST_TMPDIR/missing: no such file or folder" ]]
}

@test "a side without totals is said to be too low" {
    run -0 --separate-stderr zc diff $LOGS/cut.jsonl $LOGS/pipeline.jsonl
    [[ $output == *"note: 1 of A without totals"* ]]
}
