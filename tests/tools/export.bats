#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc export: counters of processes for Prometheus, and the dashboard that shows them.

load programs
load ../packages

setup() {
    need_gpu_programs
    TREE=$PWD
    export PATH=$PATH:$PWD/build/deps/bin ZC_SUMMARY=0
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
    PYTHONPATH=$PACKAGES python3 - "$1" <<'PYTHON'
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
    run -1 --separate-stderr "$ZC" export --prometheus a.counters d.counters
    [[ -z $output && $stderr == "zc: d.counters: no such file" ]]
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

@test "whatever lies where a log or counters file is looked for, nothing waits for it" {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    mkfifo pipe.counters
    # Only the first line of a log tells labels, however long it is behind.
    for log in 'mkfifo a.jsonl' 'ln -s /dev/zero a.jsonl' 'ln -s /dev/tty a.jsonl' \
            'echo >a.jsonl; truncate -s 40G a.jsonl'; do
        rm -f a.jsonl
        eval "$log"
        run -0 timeout 10 "$ZC" export --prometheus a.counters pipe.counters
        [[ $output == *"zc_export_processes 1"*"zc_export_unreadable 1"* ]]
        run -0 timeout 10 "$ZC" top -n 1 --host a.counters
    done
    run -1 timeout 10 "$ZC" top -n 1 pipe.counters
    [[ $output == *"pipe.counters: "* ]]
}

@test "OpenTelemetry's SDK sends what a scrape has, and a last time at the end" {
    need_packages opentelemetry.exporter.otlp prometheus_client
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    # A host that is no Unicode and as long as a line, as a hostile log may have it.
    sed -i '1s/"host":"[^"]*"/"host":"h\\ud800'"$(printf '%099999d')"'"/' a.jsonl
    cat >receive.py <<'PYTHON'
import http.server
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        sent = metrics_service_pb2.ExportMetricsServiceRequest.FromString(
            self.rfile.read(int(self.headers["Content-Length"])))
        [of] = sent.resource_metrics
        assert "libzc" in [one.value.string_value for one in of.resource.attributes]
        found = []
        for metric in (metric for scope in of.scope_metrics for metric in scope.metrics):
            data = metric.sum if metric.HasField("sum") else metric.gauge
            if metric.HasField("sum"):
                assert data.is_monotonic and data.aggregation_temporality == 2  # Cumulative.
            found += [(metric.name + "_total" * metric.HasField("sum"), *sorted(
                (one.key, one.value.string_value) for one in point.attributes),
                float(point.as_int or point.as_double)) for point in data.data_points]
        with open("sent", "w") as file:
            print(sorted(found, key=repr), file=file)
        with open("requests", "a") as file:
            print(self.path, file=file)
        self.send_response(200)
        self.end_headers()

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open("port", "w") as file:
    print(server.server_address[1], file=file)
server.serve_forever()
PYTHON
    python3 receive.py 2>received 5>&- &
    SERVER=$!
    until [[ -s port ]]; do kill -0 $SERVER; sleep 0.05; done
    OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$(cat port) \
        "$ZC" export --opentelemetry -i 1 a.counters 5>&- &
    COPIER=$!
    until [[ -s requests ]]; do kill -0 $COPIER; sleep 0.05; done
    kill -STOP $COPIER
    before=$(wc -l <requests)
    kill -TERM $COPIER
    kill -CONT $COPIER
    status=0
    wait $COPIER || status=$?
    [[ $status == 143 && $(wc -l <requests) -gt $before && $(sort -u requests) == /v1/metrics ]]
    "$ZC" export --prometheus a.counters >text
    [[ $(wc -c <text) -lt 99999 ]]
    python3 - <<'PYTHON'
from prometheus_client.parser import text_string_to_metric_families as parsed
scraped = [(one.name, *sorted(one.labels.items()), one.value)
           for family in parsed(open("text").read()) for one in family.samples]
sent = eval(open("sent").read())
less = lambda samples: sorted((one for one in samples if one[0] != "zc_export_seconds"), key=repr)
gpu = [(dict(one[1:-1]), one[-1]) for one in sent if one[0] == "hw.gpu.io_total"]
sent = [one for one in sent if one[0] != "hw.gpu.io_total"]
assert less(sent) == less(scraped) and len(sent) > 15, (less(sent), less(scraped))
# Metrics that OpenTelemetry's conventions have a name for.
assert [(labels["network.io.direction"], value) for labels, value in gpu] == [
    ("receive", 1200000), ("transmit", 400000)], gpu
assert {labels["hw.type"] for labels, _ in gpu} == {"gpu"}
assert {labels["hw.id"][:4] for labels, _ in gpu} == {"GPU-"}
PYTHON
    run -1 --separate-stderr env PYTHONPATH= "$ZC" export --opentelemetry a.counters
    [[ $stderr == "zc: --opentelemetry needs "*"pip install 'libzc[opentelemetry]'"* ]]
    run -2 --separate-stderr "$ZC" export --opentelemetry --listen :9945 a.counters
    [[ $stderr == *"--listen and --output are for --prometheus" ]]
}

@test "a later scrape tells what a first one would, whatever began, grew, ended and broke since" {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    PYTHONPATH=$TREE/scripts python3 - <<'PYTHON'
import glob, os, shutil, struct
from zclib import counters, prometheus

def texts():
    """The output of an exporter that has read before, and of one that has not."""
    new = prometheus.Exporter(lambda: sorted(glob.glob("*.counters")))
    new.look()
    kept.look()
    return ["".join(line for line in one.text().splitlines(True)
                    if not line.startswith("zc_export_seconds ")) for one in (kept, new)]

def same(*has):
    old, new = texts()
    assert old == new, (old, new)
    for line in has:
        assert line in old, (line, old)

def word(file, at, add=0):
    file.seek(at)
    value, = struct.unpack("=Q", file.read(8))
    file.seek(at)
    file.write(struct.pack("=Q", value + add))
    return value + add

kept = prometheus.Exporter(lambda: sorted(glob.glob("*.counters")))
same('flow="HtoD Pageable Device",outcome="moved"} 1200000', "zc_export_processes 1\n")
page = counters.Counters("a.counters")
h, slots, slot = page.header, page._slots_at, page._slot_bytes

def flow(*key):
    direction, source, to = key
    kinds = [counters.KINDS.index(kind) for kind in (source, to)]
    return (counters.DIRS.index(direction) * h.kinds + kinds[0]) * h.kinds + kinds[1]

grows, begins = flow("HtoD", "Pageable", "Device"), flow("DtoH", "Device", "Managed")
with open("a.counters", "r+b", 0) as file:
    # A counter in use grows; one that was 0 begins, in a thread's slot that was there, in the last
    # word of a slot, and in a slot of a thread that began.
    word(file, slots + slot + 8 * (2 * h.outcomes * grows + 1), 5)
    same('flow="HtoD Pageable Device",outcome="moved"} 1200005')
    for outcome in (0, 2):
        word(file, slots + 8 * (2 * h.outcomes * begins + 2 * outcome), 1)
    word(file, slots + 8 * (2 * h.outcomes * begins + 1), 77)
    same('flow="DtoH Device Managed",outcome="moved"} 77', 'outcome="elided"} 0')
    word(file, slots + slot - 8, 1 << 40)
    same()
    file.seek(counters.HEADER.size)
    used, = struct.unpack("=I", file.read(4))
    for number in range(used + 1, h.slots):
        word(file, slots + number * slot + 8 * (2 * h.outcomes * begins + 1), 1)
    word(file, counters.HEADER.size, h.slots - 1 - used)
    same(f'flow="DtoH Device Managed",outcome="moved"}} {76 + h.slots - used}')
shutil.copy("a.counters", "b.counters")
same("zc_export_processes 2\n")
os.truncate("a.counters", slots + 3 * slot + 4)
same("zc_export_processes 1\n", "zc_export_unreadable 1\n")
os.remove("a.counters")
with open("b.counters", "r+b", 0) as file:
    word(file, counters.HEADER.size - 64 - 8, 1)   # Before the name: a clean end.
old, new = texts()
assert old == new and "zc_export_processes 0\n" in old and "zc_copies" not in old, old
PYTHON
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
