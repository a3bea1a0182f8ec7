#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc report: what it makes of kept logs, whole and damaged.

load common

setup() {
    need_python
}

@test "a log of the level events gives sizes, sites, blocks and findings" {
    golden report-pipeline.txt report $LOGS/pipeline.jsonl
}

@test "a log under a policy tells what was moved and what was not" {
    golden report-mapped.txt report $LOGS/gather-mapped.jsonl
}

@test "copies of one size between the same two ends are counted as repeated" {
    golden report-graph.txt report $LOGS/graph.jsonl
}

@test "shared blocks, and those that moved, are summed up by site" {
    log=$BATS_TEST_TMPDIR/a.jsonl
    alloc='{"type":"alloc","api":"cuMemAlloc","size_bytes":4194304,"place":"shared","rule":"r"'
    pair='{"type":"pair","device_site":"00000001","size_bytes":4194304,"elided_copies":3'
    pair+=',"elided_bytes":12582912,"copied_bytes":4096'
    printf '%s\n' '{"type":"meta","schema":1,"pid":1,"host":"h","exe":"e"}' \
        '{"type":"site","site":"00000001","frames":["e+0x10"]}' \
        "$alloc"',"block":1,"site":"00000001"}' "$alloc"',"block":2,"site":"00000002"}' \
        '{"type":"move","block":2,"to":"host","bytes":4194304,"why":"others are used before it"}' \
        "$pair"',"backing":"one","why":null}' \
        "$pair"',"backing":"own","why":"a call writes it"}' \
        '{"type":"summary","wall_ns":10000000,"moved_calls":0,"sites":[
            {"site":"00000002","requests":1,"traffic":[{"dir":"HtoD","elided_calls":1,
             "elided_bytes":5}]}],"shared":{"pairs":2,"copied_bytes":8192}}' | tr -d '\n' |
        sed 's/}{"type"/}\n{"type"/g' >"$log"
    echo >>"$log"
    run -0 zc report "$log"
    grep -qE '^00000001 +e\+0x10 +2 +1 +24 MiB +6 +8 KiB$' <<<"$output"
    grep -qE '^00000002 .* 1 +moved to host memory: others are used before it$' <<<"$output"
    [[ $output == *"e+0x10): 1 of 2 shared blocks had device memory of their own: a call wr"* ]]
    sed -i '/"pair"/d' "$log"
    run -0 json "[(row['blocks'], row['copied_bytes'], row['site']) for row in d['shared']]" \
        report "$log"
    [[ $output == "[(2, 8192, None)]" ]]
}

# Prints the kinds of findings about the site of a pinned block: pinned_findings SIZE TRAFFIC
pinned_findings() {
    log=$BATS_TEST_TMPDIR/a.jsonl
    printf '%s\n' '{"type":"meta","schema":1,"pid":1,"host":"h","exe":"e"}' \
        '{"type":"site","site":"00000001","frames":["e+0x10"]}' \
        '{"type":"alloc","api":"cuMemHostAlloc","size_bytes":'"$1"',"block":1,"site":"00000001"}' \
        '{"type":"summary","wall_ns":10000000,"sites":[{"site":"00000001","requests":1,' \
        '"requested_bytes":'"$1"',"traffic":['"$2"']}]}' | sed -z 's/,\n"req/,"req/' >"$log"
    run -0 json "[f['kind'] for f in d['findings']]" report "$log"
}

@test "pinned memory that nothing copied is named, if it is much" {
    pinned_findings 67108864 ''
    [[ $output == "['unused-pinned']" ]]
    run -0 zc report "$log"
    [[ $output == *"e+0x10): 64 MiB of pinned memory in 1 block that no copy used"* ]]
    pinned_findings 67108863 ''
    [[ $output == "[]" ]]
    pinned_findings 67108864 '{"dir":"HtoD","moved_calls":1,"moved_bytes":5}'
    [[ $output == "[]" ]]
}

@test "a log of the level summary gives what it has and says what more there is" {
    golden report-summary.txt report $LOGS/gather-summary.jsonl
}

@test "logs of several ranks are summed up, and a folder stands for the logs in it" {
    golden report-ranks.txt report $LOGS/ranks/a
}

