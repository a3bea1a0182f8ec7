#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The pages of zc report and zc diff: whole files, and what a browser makes of them.

load common

setup() {
    need_python
    page=$BATS_TEST_TMPDIR/report.html
}

@test "a page names nothing that lies outside of it" {
    run -0 zc report --html "$page" $LOGS/pipeline.jsonl
    # No attribute, style or import that a browser would load.
    run -1 grep -nE '(src|href)=|@import|url\(|https?:' "$page"
    [[ $(head -n 1 "$page") == '<!DOCTYPE html>' ]]
}

@test "the data of a page are those of the JSON" {
    zc report --html "$page" --top 500 --json $LOGS/pipeline.jsonl >"$BATS_TEST_TMPDIR/json"
    run -0 python3 - "$page" "$BATS_TEST_TMPDIR/json" <<'PYTHON'
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
sys.exit(json.loads(found.group(1)) != json.load(open(sys.argv[2])))
PYTHON
}

@test "a name in a log can't become a tag of the page" {
    sed 's/"exe":"gather"/"exe":"<\/script><script>alert(1)<\/script>{{data}}"/' \
        $LOGS/gather.jsonl >"$BATS_TEST_TMPDIR/evil.jsonl"
    run -0 zc report --html "$page" "$BATS_TEST_TMPDIR/evil.jsonl"
    [[ $(grep -c '<script' "$page") == 3 ]]
    run -1 grep -n '<script>alert' "$page"
    # Mail, which runs no script, shows of a page how the run went.
    run -0 sed -n '/<main/,/<script/p' "$page"
    [[ $output == *'>3.5 ms of 40.5 ms are copies: 64.6 MiB in 3 copies.'* ]]
}

@test "a page tells where its numbers come from, and what the run comes to in a sentence" {
    run -0 json "[d['headline'], *(d['run'][key] for key in ('commands', 'hosts', 'gpus', 'drivers',
        'libzc', 'policies', 'policy_hashes'))]" report $LOGS/gather-mapped.jsonl
    [[ $output == "['3.5 ms of 15.2 ms are copies: 64.6 MiB in 3 copies, 99 % of which the "* ]]
    [[ $output == *"The best rule to try, that of finding 1, can save 298 us at most (2 % of"* ]]
    [[ $output == *"['./gather'], ['node1'], ['Simulated GPU (libzc tests)'], ['13.0'], "* ]]
    [[ $output == *"['0.1.0'], ['/opt/demo/read-mostly-table.conf'], ['bbc8b0d9da9bb96f']]" ]]
    run -0 json "d['headline']" report $LOGS/gather-summary.jsonl
    [[ $output == "3.5 ms of 40.7 ms are copies: "*"3 copies. "* ]]
    [[ $output == *'`everyday` saves about 1.9 ms of simulated time: '* ]]
    [[ $output == *': `zc run --compare @everyday ./gather`.' ]]
}

@test "memory over time has the peaks of the summary, and bytes over time those of the copies" {
    for log in pipeline gather graph gather-mapped; do
        run -0 json "[
            {p: max(v) for p, v in d['memory_over_time']['places'].items()} ==
                {p['place']: p['peak_bytes'] for p in d['places']},
            sum(map(sum, d['timeline']['series'].values())) ==
                sum(f['asked_bytes'] for f in d['flows'])]" report $LOGS/$log.jsonl
        [[ $output == "[True, True]" ]]
    done
    # Copies of pinned memory were issued; those of pageable memory waited, asynchronous or not.
    run -0 json "{k: sum(v) for k, v in d['timeline']['issued'].items()}" report \
        $LOGS/pipeline.jsonl
    [[ $output == "{'DtoH': $((2 << 20)), 'HtoD': $((2 << 20))}" ]]
}

