#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The check for real GPUs on the simulated one: what it leaves.

load common.bash

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/storm-shared" "$ZC_BUILD/tests/gpu/driver_facts" \
        "$ZC_BUILD/tests/gpu/libmalloc_watch.so"
    command -v python3 >/dev/null || skip "no python3"
    sim_env vecadd
    export OUT_DIR=$BATS_TEST_TMPDIR/out ZC_JOBS=1
}

# Prints the places, results and effects of a program's rows: rows PROGRAM
rows() {
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    if row.get("program") == sys.argv[2]:
        print("{place}: {result}; {effect}".format(**row))' "$OUT_DIR/results.part.jsonl" "$1"
}

# Of the builds of storm the simulation runs the one with the shared runtime.  Its places run side
# by side, and are found in their order.
@test "the check writes what each program did in each place" {
    ZC_JOBS=4 run -1 tests/gpu/run.sh kernels together only=storm
    [[ $(rows storm-shared | grep -c ": same; ") -eq 9 ]]
    places=$(rows storm-shared | sed "s/:.*//" | xargs)
    [[ $places == "bare none device mapped managed vmm grow pinned shared" ]]
    rows storm-static | grep "^bare: FAILED: exit status 3;"
    [[ $output == *"8 rows the same as bare, 1 failed, "*" not measured" ]]
    [[ $output != *facts* ]] # These take longer than quick rows, and were not named.
    rm "$OUT_DIR/results.part.jsonl"
    run -0 tests/gpu/run.sh quick facts
    [[ $output == *"link_facts skipped"* && ! -e $OUT_DIR/results.part.jsonl ]]
}

@test "a message of a refusal is kept without the folder of the run" {
    run -0 env PYTHONPATH=tests python3 -B -c '
from gpu.runner import FOLDER, REFUSED
text = "libzc: cuMemcpy returned 1 for block 7 (4 B at 0x1) of rule all (/tmp/run/policy.conf:3)"
print(FOLDER.sub("(", REFUSED.search(text).group(1)))'
    [[ $output == "cuMemcpy returned 1 for block 7 (4 B at 0x1) of rule all (policy.conf:3)" ]]
}

@test "each row says what its place did to the program" {
    need_built "$ZC_BUILD/kernels/vecadd-shared"
    need_built "$ZC_BUILD/tests/gpu/link_facts"
    run -0 tests/gpu/run.sh facts kernels together only=vecadd-shared
    [[ $output == *"link_facts skipped: it needs more GPUs"* && $output != *"link_facts failed"* ]]
    diff - <(rows vecadd-shared | sed 's/ in 3 blocks/ in 3/g') <<'ROWS'
bare: same; -
none: same; -
device: same; device 12 MiB in 3, moved as Pageable 12 MiB
mapped: same; mapped 12 MiB in 3, CPU-copied 12 MiB
managed: same; managed 12 MiB in 3, moved as Managed 12 MiB
vmm: same; vmm 12 MiB in 3, moved as Pageable 12 MiB
grow: same; vmm 12 MiB in 3, moved as Pageable 12 MiB
pinned: same; pinned 12 MiB in 3, moved as Pinned 12 MiB
shared: same; pinned 12 MiB in 3, moved as Pinned 12 MiB
ROWS
}