@test "a cut log is used as far as it goes" {
    golden report-cut.txt report $LOGS/cut.jsonl
}

@test "damaged lines are named and left out" {
    golden report-corrupt.txt report $LOGS/corrupt.jsonl
}

@test "numbers that JSON or 64 bits can't hold are damage, and reach nothing that is written" {
    log=$BATS_TEST_TMPDIR/a.jsonl page=$BATS_TEST_TMPDIR/page.html trace=$BATS_TEST_TMPDIR/trace
    for number in NaN Infinity 1e999 -1e300 "1$(printf '0%.0s' {1..400})"; do
        sed -E '/"transfer"/s/"(time_ns|bytes)":[0-9]+/"\1":'"$number"/g $LOGS/gather.jsonl >"$log"
        run -0 zc report --html "$page" --trace "$trace" "$log"
        run ! grep -q 'NaN\|Infinity' "$trace"
        sed -E '/"summary"/s/"([a-z_]+_(ns|calls))":[0-9]+/"\1":'"$number"/g $LOGS/gather.jsonl \
            >"$log"
        run -0 zc report "$log"
        run -0 zc diff "$log" $LOGS/gather.jsonl
        run -0 zc diff $LOGS/gather.jsonl "$log"
    done
}

@test "threads that copy side by side are blocked for longer than the run, which is no percentage" {
    log=$BATS_TEST_TMPDIR/a.jsonl
    sed -E '/"summary"/s/"wall_ns":[0-9]+/"wall_ns":1000000/' $LOGS/pipeline.jsonl >"$log"
    run -0 zc report "$log"
    [[ ${lines[2]} == *"; 15.4 ms blocked, 15.4 times the time of the run, summed over threads" ]]
    run ! grep -E '[0-9]{3} % of the run' <<<"$output"
    run -0 json "d['headline']" report "$log"
    [[ $output == *"can save "*" times the time of the run, summed over threads)." ]]
}

@test "damaged lines change none of the totals" {
    for key in totals flows sites; do
        [[ $(json "d['$key']" report $LOGS/corrupt.jsonl) == \
            "$(json "d['$key']" report $LOGS/gather.jsonl)" ]]
    done
}

@test "a schema of the future is said and read as far as it is known" {
    golden report-future.txt report $LOGS/future.jsonl
}

@test "an empty log is nothing to report" {
    golden report-empty.txt report $LOGS/empty.jsonl
}

@test "a file that is missing or no log is said, exit status 1" {
    run -1 zc report "$BATS_TEST_TMPDIR/no such log"
    [[ $output == "zc: $BATS_TEST_TMPDIR/no such log: no such file or folder" ]]
    run -1 zc report Makefile
    [[ $output == *"Makefile: no line of it is a record of libzc; nothing is read of it"* ]]
}

@test "a folder that can't be read is said, and is not one without logs" {
    mkdir -p "$BATS_TEST_TMPDIR/logs/shut"
    cp $LOGS/gather.jsonl "$BATS_TEST_TMPDIR/logs"
    # Root may read every folder, so that the system call stands in for it.
    cat >"$BATS_TEST_TMPDIR/zc.py" <<'PYTHON'
import os, sys
sys.path.insert(0, "scripts")
scan = os.scandir
def refuse(path):
    if str(path).endswith("shut"):
        raise PermissionError(13, "Permission denied", path)
    return scan(path)
os.scandir = refuse
from zclib import cli
sys.exit(cli.main(sys.argv[1:]))
PYTHON
    run -0 --separate-stderr python3 "$BATS_TEST_TMPDIR/zc.py" report "$BATS_TEST_TMPDIR/logs"
    [[ $output == *"1 process of gather "* ]]
    [[ $stderr == "zc: $BATS_TEST_TMPDIR/logs/shut: Permission denied; logs in it are left out" ]]
    run -1 --separate-stderr python3 "$BATS_TEST_TMPDIR/zc.py" report "$BATS_TEST_TMPDIR/logs/shut"
    [[ $stderr == "zc: $BATS_TEST_TMPDIR/logs/shut: Permission denied; "* ]]
}

@test "a bad log among good ones leaves the report of the good ones" {
    run -0 --separate-stderr zc report $LOGS/empty.jsonl $LOGS/gather.jsonl
    [[ $output == *"1 process of gather on node1,"* ]]
    [[ $stderr == *"empty.jsonl: the file is empty"* ]]
}

