#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The pages of zc report and zc diff: whole files, and what a browser makes of them.

load common

setup() {
    need_python
    page=$BATS_TEST_TMPDIR/report.html
}

# A Chart.js that draws nothing, for tests of what is around it.
stand_in() {
    export ZC_CHART_JS=$BATS_TEST_TMPDIR/chart.min.js
    echo 'window.Chart = class { constructor() {} destroy() {} }; Chart.defaults = {};' \
        >"$ZC_CHART_JS"
}

# Chart.js as zc finds it.
have_charts() {
    python3 -c 'import sys; sys.path.insert(0, "scripts")
from zclib.report import page; sys.exit(page.chart_library() is None)'
}

@test "a page names nothing that lies outside of it" {
    stand_in
    run -0 zc report --html "$page" $LOGS/pipeline.jsonl
    # No attribute, style or import that a browser would load.
    run -1 grep -nE '(src|href)=|@import|url\(|https?:' "$page"
    [[ $(head -n 1 "$page") == '<!DOCTYPE html>' ]]
}

@test "the data of a page are those of the JSON" {
    stand_in
    zc report --html "$page" --top 500 --json $LOGS/pipeline.jsonl >"$BATS_TEST_TMPDIR/json"
    run -0 python3 - "$page" "$BATS_TEST_TMPDIR/json" <<'PYTHON'
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
sys.exit(json.loads(found.group(1)) != json.load(open(sys.argv[2])))
PYTHON
}

@test "a name in a log can't become a tag of the page" {
    stand_in
    sed 's/"exe":"gather"/"exe":"<\/script><script>alert(1)<\/script>{{data}}"/' \
        $LOGS/gather.jsonl >"$BATS_TEST_TMPDIR/evil.jsonl"
    run -0 zc report --html "$page" "$BATS_TEST_TMPDIR/evil.jsonl"
    [[ $(grep -c '<script' "$page") == 3 ]]
    run -1 grep -n '<script>alert' "$page"
}

@test "without Chart.js the page is made without charts, and how to get them is said" {
    cat >"$BATS_TEST_TMPDIR/without.py" <<'PYTHON'
import sys
sys.path.insert(0, "scripts")
from zclib.report import page
page.CHART_PLACES = ()
from zclib import cli
sys.exit(cli.main(sys.argv[1:]))
PYTHON
    run -0 --separate-stderr env -u ZC_CHART_JS python3 "$BATS_TEST_TMPDIR/without.py" \
        report --html "$page" $LOGS/gather.jsonl
    [[ $stderr == *"the page has no charts: Chart.js is not installed"*"apt-get install"* ]]
    grep -q '"no_charts"' "$page"
}

@test "what can't be written is said before logs are read, and a write that fails has its name" {
    for option in --html --trace; do
        run -1 zc report $option "$BATS_TEST_TMPDIR/none/x" missing.jsonl
        [[ $output == "zc: $BATS_TEST_TMPDIR/none/x: No such file or directory" ]]
        run -1 zc report $option "$BATS_TEST_TMPDIR/x" missing.jsonl
        [[ $output == "zc: missing.jsonl: "* && ! -e $BATS_TEST_TMPDIR/x ]]
        run -1 zc report $option /dev/full $LOGS/pipeline.jsonl
        [[ $output == *"zc: /dev/full: No space left on device" ]]
        mkfifo "$BATS_TEST_TMPDIR/pipe"
        cat "$BATS_TEST_TMPDIR/pipe" >"$BATS_TEST_TMPDIR/copy" &
        run -0 zc report $option "$BATS_TEST_TMPDIR/pipe" $LOGS/pipeline.jsonl
        wait $!
        [[ -s $BATS_TEST_TMPDIR/copy ]]
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
    # What zc itself wrote before is written anew.
    for i in 1 2; do
        run -0 zc report --html "$page" --trace "$BATS_TEST_TMPDIR/trace.json" $LOGS/pipeline.jsonl
    done
}

@test "a ZC_CHART_JS that can't be read is said" {
    head -c 100 /dev/urandom >"$BATS_TEST_TMPDIR/binary"
    printf '\xff' >>"$BATS_TEST_TMPDIR/binary"
    for name in none.js . binary; do
        export ZC_CHART_JS=$BATS_TEST_TMPDIR/$name
        run -0 --separate-stderr zc report --html "$page" $LOGS/pipeline.jsonl
        [[ $stderr == "zc: ZC_CHART_JS names '$ZC_CHART_JS', which can't be read: "* ]]
        [[ -s $page ]]
    done
}

@test "a page that can't be written is said, exit status 1" {
    stand_in
    run -1 --separate-stderr zc report --html "$BATS_TEST_TMPDIR/no/folder.html" $LOGS/gather.jsonl
    [[ $stderr == "zc: $BATS_TEST_TMPDIR/no/folder.html: No such file or directory" ]]
}

@test "in a browser the tables sort and filter by clicks, and both themes have charts" {
    if have_charts; then export ZC_CHARTS=1; else stand_in; fi
    zc report --html "$page" $LOGS/pipeline.jsonl >/dev/null
    zc diff --html "$BATS_TEST_TMPDIR/diff.html" $LOGS/gather.jsonl $LOGS/gather-mapped.jsonl \
        >/dev/null
    # Selenium may be Debian's, which another Python in the path does not see.
    status=77
    for python in python3 /usr/bin/python3; do
        run -- "$python" tests/tools/browser.py "$page" "$BATS_TEST_TMPDIR/diff.html" \
            ${ZC_SCREENSHOTS:+"$ZC_SCREENSHOTS"}
        ((status == 77)) || break
    done
    ((status != 77)) || skip "no Chromium with Selenium; make deps"
    echo "$output"
    ((status == 0))
}
