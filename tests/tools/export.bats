#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc export: counters of processes for Prometheus, and the dashboard that shows them.

load programs

setup() {
    need_gpu_programs
    TREE=$PWD
    export PATH=$PATH:$PWD/build/deps/bin ZC_SUMMARY=0 READER=$PWD/build/deps/python
    cd "$BATS_TEST_TMPDIR"
}

teardown() {
    [[ -z ${COPIER:-} ]] || kill "$COPIER" 2>/dev/null || true
    [[ -z ${SERVER:-} ]] || kill "$SERVER" 2>/dev/null || true
}

# Checks the text in the file as Prometheus does, and by a second reader where they are there.
check_text() {
    if command -v promtool >/dev/null; then
        promtool check metrics <"$1"
    else
        echo "# no promtool" >&3
    fi
    PYTHONPATH=$READER python3 - "$1" <<'PYTHON'
import sys
try:
    from prometheus_client.parser import text_string_to_metric_families as parsed
except ImportError:
    raise SystemExit
samples = [sample for family in parsed(open(sys.argv[1], encoding="utf-8").read())
           for sample in family.samples]
keys = [(one.name, *sorted(one.labels.items())) for one in samples]
assert samples and len(set(keys)) == len(keys)
PYTHON
}

@test "what a process counted is told to the byte, and names can't break the text" {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    meta='{"type":"meta","schema":1,"pid":1,"host":"a\"b\\c\nd\u0007é","job":"7{x=\"","rank":3,'
    meta+='"rank_source":"slurm","gpus":[{"uuid":"GPU-1"}]}'
    cp a.counters b.counters
    printf '%s\n' "$meta" >b.jsonl
    run -0 "$ZC" export --prometheus a.jsonl b.counters
    printf '%s\n' "$output" >text
    check_text text
    for line in 'flow="HtoD Pageable Device",outcome="moved"} 1200000' \
        'flow="DtoH Device Pageable",outcome="moved"} 400000'; do
        [[ $(grep -cF "$line" text) == 2 ]]
    done
    labels='{job="7{x=\"",host="a\"b\\c\nd'$'\a''é",gpu="GPU-1",rank="3",pid="'
    [[ $(grep -cF "$labels" text) == $(grep -c 'job="",' text) ]]
    grep -qE '^zc_running\{job="",.*,program="killed"\} 0$' text
    # A file is there whole or as it was, under one name, and no log is overwritten.
    run -0 "$ZC" export --prometheus -o zc.prom a.counters
    check_text zc.prom
    run -1 --separate-stderr "$ZC" export --prometheus -o a.jsonl b.counters
    [[ $stderr == *"a.jsonl: this is a log; name another file to write" ]]
    head -c 100 a.counters >c.counters
    run -0 "$ZC" export --prometheus a.counters c.counters
    [[ $output == *$'\nzc_export_processes 1\n'*$'\nzc_export_unreadable 1\n'* ]]
    [[ $(ls -d zc.prom* a.jsonl*) == $'a.jsonl\nzc.prom' ]]
}

@test "an endpoint tells of processes that began after it, and forgets those that end" {
    "$ZC" export --prometheus --listen 127.0.0.1:0 -i 0.2 >url 5>&- &
    SERVER=$!
    until grep -qs metrics url; do kill -0 $SERVER; sleep 0.05; done
    write_copier
    mkfifo lines
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC python3 copier.py <lines >ready &
    COPIER=$!
    exec 5>lines
    get() {
        python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode(), end="")' "$(cat url)" >text
    }
    until get && grep -qE "^zc_copied_bytes_total.*,pid=\"$COPIER\",.* 10485760$" text; do
        kill -0 $COPIER
        sleep 0.1
    done
    check_text text
    grep -qE "^zc_running\{.*,pid=\"$COPIER\",.*\} 1$" text
    exec 5>&-
    wait $COPIER
    until get && ! grep -q "pid=\"$COPIER\"" text; do sleep 0.1; done
    kill -TERM $SERVER
    status=0
    wait $SERVER || status=$?
    [[ $status == 143 ]]
    SERVER=
    run -1 --separate-stderr "$ZC" export --prometheus --listen 203.0.113.1:9
    [[ $stderr == "zc: "*"203.0.113.1"* ]]
}

@test "the dashboard asks for what is exported, in queries that Prometheus understands" {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    "$ZC" export --prometheus a.counters >text
    python3 - "$TREE/docs/grafana.json" <<'PYTHON'
import json, re, sys
board = json.load(open(sys.argv[1]))
text = open("text").read()
known = dict(re.findall(r"^(zc_\w+)\{(.*)\}", text, re.M))
queries = [(panel["title"], target) for panel in board["panels"] for target in panel["targets"]]
assert len(queries) >= len(board["panels"]) > 5
with open("rules.yml", "w") as out:
    out.write("groups:\n- name: dashboard\n  rules:\n")
    for number, (title, target) in enumerate(queries):
        expression = target["expr"]
        [metric] = set(re.findall(r"zc_\w+", expression))
        labels = set(re.findall(r"(\w+)=\"", known[metric]))
        asked = re.findall(r"(\w+)=~", expression)
        asked += re.findall(r"{{(\w+)}}", target["legendFormat"])
        for group in re.findall(r"by \((.*?)\)", expression):
            asked += group.split(", ")
        assert set(asked) <= labels, (title, asked)
        assert ("rate(" in expression) == metric.endswith("_total") or "Refused" in title, title
        plain = expression.replace("$__rate_interval", "1m").replace("$job", ".*")
        out.write(f"  - record: zc:{number}\n    expr: '{plain.replace('$host', '.*')}'\n")
PYTHON
    command -v promtool >/dev/null || skip "no promtool (make deps)"
    promtool check rules rules.yml
}