@test "the totals of JSON are those of the log's summary" {
    for log in pipeline gather graph gather-mapped; do
        [[ $(json "[d['totals'][k] for k in ('asked_calls', 'asked_bytes', 'moved_bytes',
                   'cpu_copied_bytes', 'blocked_ns')]" report $LOGS/$log.jsonl) == \
            "$(python3 -c '
import json, sys
summary = [json.loads(line) for line in open(sys.argv[1])][-1]
print([summary[k] for k in ("asked_calls", "asked_bytes", "moved_bytes", "cpu_copied_bytes",
                            "blocked_ns")])' $LOGS/$log.jsonl)" ]]
    done
}

@test "the transfers of a log and its summary give the same flows and sites" {
    head -n -1 $LOGS/pipeline.jsonl >"$BATS_TEST_TMPDIR/lines.jsonl"
    # Times are rounded to nanoseconds once a transfer, or once.
    for rows in "d['flows']" "[d['totals']]" "d['sites']"; do
        what="[[v for k, v in row.items() if k.startswith(('asked', 'moved', 'requests'))]
               for row in $rows]"
        [[ $(json "$what" report "$BATS_TEST_TMPDIR/lines.jsonl") == \
            "$(json "$what" report $LOGS/pipeline.jsonl)" ]]
    done
}

@test "no cell of --csv is a formula or acts on a terminal, and numbers stay numbers" {
    python3 - >"$BATS_TEST_TMPDIR/odd.jsonl" <<'PYTHON'
import json

print(json.dumps({"type": "meta", "time_ns": 1, "schema": 1, "pid": 1, "host": "@SUM(1)",
                  "exe": "=1+1", "argv": ["\t=1", "\x1b[31m\r", 'a"b,c']}))
rows = [{"place": place, "blocks": 0, "bytes": 0, "peak_bytes": peak}
        for place, peak in (("+1", -5), ("-2", 7), ("\uff1d3", 1), ("\r=4", 2), ("a=b", 3))]
print(json.dumps({"type": "summary", "time_ns": 2, "wall_ns": 1, "places": rows, "flows": [],
                  "moved_by_kind": [], "sites": []}))
PYTHON
    run -0 --separate-stderr zc report --csv "$BATS_TEST_TMPDIR/odd.jsonl"
    grep -q "^places,'.*3,1\$" <<<"$output"
    diff - <(grep '^places,.*[^1]$' <<<"$output") <<'CSV'
places,'+1,-5
places,'-2,7
places,\x0d=4,2
places,a=b,3
CSV
    [[ $output == *"processes,'@SUM(1),0,1,'=1+1,"*'"\x09=1 \x1b[31m\x0d a""b,c"'* ]]
    run -1 grep -q $'[\x01-\x09\x0b-\x1f]' <<<"$output"
}

@test "CSV has each table under its headings" {
    golden report.csv report --csv $LOGS/graph.jsonl
    run -2 zc report --csv --json $LOGS/graph.jsonl
    [[ $output == "zc: argument --json: not allowed with argument --csv "* ]]
}

@test "--top limits and --sort orders sites and blocks" {
    run -0 json "[s['blocked_ns'] for s in d['sites']]" report --top 2 --sort time \
        $LOGS/pipeline.jsonl
    python3 -c 'import sys; times = eval(sys.argv[1])
assert len(times) == 2 and times[0] >= times[1]' "$output"
    first=$(json "d['blocks'][0]['blocked_ns']" report --sort time $LOGS/pipeline.jsonl)
    most=$(json "max(b['blocked_ns'] for b in d['blocks'])" report --top 99 $LOGS/pipeline.jsonl)
    [[ $first == "$most" ]]
    run -2 zc report --top 0 $LOGS/pipeline.jsonl
    run -2 zc report --sort colour $LOGS/pipeline.jsonl
}

@test "every rule that a finding proposes is a policy without faults" {
    tool=${ZC_BUILD:-build}/zc-policy
    for log in $LOGS/*.jsonl; do
        zc report --json --top 99 "$log" 2>/dev/null >"$BATS_TEST_TMPDIR/report.json" || continue
        python3 -c '
import json, sys
for finding in json.load(open(sys.argv[1]))["findings"]: print(finding["rule"] or "")' \
            "$BATS_TEST_TMPDIR/report.json" >"$BATS_TEST_TMPDIR/policy.conf"
        run -0 zc check "$BATS_TEST_TMPDIR/policy.conf"
    done
}

@test "many small copies hide no large ones, and small ones alone get no rule" {
    need_python
    for level in events allocs; do
        python3 - "$BATS_TEST_TMPDIR" "$level" <<'PYTHON'
import json, sys
folder, level = sys.argv[1:]

def log(name, sizes):
    ends = {"dir": "HtoD", "src_kind": "Pageable", "dst_kind": "Device"}
    moved = {"moved_calls": len(sizes), "moved_bytes": sum(sizes), "blocked_ns": 5 * 10**8}
    lines = [{"type": "meta", "schema": 1, "libzc": "0.3.0", "pid": 1, "exe": "e",
              "log_level": level}]
    if level == "events":
        lines += [{"type": "transfer", "time_ns": 5, "function": "cuMemcpyHtoD_v2", **ends,
                   "real_dir": "HtoD", "real_src_kind": "Pageable", "real_dst_kind": "Device",
                   "bytes": size, "outcome": "moved", "blocked_ns": 10} for size in sizes]
    by_size = [{"site": f"{size:08x}", "requests": 1, "requested_bytes": size, "traffic": [
        {"dir": "HtoD", "moved_calls": sizes.count(size), "moved_bytes": sizes.count(size) * size,
         "blocked_ns": 10}]} for size in set(sizes)]
    large = [size for size in sizes if size >= 1 << 16]  # Of which the log tells more.
    pageable = [{"memory": "heap", "side": "src", "asked_calls": len(large),
                 "asked_bytes": sum(large), "moved_bytes": sum(large), "blocked_ns": 5 * 10**8,
                 "sizes": [{"least_bytes": size, "bytes": large.count(size) * size}
                           for size in sorted(set(large))]}] if large else []
    lines.append({"type": "summary", "wall_ns": 10**9, **moved, "flows": [{**ends, **moved}],
                  "moved_by_kind": [{**ends, "calls": len(sizes), "bytes": sum(sizes)}],
                  "sites": by_size, "pageable": pageable})
    with open(f"{folder}/{name}.jsonl", "w") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))

log("both", [1 << 20] * 8 + [4096] * 512)
log("small", [4096] * 512)
log("mixed", [32 << 20] * 11 + [128 << 10] * 2000)
PYTHON
        # No copy has the average size, which is 307 KiB.
        run -0 zc report "$BATS_TEST_TMPDIR/mixed.jsonl"
        grep -qx ' *size = 128K\.\.' <<<"$output"
        run -0 zc report "$BATS_TEST_TMPDIR/both.jsonl"
        grep -qx ' *place = pinned, pageable' <<<"$output"
        grep -qx ' *size = 1M\.\.' <<<"$output"
        run -0 zc report "$BATS_TEST_TMPDIR/small.jsonl"
        [[ $output == *"most of it in copies below 128 KiB, for which no rule pins memory."* ]]
        [[ $output != *"place = pinned"* ]]
    done
}

@test "the size that a rule begins at is one of copies that were made, not their average" {
    load programs
    need_gpu_programs
    cat >"$BATS_TEST_TMPDIR/heat.c" <<'C'
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    enum { LARGE = 32 << 20, SMALL = 128 << 10 };
    CUcontext context;
    CUdeviceptr d;
    char *h = malloc(LARGE);

    memset(h, 1, LARGE);
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&d, LARGE))
        return 1;
    for (int i = 0; i < 4; i++) {
        cuMemcpyHtoD(d, h, LARGE);
        cuMemcpyDtoH(h, d, LARGE);
        for (int k = 0; k < 30; k++)
            cuMemcpyHtoD(d + k * SMALL, h + k * SMALL, SMALL);
    }
    return 0;
}
C
    "${CC:-gcc}" -w -o "$BATS_TEST_TMPDIR/heat" -isystem "${CUDA_HOME:-/usr/local/cuda}/include" \
        "$BATS_TEST_TMPDIR/heat.c" "$SIM/libcuda.so.1"
    for level in summary allocs events; do
        run -0 zc run -l "$level" -o "$BATS_TEST_TMPDIR/$level" "$BATS_TEST_TMPDIR/heat"
        # 256 of 271 MiB are in copies of 32 MiB; the average copy has 2.1 MiB.
        grep -A 1 -x ' *api = heap' <<<"$output" | grep -qx ' *size = 32M\.\.'
    done
    # Savings of everyday are known by these sizes, too.
    for level in summary allocs events; do
        run -0 json 'sum(f["predicted"]["pageable_bytes"] for f in d["findings"]
            if f["kind"] == "everyday") >> 20' report "$BATS_TEST_TMPDIR/$level"
        [[ $output == 256 ]]
    done
}

@test "the rule of every finding changes what the finding named" {
    load programs
    need_gpu_programs
    build_program copies "$BATS_TEST_TMPDIR"
    TREE=$PWD PATH=$PWD/scripts:$PATH run -0 python3 -B - "$LIBZC" "$BATS_TEST_TMPDIR" "$GATHER" \
        "$PWD/$ZC_BUILD/kernels"/{grow,pipeline}-shared <<'PYTHON'
import os, shlex, subprocess, sys, tempfile
sys.path.insert(0, os.environ["TREE"] + "/scripts")
from zclib import costs, launch
from zclib.report.findings import Finder
from zclib.report.symbols import Symbols
from zclib.merge import map_logs
library, folder, gather, grow, pipeline = sys.argv[1:]

def sums(logs):
    totals = map_logs([logs + "/" + name for name in os.listdir(logs) if name.endswith("jsonl")])
    assert not totals.messages()
    return totals

def run(command, policy, level="events"):
    """The sums of a run under the text of a policy, and its findings."""
    logs = tempfile.mkdtemp(dir=folder)
    path = "off"
    if policy:
        path = logs + "/p.conf"
        with open(path, "w") as file:
            file.write(policy)
    env = launch.environment(library, logs, path, level)
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    totals = sums(logs)
    return totals, Finder(totals, Symbols(totals.modules)).all()

def named(finding, totals):
    """The bytes that a finding is about, in a run."""
    if finding.kind == "growing":
        return sum(one.counts.moved_bytes for flow, one in totals.flows.items()
                   if flow.dir == "DtoD")
    if finding.site:
        return totals.sites[finding.site].copies().moved_bytes
    return sum(process.pageable_moved for process in totals.processes)

def tried(finding):
    """The sums of a run of the command line that a finding proposes."""
    logs = tempfile.mkdtemp(dir=folder)
    words = shlex.split(finding.command)
    subprocess.run([*words[:2], "-q", "-o", logs, *words[2:]], check=True,
                   stdout=subprocess.DEVNULL)
    return sums(logs)

def kept(totals):
    return {"pageable_bytes": sum(process.pageable_moved for process in totals.processes),
            "elided_bytes": -totals.counts.elided_bytes}

copies, seen, first = folder + "/copies", {}, {}
for command, level in (
        ([copies, "heap", "8"], "events"), ([copies, "map", "8"], "events"),
        ([copies, "heap", "1"], "events"), ([copies, "pinned", "8"], "events"),
        ([gather, "8192", "1024"], "events"), ([gather, "128", "1024"], "events"),
        ([gather, "64", "1024"], "events"), ([grow, "512"], "events"),
        ([copies, "heap", "8"], "summary"), ([gather, "8192", "1024"], "allocs"),
        ([pipeline], "summary")):
    os.environ["SIM_KERNELS"] = os.path.dirname(os.environ["SIM_KERNELS"]) + \
        {grow: "/grow.so", pipeline: "/pipeline.so"}.get(command[0], "/gather.so")
    before, findings = run(command, "", level)
    for finding in findings:
        if finding.command:
            # Rules that need no promise come first, and do what was said, to the byte.
            assert finding is findings[0] and finding.kind == "everyday", findings
            assert finding.command == "zc run -p @everyday " + shlex.join(command)
            after, was, now = tried(finding), kept(before), 0
            for name, size in was.items():
                assert size - kept(after)[name] == getattr(finding, name), (command, finding, name)
            first[" ".join([os.path.basename(command[0]), *command[1:], level])] = \
                finding.pageable_bytes >> 20, finding.elided_bytes >> 20
    for finding in findings:
        if finding.rule:
            after, left = run(command, finding.rule, level)
            was, now = named(finding, before), named(finding, after)
            assert now < was / 10, (command, finding, was, now)
            # A rule in force is not proposed once more.
            assert not any(one.rule == finding.rule for one in left), (command, left)
            seen.setdefault(finding.kind, set()).add(finding.rule.split("place = ")[-1].split()[0])
assert seen == {"repeated": {"shared,", "mapped,"}, "once": {"shared,"},
                "pageable": {"pinned,", "[defaults]"}, "growing": {"vmm,"}}, seen
# Not for pinned memory, and not for copies of some KiB.
assert first == {"copies heap 8 events": (64, 0), "copies heap 8 summary": (64, 0),
                 "copies map 8 events": (64, 0), "copies heap 1 events": (8, 0),
                 "gather-shared 8192 1024 events": (8, 0),
                 "gather-shared 8192 1024 allocs": (8, 0), "grow-shared 512 events": (0, 24)}, first
# At the level summary, which does not tell what rules did, none is for a call path under a policy.
assert not any(one.site and one.rule for one in run(
    [copies, "heap", "8"], "[rule all]\nplace = vmm\n", "summary")[1])

# If the machine's rates are kept, findings say what their rules save, and come in that order.
totals, _ = run([copies, "heap", "8"], "")
process = totals.processes[0]
process.gpu, os.environ["XDG_CACHE_HOME"] = "NVIDIA H200", folder
costs.keep(process.host, process.gpu, {fact: [10, 1] for fact in costs.FACTS})
findings = Finder(totals, Symbols(totals.modules)).all()
assert [one.kind for one in findings] == ["everyday", "repeated", "pageable"], findings
blocked = sum(one.counts.blocked_ns for side, one in totals.memory.items() if side.memory == "heap")
assert findings[2].gain_ns == blocked - round((64 << 20) / 10), (findings, blocked)
blocked = totals.covered.large["HtoD"].blocked_ns
assert findings[0].gain_ns == round(blocked - (64 << 20) / 10 / costs.PARALLEL_SHARE), findings
assert ", which saves up to " in findings[1].text
assert all("% of the run, by the rates" in finding.text for finding in findings[::2])
# It gains nothing where the link is no faster, and a policy that is in force is not replaced.
costs.keep(process.host, process.gpu, {fact: [1, 10] for fact in costs.FACTS})
assert "everyday" not in {one.kind for one in Finder(totals, Symbols(totals.modules)).all()}
process.policy, process.gpu = "policy.conf", "Simulated GPU"
assert "everyday" not in {one.kind for one in Finder(totals, Symbols(totals.modules)).all()}
PYTHON
}

@test "names of a log can't act on the terminal" {
    sed 's/"exe":"gather"/"exe":"ga\\u001b[31mther\\n"/' $LOGS/gather.jsonl \
        >"$BATS_TEST_TMPDIR/evil.jsonl"
    run -0 zc report "$BATS_TEST_TMPDIR/evil.jsonl"
    [[ ${lines[1]} == '1 process of ga\x1b[31mther\x0a on node1,'* ]]
}

@test "a name of any bytes is opened and printed" {
    name=$BATS_TEST_TMPDIR/$'a b\xff.jsonl'
    cp $LOGS/gather.jsonl "$name"
    run -0 zc report "$name"
    run -0 json "d['processes'][0]['log'].endswith('a b\udcff.jsonl')" report "$name"
    [[ $output == True ]]
}

@test "on a terminal no line is wider than it, and what is left out is said" {
    command -v script >/dev/null || skip "no script(1)"
    for width in 40 60 132; do
        others=()
        ((width > 40)) || others=("diff $LOGS/gather.jsonl $LOGS/gather-mapped.jsonl" "check --keys"
            "explain tests/tools/policies/rules.conf $LOGS/gather.jsonl")
        COLUMNS='' script -qec "stty cols $width; exec 2>$BATS_TEST_TMPDIR/err
            $(printf 'scripts/zc %s\n' "report $LOGS/gather-mapped.jsonl" "${others[@]}")" \
            /dev/null | tr -d '\r' |
            sed -E 's/\x1b\[[0-9;]*[mK]//g; /^ {7}api = /d' >"$BATS_TEST_TMPDIR/$width"
        run -1 grep -nE ".{$((width + 1))}" "$BATS_TEST_TMPDIR/$width"
        [[ ! -s $BATS_TEST_TMPDIR/err ]]
    done
    cd "$BATS_TEST_TMPDIR"
    # No number stands without its unit.
    grep -qxF '659 KiB of it moved as such' 40
    grep -qxF '    Moved: 0 B  CPU: 64 MiB  Elided: 0 B' 40
    grep -qF 'Meaning: bytes asked for, before' 40
    grep -qF 'Left out, because the terminal is too narrow: Avg, Med, Min,' 60
    run -1 grep -F 'Left out' 132
}

@test "large copies that waited for one link beside idle ones are a finding, for others not" {
    log=$BATS_TEST_TMPDIR/a.jsonl
    # pinned GPUS GIB MILLISECONDS [FIELD OF META...]
    pinned() {
        python3 - "$log" "$@" <<'PYTHON'
import json, os, sys
log, gpus, gib, ms = sys.argv[1], *map(int, sys.argv[2:5])
between = {"dir": "PtoP", "src_kind": "Device", "dst_kind": "Device", "calls": 1,
           "bytes": int(os.environ.get("relayed", 0)) << 30}
flow = {"dir": "HtoD", "src_kind": "Pinned", "dst_kind": "Device", "asked_calls": gib,
        "asked_bytes": gib << 30, "moved_calls": gib, "moved_bytes": gib << 30,
        "blocked_ns": ms * 10**6}
meta = {"type": "meta", "schema": 1, "pid": 1, "host": "h", "exe": "e",
        "gpus": [{"uuid": str(n)} for n in range(gpus)], **json.loads(sys.argv[5])}
with open(log, "w", encoding="utf-8") as file:
    for line in (meta, {"type": "summary", "wall_ns": 4 * 10**9, "flows": [flow],
                        "moved_by_kind": [between]}):
        print(json.dumps(line), file=file)
PYTHON
        run -0 json "[(f['rule'], f['text'][-16:]) for f in d['findings']
                      if f['kind'] == 'links']" report "$log"
    }
    pinned 4 128 2480 '{}'
    [[ $output == "[('[defaults]\\nlinks = idle\\n', 'aves up to 1.0 s')]" ]]
    pinned 1 128 2480 '{}'
    [[ $output == "[]" ]]
    pinned 4 128 2 '{}' # Nothing waited: they were asynchronous.
    [[ $output == "[]" ]]
    pinned 4 12 232 '{}' # Less than a context on a peer takes.
    [[ $output == "[]" ]]
    pinned 4 128 2480 '{"rank":1,"world":4,"rank_source":"slurm"}'
    [[ $output == "[]" ]]
    relayed=32 pinned 4 128 2480 '{}' # They went over several links.
    [[ $output == "[]" ]]
    run -0 zc report "$log"
    [[ $output == *" moved (32 GiB over the links of other GPUs), 0 B copied by "* ]]
}

@test "of a folder only files are read, and what else has a log's name is told" {
    folder=$BATS_TEST_TMPDIR/logs
    mkdir "$folder"
    cp $LOGS/pipeline.jsonl "$folder/one.jsonl"
    ln -s one.jsonl "$folder/link.jsonl"
    mkfifo "$folder/pipe.jsonl" "$folder/pipe.counters"
    ln -s /dev/zero "$folder/zero.jsonl"
    ln -s nothing "$folder/gone.jsonl"
    run -0 --separate-stderr timeout 60 scripts/zc report "$folder"
    [[ $(grep -c ': no regular file; left out$' <<<"$stderr") -eq 4 ]]
    [[ $stderr == *"zc: $folder/pipe.jsonl: no regular file; left out"* ]]
    rm "$folder/one.jsonl"
    run -1 --separate-stderr timeout 60 scripts/zc report "$folder"
    [[ $stderr == *"zc: $folder: no log (*.jsonl) in this folder or below it" ]]
}
