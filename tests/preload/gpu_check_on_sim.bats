#!/usr/bin/env bats
# The check for real GPUs on the simulated one: what it leaves.

load common.bash

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/storm-shared" "$ZC_BUILD/tests/gpu/driver_facts" \
        "$ZC_BUILD/tests/gpu/libmalloc_watch.so"
    command -v python3 >/dev/null || skip "no python3"
    sim_env vecadd
    export OUT_DIR=$BATS_TEST_TMPDIR/out ZC_JOBS=1
}

# Of the builds of storm the simulation runs the one with the shared runtime.  Its places run side
# by side, and are found in their order.
@test "the check writes what each program did in each place" {
    ZC_JOBS=4 run -1 tests/gpu/run.sh kernels together only=storm
    [[ $(grep -c "^| storm-shared | .* | same |" "$OUT_DIR/RESULTS.part.md") -eq 9 ]]
    places=$(sed -n "s/^| storm-shared | \([a-z]*\) .*/\1/p" "$OUT_DIR/RESULTS.part.md" | xargs)
    [[ $places == "bare none device mapped managed vmm grow pinned shared" ]]
    grep -q "^| storm-static | bare | FAILED: exit status 3 |" "$OUT_DIR/RESULTS.part.md"
    grep -q "^8 rows the same as bare, 1 failed, .* not measured\.$" "$OUT_DIR/RESULTS.part.md"
}

@test "a message of a refusal is kept without the folder of the run" {
    need_built "$ZC_BUILD/kernels/rewrite-shared" "$SIM/kernels/sampled.so"
    sim_env sampled
    run -0 tests/gpu/run.sh kernels together only=rewrite-shared
    grep "^| rewrite-shared | shared | refused: .* by rule device (policy.conf" \
        "$OUT_DIR/RESULTS.part.md"
    run -1 grep -F "($BATS_TEST_TMPDIR" "$OUT_DIR/RESULTS.part.md"
    run -1 grep -F "(/" "$OUT_DIR/RESULTS.part.md"
}

# Prints the results and effects of a program's rows: rows PROGRAM
rows() {
    sed -n "s/^| $1 | \([a-z]*\) | \([^|]*\) |.* | \([^|]*\) | [^|]* | [^|]* |$/\1: \2; \3/p" \
        "$OUT_DIR/RESULTS.part.md"
}

@test "each row says what its place did to the program" {
    need_built "$ZC_BUILD/kernels/vecadd-shared"
    run -0 tests/gpu/run.sh kernels together only=vecadd-shared
    diff - <(rows vecadd-shared) <<'ROWS'
bare: same; -
none: same; -
device: same; device 12 MiB in 3 blocks, moved as Pageable 12 MiB
mapped: same; mapped 12 MiB in 3 blocks, CPU-copied 12 MiB
managed: same; managed 12 MiB in 3 blocks, moved as Managed 12 MiB
vmm: same; vmm 12 MiB in 3 blocks, moved as Pageable 12 MiB
grow: same; vmm 12 MiB in 3 blocks, moved as Pageable 12 MiB
pinned: same; pinned 12 MiB in 3 blocks, moved as Pinned 12 MiB
shared: same; pinned 12 MiB in 3 blocks, shared 12 MiB in 3 blocks, elided 12 MiB, parted 2 pages
ROWS
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
@test "a check that is ended early leaves the table of the programs that have ended" {
    tests/gpu/run.sh kernels >"$BATS_TEST_TMPDIR/said" &
    local check=$!
    until grep -q "^kernels " "$BATS_TEST_TMPDIR/said"; do
        kill -0 "$check"
        sleep 0.05
    done
    kill -KILL "$check"
    wait "$check" || true
    read -r _ first _ <"$BATS_TEST_TMPDIR/said"
    grep -q "^| ${first%:}" "$OUT_DIR/RESULTS.part.md"
}

# A part of a check of version $1 with rows of storm: part VERSION PLACE RESULT...
part() {
    local version=$1
    printf -- '- %s: a day; a GPU\n\n' "$version"
    for ((i = 2; i < $#; i += 2)); do
        echo "| storm | ${!i} | ${@:i + 1:1} | 0.1 | 1 | 2 | 3 | 4 | - | 0 | $version |"
    done
}

@test "kept results take the newer rows and keep the others, each with its version" {
    cd "$BATS_TEST_TMPDIR"
    local results=$BATS_TEST_DIRNAME/../gpu/results.py
    printf 'Head.\n<!-- results: begin -->\n<!-- results: end -->\nTail.\n' >kept.md
    part aaa bare same mapped same vmm "refused: a rule" >first.md
    part bbb mapped "FAILED: other bytes" vmm "skipped: no GPU" >second.md
    part aaa bare same | sed "s/storm/later/" >>first.md
    "$results" first.md second.md --into kept.md
    [[ $(head -n 1 kept.md) == Head. && $(tail -n 1 kept.md) == Tail. ]]
    grep -q "^0 rows the same as bare, 1 failed, 1 refused, .* 4 rows agree" kept.md
    [[ $(grep "^- " kept.md) == "- aaa: a day; a GPU"$'\n'"- bbb: a day; a GPU" ]]
    [[ $(sed -n 's/^| storm | \([a-z]*\) .* | \([a-z]*\) |$/\1 \2/p' kept.md | xargs) == \
        "bare aaa mapped bbb vmm aaa" ]]
    part ccc bare same mapped same vmm same none same >third.md
    sed "s/storm/later/" third.md >fourth.md
    "$results" third.md fourth.md --into kept.md
    [[ $(grep "^- " kept.md) == "- ccc: a day; a GPU" ]]
    # The rows of a program stay together.
    [[ $(sed -n 's/^| \(storm\|later\) .*/\1/p' kept.md | uniq | xargs) == "storm later" ]]
    echo "| storm | bare | same |" >short.md
    cp kept.md before.md
    run -1 "$results" short.md --into kept.md
    [[ $output == *"short.md: not a row of results"* ]]
    cmp before.md kept.md
}
