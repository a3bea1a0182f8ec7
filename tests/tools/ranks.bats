#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc report of many ranks: which are missing, differ from the rest or stand out.

load common

setup() {
    need_python
}

@test "ranks that differ, are missing or stand out are told, and clocks that differ" {
    python3 -c 'import sys; sys.path.insert(0, "tests/bench"); import rank_logs
rank_logs.write(sys.argv[1], 200, 4)' "$BATS_TEST_TMPDIR/logs"
    run -0 --separate-stderr zc report "$BATS_TEST_TMPDIR/logs"
    texts=$(sed -n '/^Findings/,/^Sites/p' <<<"$output")
    want='1. 2 of 178 processes (train, job 77) ran with another policy than policy.conf (hash '
    want+='a0a0a0a0a0a0a0a0): policy.conf (hash b0b0b0b0b0b0b0b0) for ranks 61, 161.'
    [[ $texts == *"$want"* ]]
    [[ $texts == *"2 of 180 ranks of job 77 left no log: 47, 147."* ]]
    [[ $texts == *"the logs are of 2 jobs, "*" of all: 77 (178 logs), 78 (20 logs)."* ]]
    [[ $texts == *"hosts whose clock differs, "*": node0003 (+"* ]]
    # Five of the others are there all the same.
    [[ $(grep -cE '^[0-9]+\. ' <<<"$texts") == 9 ]]
    grep -qE '^Blocked .* rank 171 on node0021$' <<<"$output"
    grep -qE '^rank 71 on node0008 +Blocked ' <<<"$output"
    grep -qE '^rank 83 on node0010 +Device memory +4 GiB +1 GiB ' <<<"$output"
    run ! grep -E '^rank (7|72) on .* Blocked ' <<<"$output"
    # Every log that there is, whole or cut, is a process of the report.
    run -0 json "d['run']['processes'], d['run']['states']['cut'], [
        (j['job'], j['world'], j['logs'], j['missing']) for j in d['jobs']]" \
        report "$BATS_TEST_TMPDIR/logs"
    [[ $output == "(198, 4, [('77', 180, 178, 2), ('78', 20, 20, 0)])" ]]
}

@test "a launcher's own process is none of its ranks" {
    mkdir "$BATS_TEST_TMPDIR/logs"
    for pid in 8 9 10 11; do
        source=$([[ $pid == 8 ]] && echo null || echo '"torchrun","world":3')
        meta='{"type":"meta","schema":1,"pid":%d,"host":"h","exe":"e","rank":%d,"rank_source":%s}'
        printf "$meta\n" $pid $((pid > 8 ? pid - 9 : 0)) "$source" \
            >"$BATS_TEST_TMPDIR/logs/$pid.jsonl"
        printf '{"type":"summary","wall_ns":%d,"moved_calls":1,"moved_bytes":%d}\n' $((99 - pid)) \
            $((pid == 8 ? 0 : pid)) >>"$BATS_TEST_TMPDIR/logs/$pid.jsonl"
    done
    run -0 --separate-stderr zc report "$BATS_TEST_TMPDIR/logs"
    grep -qx '3 processes of e: the least and the most' <<<"$output"
    grep -qE '^Moved +9 B  rank 0 on h +10 B +11 B  rank 2 on h' <<<"$output"
    grep -qE '^h +-  +8  e ' <<<"$output"
    grep -qE '^h +0  +9  e ' <<<"$output"
}

@test "whatever launchers' variables say, no report hangs on it" {
    mkdir "$BATS_TEST_TMPDIR/logs"
    number=0
    for fields in '"rank":0,"world":1000000000000000000' '"rank":-5,"world":4' \
        '"rank":999999999999999999,"world":null' '"rank":"3","world":"9","job":7' \
        '"rank":1e300,"world":4' '"rank":2,"world":4,"job":"\u001b[31m=x<script>"'; do
        number=$((number + 1))
        meta='{"type":"meta","schema":1,"pid":%d,"host":"h","exe":"e","rank_source":"slurm"'
        printf "$meta,%s}\n" $number "$fields" >"$BATS_TEST_TMPDIR/logs/$number.jsonl"
        echo '{"type":"summary","wall_ns":5,"moved_calls":1,"moved_bytes":9}' \
            >>"$BATS_TEST_TMPDIR/logs/$number.jsonl"
    done
    run -0 --separate-stderr zc report --text --html "$BATS_TEST_TMPDIR/page.html" \
        "$BATS_TEST_TMPDIR/logs"
    [[ $output == *"are not below its 1000000000000000000 processes"*": -5"*"999999999999999999"* ]]
    [[ $output == *"999999999999999999 of 1000000000000000000 ranks of the job left no log."* ||
        $output == *" of 1000000000000000000 ranks of the job left no log."* ]]
    [[ $output == *'3 of 4 ranks of job \x1b[31m=x<script> left no log: 0-1, 3.'* ]]
    run -0 json "d['run']['processes'], d['totals']['moved_bytes']" report "$BATS_TEST_TMPDIR/logs"
    [[ $output == "(6, 54)" ]]
}