# matmul and rowsum_zerocopy wait at barriers for too long here.
@test "vmm gives memory to each program that the check runs with arguments of its own" {
    local -A kernels_of=([overlap]=pipeline [storm]=vecadd)
    local program arguments log=$BATS_TEST_TMPDIR/log.jsonl
    while read -r program arguments; do
        echo "$program $arguments"
        need_built "$ZC_BUILD/kernels/$program-shared"
        sim_env "${kernels_of[$program]:-$program}"
        ZC_LOG=$log ZC_LOG_LEVEL=allocs SIM_DEVICES=2 run -0 \
            under_policy "place = vmm" "$ZC_BUILD/kernels/$program-shared" $arguments
        [[ $(grep '^{"program"' <<<"$output" | json_field verified) == true ]]
        grep '"type":"alloc"' "$log" | grep -q '"place":"vmm"'
        rm "$log"
    done < <(PYTHONPATH=tests python3 -B -c '
from gpu.programs import ARGUMENTS
for name in ARGUMENTS.keys() - {"matmul", "rowsum_zerocopy"}:
    print(name, ARGUMENTS[name])')
}

@test "a row without an effect passes where no request of the program matches its policy" {
    need_built "$ZC_BUILD/kernels/transfer_managed-shared" "$SIM/kernels/transfer.so"
    sim_env transfer
    run -0 tests/gpu/run.sh kernels together only=transfer_managed-shared
    rows transfer_managed-shared | grep -Fx "mapped: same; -: no request matches"
    rows transfer_managed-shared | grep -Fx "pinned: same; -: no request matches"
}

# A folder of samples with the given program in it.
sample_of() {
    export ZC_SAMPLES=$BATS_TEST_TMPDIR/samples
    local name
    name=$(basename "$1")
    mkdir -p "$ZC_SAMPLES/$name"
    cp "$1" "$ZC_SAMPLES/$name/$name"
    echo "$name" >"$ZC_SAMPLES/samples.tsv"
}

@test "a row fails where the policy should have had an effect and had none" {
    need_built "$ZC_BUILD/tests/preload/programs/deepbind"
    sample_of "$ZC_BUILD/tests/preload/programs/deepbind"
    run -1 tests/gpu/run.sh samples only=deepbind
    rows deepbind
    rows deepbind | grep "^pinned: FAILED: no effect: rule libc: 2 MiB of blocks of malloc copied,\
 nothing placed: requests of rule libc (policy.conf:1) stay pageable: a library that RTLD_DEEPBIND\
 .*; no effect: moved as Pageable 2 MiB$"
    rows deepbind | grep "^shared: FAILED: no effect: rule host: .* RTLD_DEEPBIND"
    rows deepbind | grep "^mapped: same; mapped 1 MiB in 1 block, CPU-copied 2 MiB$"
}

# Stand-ins for tools.  memcheck finds something under `vmm`; cuda-gdb must not be preloaded itself;
# MPS has a server while its control daemon runs.
stand_ins() {
    mkdir "$BATS_TEST_TMPDIR/bin"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH
    cat >"$BATS_TEST_TMPDIR/bin/compute-sanitizer" <<'TOOL'
#!/bin/sh
shift 2
"$@" || exit
found=0
if grep -qs "place = vmm" "$ZC_POLICY"; then found=1; fi
echo "========= ERROR SUMMARY: $found errors"
TOOL
    cat >"$BATS_TEST_TMPDIR/bin/cuda-gdb" <<'TOOL'
#!/bin/bash
[[ -z ${LD_PRELOAD:-} ]] || exit 1
while [[ $1 != --args ]]; do
    read -r set environment name value <<<"$1"
    [[ "$set $environment" != "set environment" ]] || export "$name=$value"
    shift
done
"${@:2}" && echo "[Inferior 1 (process $$) exited normally]"
TOOL
    cat >"$BATS_TEST_TMPDIR/bin/nvidia-cuda-mps-control" <<'TOOL'
#!/bin/sh
[ -z "$LD_PRELOAD" ] || exit 1
[ "$1" != -d ] || exec touch "$CUDA_MPS_PIPE_DIRECTORY/up"
read -r order
[ "$order" = quit ] && rm "$CUDA_MPS_PIPE_DIRECTORY/up"
[ "$order" = get_server_list ] && cat "$CUDA_MPS_PIPE_DIRECTORY/up" && echo 4711
TOOL
    chmod +x "$BATS_TEST_TMPDIR"/bin/*
}

@test "a row fails by what a tool finds in its place; a tool that is not there is skipped by name" {
    need_built "$ZC_BUILD/kernels/gather-shared"
    sim_env gather
    stand_ins
    local tool
    ZC_JOBS=4 run -1 tests/gpu/run.sh tools only="gather-shared in" place=mapped place=vmm
    for tool in memcheck racecheck cuda-gdb MPS; do
        echo "$tool"
        rows "gather-shared in $tool"
    done | diff - <(sed 's/same; M/same; mapped 4.04 MiB in 3 blocks, CPU-copied 4.04 MiB/
s/; V/; vmm 4 MiB in 1 block, moved as Pageable 4.04 MiB/' <<'ROWS'
memcheck
bare: same; -
mapped: same; M
vmm: FAILED: None, bare '"checksum":"879e9fb44f4da242"; ========= ERROR SUMMARY: 0 errors'; V
racecheck
bare: FAILED: no verdict; -
cuda-gdb
bare: same; -
mapped: same; M
vmm: same; V
MPS
bare: same; -
mapped: same; M
vmm: same; V
ROWS
)
    command -v ncu && return
    rows "gather-shared in ncu" | grep -Fx "bare: skipped: ncu is not here; -"
}

# Prints what the check says of a program that ran under a policy other than that of its row:
# judged ROW RULE POLICY COMMAND...
judged() {
    local row=$1 rule=$2 top=$BATS_TEST_TMPDIR/$1
    mkdir -p "$top"/{watched,done}
    write_policy "$3"
    shift 3
    ZC_POLICY=off ZC_LOG=$top/watched/log.jsonl ZC_LOG_LEVEL=events \
        ZC_WATCH_OUT=$top/watched/malloc \
        LD_PRELOAD=$PWD/$ZC_BUILD/tests/gpu/libmalloc_watch.so:$LIBZC "$@" >/dev/null
    ZC_POLICY=$BATS_TEST_TMPDIR/policy.conf ZC_LOG=$top/done/log.jsonl \
        ZC_LOG_LEVEL=allocs LD_PRELOAD=$LIBZC "$@" >/dev/null
    (cd tests && python3 -B -c 'import sys
from gpu import effect
row, rule, top = sys.argv[1:]
print(effect.judge(row, [rule], effect.Expected(top + "/watched"), top + "/done")[1])' \
        "$row" "$rule" "$top")
}

@test "what a policy should have done does not rest on what libzc says" {
    need_built "$ZC_BUILD/kernels/vecadd-shared"
    run -0 judged pinned libc "[rule libc]
api = malloc
size = 1G..
place = pinned" "$ZC_BUILD/kernels/vecadd-shared"
    [[ $output == *"rule libc: 12 MiB of blocks of malloc copied, nothing placed: no message"* ]]
    run -0 judged mapped all "place = vmm" "$ZC_BUILD/kernels/vecadd-shared"
    [[ $output == *"rule all: 12 MiB copied, none of it otherwise than bare" ]]
}

# Tens of programs are left as the first has ended.
@test "a check that is ended early leaves the rows of the programs that have ended" {
    tests/gpu/run.sh kernels >"$BATS_TEST_TMPDIR/said" &
    local check=$!
    until grep -q "^kernels " "$BATS_TEST_TMPDIR/said"; do
        kill -0 "$check"
        sleep 0.05
    done
    kill -KILL "$check"
    wait "$check" || true
    read -r _ first _ <"$BATS_TEST_TMPDIR/said"
    [[ -n $(rows "${first%:}") ]]
}

# A part of a check of version $1 with rows of storm: part VERSION PLACE RESULT...
part() {
    local version=$1
    echo "{\"libzc\":\"$version\",\"date\":\"a day\",\"machine\":\"a GPU\"}"
    for ((i = 2; i < $#; i += 2)); do
        echo "{\"program\":\"storm\",\"place\":\"${!i}\",\"result\":\"${@:i + 1:1}\"," \
            '"seconds":0.1,"asked":1,"moved":2,"cpu_copied":3,"elided":4,"effect":"-",' \
            "\"referee\":\"0\",\"libzc\":\"$version\",\"date\":\"a day\"}"
    done
}

@test "kept results take the newer rows and keep the others, each with its version" {
    cd "$BATS_TEST_TMPDIR"
    local results=$BATS_TEST_DIRNAME/../gpu/results.py
    printf 'Head.\n<!-- results: begin -->\n<!-- results: end -->\nTail.\n' >RESULTS.md
    part aaa bare same mapped same vmm "refused: a rule" >first.jsonl
    part bbb mapped "FAILED: other bytes" vmm "skipped: no GPU" >second.jsonl
    part aaa bare same | sed "s/storm/later/" >>first.jsonl
    "$results" first.jsonl second.jsonl --into kept.jsonl
    [[ $(head -n 1 RESULTS.md) == Head. && $(tail -n 1 RESULTS.md) == Tail. ]]
    grep -q "^0 rows the same as bare, 1 failed, 1 refused, .* 4 rows agree" RESULTS.md
    [[ $(grep "^- " RESULTS.md) == "- aaa: a day; a GPU"$'\n'"- bbb: a day; a GPU" ]]
    grep -q "^| storm | mapped | FAILED: other bytes | 0 | bbb |$" RESULTS.md
    grep -q "^| storm | vmm | refused: a rule | 0 | aaa |$" RESULTS.md
    grep -q "^| bare | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 2 |$" RESULTS.md
    part ccc bare same mapped same vmm same none same >third.jsonl
    sed "s/storm/later/" third.jsonl >fourth.jsonl
    "$results" third.jsonl fourth.jsonl --into kept.jsonl
    [[ $(grep "^- " RESULTS.md) == "- ccc: a day; a GPU" ]]
    # The rows of a program stay together.
    [[ $(sed -n 's/.*"program":"\([a-z]*\)".*/\1/p' kept.jsonl | uniq | xargs) == "storm later" ]]
    echo '{"program":"storm","place":"bare","result":"same"}' >short.jsonl
    cp kept.jsonl before.jsonl
    run -1 "$results" short.jsonl --into kept.jsonl
    [[ $output == *"short.jsonl: neither a check nor a row of results"* ]]
    cmp before.jsonl kept.jsonl
}

@test "the page of results is that of the kept rows" {
    cp tests/gpu/results.jsonl tests/gpu/RESULTS.md "$BATS_TEST_TMPDIR"
    tests/gpu/results.py --into "$BATS_TEST_TMPDIR/results.jsonl"
    diff tests/gpu/results.jsonl "$BATS_TEST_TMPDIR/results.jsonl"
    diff tests/gpu/RESULTS.md "$BATS_TEST_TMPDIR/RESULTS.md"
}