@test "what can't be written is said before logs are read, and a write that fails has its name" {
    for option in --html --trace; do
        run -1 zc report $option "$BATS_TEST_TMPDIR/none/x" missing.jsonl
        [[ $output == "zc: $BATS_TEST_TMPDIR/none/x: No such file or directory" ]]
        run -1 zc report $option "$BATS_TEST_TMPDIR" missing.jsonl
        [[ $output == "zc: $BATS_TEST_TMPDIR: this is a folder; name a file in it to write" ]]
        run -1 zc report $option "$BATS_TEST_TMPDIR/x" missing.jsonl
        [[ $output == "zc: missing.jsonl: "* && ! -e $BATS_TEST_TMPDIR/x ]]
        run -1 zc report $option /dev/full $LOGS/pipeline.jsonl
        [[ $output == *"zc: /dev/full: No space left on device" ]]
        mkfifo "$BATS_TEST_TMPDIR/pipe"
        cat "$BATS_TEST_TMPDIR/pipe" >"$BATS_TEST_TMPDIR/copy" &
        run -0 zc report $option "$BATS_TEST_TMPDIR/pipe" $LOGS/pipeline.jsonl
        wait $!
        [[ -s $BATS_TEST_TMPDIR/copy ]]
        # A limit stands for a full disk.
        run -1 bash -c \
            "ulimit -f 1; scripts/zc report $option '$BATS_TEST_TMPDIR/x' $LOGS/pipeline.jsonl"
        [[ $output == "zc: $BATS_TEST_TMPDIR/x: File too large" && ! -e $BATS_TEST_TMPDIR/x ]]
        rm "$BATS_TEST_TMPDIR/pipe"
    done
}

@test "no page and no trace is written over a log, counters or each other" {
    cp $LOGS/pipeline.jsonl "$BATS_TEST_TMPDIR/a.jsonl"
    cp $LOGS/pipeline.jsonl "$BATS_TEST_TMPDIR/b"
    echo cut >"$BATS_TEST_TMPDIR/c.1.jsonl"
    echo cut >"$BATS_TEST_TMPDIR/c.counters"
    ln -s b "$BATS_TEST_TMPDIR/link"
    cp -r "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR/kept"
    for name in a.jsonl b c.1.jsonl c.counters link; do
        for command in 'report --html' 'report --trace' "diff $LOGS/gather.jsonl --html"; do
            echo "$command $name"
            run -1 zc $command "$BATS_TEST_TMPDIR/$name" $LOGS/pipeline.jsonl
            [[ $output == "zc: $BATS_TEST_TMPDIR/$name: this is a log; name another file to"* ]]
        done
    done
    run -1 zc report --html "$page" --trace "$BATS_TEST_TMPDIR/./report.html" $LOGS/pipeline.jsonl
    [[ $output == "zc: $BATS_TEST_TMPDIR/./report.html: two outputs can't be one file" ]]
    diff -r "$BATS_TEST_TMPDIR" "$BATS_FILE_TMPDIR/kept"
    # Files that zc itself wrote before are written anew.
    for i in 1 2; do
        run -0 zc report --html "$page" --trace "$BATS_TEST_TMPDIR/trace.json" $LOGS/pipeline.jsonl
    done
}

@test "a page that can't be written is said, exit status 1" {
    run -1 --separate-stderr zc report --html "$BATS_TEST_TMPDIR/no/folder.html" $LOGS/gather.jsonl
    [[ $stderr == "zc: $BATS_TEST_TMPDIR/no/folder.html: No such file or directory" ]]
}

@test "in a browser pages do what people ask of them, and Perfetto reads the trace" {
    zc report --html "$page" $LOGS/pipeline.jsonl >/dev/null
    printf -v long 'std__pair_of_%.0s' {1..12}
    sed "s/\"gather+0x/\"$long+0x/g" $LOGS/gather.jsonl >"$BATS_TEST_TMPDIR/gather.jsonl"
    zc report --html "$BATS_TEST_TMPDIR/gather.html" "$BATS_TEST_TMPDIR/gather.jsonl" >/dev/null
    zc diff --html "$BATS_TEST_TMPDIR/diff.html" $LOGS/gather.jsonl $LOGS/gather-mapped.jsonl \
        >/dev/null
    zc report --trace "$BATS_TEST_TMPDIR/trace.json" $LOGS/pipeline.jsonl >/dev/null
    # Selenium may be Debian's, which another Python in the path does not see.
    status=77
    for python in python3 /usr/bin/python3; do
        run -- "$python" tests/tools/browser.py "$page" "$BATS_TEST_TMPDIR/gather.html" \
            "$BATS_TEST_TMPDIR/diff.html" "$BATS_TEST_TMPDIR/trace.json" \
            "${DEPS:-build/deps}/perfetto" \
            ${ZC_SCREENSHOTS:+"$ZC_SCREENSHOTS"}
        ((status == 77)) || break
    done
    ((status != 77)) || skip "no Chromium with Selenium; make deps"
    echo "$output"
    ((status == 0))
}
